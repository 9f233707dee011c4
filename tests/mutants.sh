#!/usr/bin/env bash
# Mutates the code and the Lua scripts, and reports which mutations no test notices. Needs cargo-mutants and redis-server.
#
#   tests/mutants.sh                 all areas: algorithm, store, facade, lua, lease; some hours on two cores
#   tests/mutants.sh lua algorithm   some of them
#   ONLY='refund|log' tests/mutants.sh lua   the mutations of a list whose file or name matches
#
# Works on a copy in target/mutants/tree, and leaves the lists of cargo-mutants in target/mutants/AREA/mutants.out. Fails
# when a mutation of tests/mutants/lua.txt or lease.txt survives, or when its text is not found exactly once. Survivors of cargo-mutants
# are printed; tests/mutants/README.md says which of them are known, and why.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
work=$root/target/mutants
tree=$work/tree

need() { # need COMMAND HOW
  command -v "$1" >/dev/null || { echo "error: $1 is missing; $2" >&2; exit 1; }
}

# The quickest build: most of the time goes into building and linking the tests of each mutation.
export CARGO_TARGET_DIR=$work/build CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=1
export REDIS_REQUIRED=1 RUST_BACKTRACE=0
# Few random cases: what they alone would find belongs into a vector.
export DIFFERENTIAL_CASES=${DIFFERENTIAL_CASES:-300} ORACLE_CASES=${ORACLE_CASES:-100}

copy_tree() {
  rm -rf "$tree"
  mkdir -p "$tree"
  git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -T - -cf - 2>/dev/null |
    tar -C "$tree" -xf -
}

# rust AREA STAGE PACKAGE "GLOB .." "ARGUMENT .." "TEST ARGUMENT .."
# One run of cargo-mutants; each stage tries what the stages before it did not catch. Without optimization, since building a
# mutation takes longer than testing it.
rust() {
  local area=$1 stage=$2 package=$3 out=$work/$1 glob files=() iterate=()
  for glob in $4; do
    if [ "${glob#!}" = "$glob" ]; then files+=(--file "$glob"); else files+=(--exclude "${glob#!}"); fi
  done
  # The baseline of a later stage would look for its tests in the mutated package.
  [ "$stage" = 1 ] && rm -rf "$out" || iterate=(--iterate --baseline=skip)
  mkdir -p "$out"
  echo
  echo "== $area, stage $stage"
  copy_tree
  for glob in $4; do
    (cd "$tree" && compgen -G "${glob#!}" >/dev/null) || { echo "error: $area: there is no $glob" >&2; exit 1; }
  done
  # shellcheck disable=SC2086 # lists of words
  (cd "$tree" && cargo mutants --in-place --no-shuffle --all-features --package "$package" "${files[@]}" "${iterate[@]}" \
    -C=--config=profile.dev.package.ratelimit-core.opt-level=0 --output "$out" --timeout 120 --build-timeout 900 $5 -- $6) ||
    case $? in 2 | 3) ;; *) exit 1 ;; esac # 2: some survived; 3: some took too long
  awk 'FNR == 1 { file = FILENAME; sub(/.*\//, "", file) } { count[file]++ }
    END { printf "caught %d, timeout %d, unviable %d, survived %d\n", count["caught.txt"] + count["previously_caught.txt"],
      count["timeout.txt"], count["unviable.txt"], count["missed.txt"] }' "$out"/mutants.out/*.txt
}

algorithm() {
  local files='ratelimit-core/src/algorithm/*.rs ratelimit-core/src/algorithm.rs'
  # Without the tests of leases, which take most of the time and test other code.
  rust algorithm 1 ratelimit-core "$files" '' '--lib -- --skip lease::'
  rust algorithm 2 ratelimit-core "$files" '--test-package tests -C=--test=core' '-- vectors:: conformance::'
}

store() {
  # Without what makes and keeps connections: its tests are about real servers that fail, and take minutes. Leases have a
  # list of their own.
  local redis=ratelimit-core/src/store/redis
  local files="ratelimit-core/src/store/*.rs ratelimit-core/src/store/memory/*.rs $redis/denial_cache.rs $redis/key.rs
    $redis/protocol.rs $redis/protocol/*.rs $redis/error.rs $redis/command.rs $redis/remedy.rs $redis/queue/inbox.rs
    $redis/queue/in_flight.rs $redis/queue/pacing.rs"
  rust store 1 ratelimit-core "$files" '' '--lib'
  rust store 2 ratelimit-core "$files" \
    '--test-package tests -C=--test=core -C=--test=redis' \
    '-- vectors:: conformance:: denial_cache:: scripts:: expiry:: foreign_values:: client::'
}

facade() {
  local src=ratelimit-actix/src
  local files="$src/address.rs $src/address/*.rs $src/caller.rs $src/caller/*.rs $src/response/headers.rs
    $src/response/headers/*.rs $src/quotas/quota.rs $src/handler/by.rs $src/handler/default_key.rs"
  rust facade 1 ratelimit-actix "$files" '' '--lib'
  rust facade 2 ratelimit-actix "$files" \
    '--test-package tests -C=--test=http -C=--test=attribute' ''
}

# Tries one mutation of a list, and returns whether the tests notice it.
mutate() { # mutate AREA FILE NAME "TESTS" FROM TO
  local area=$1 folder=lua path name=$3 wanted=$4 from=${5//\\n/$'\n'} to=${6//\\n/$'\n'} text without found
  [ "$area" = lua ] || folder=src
  path=$tree/ratelimit-core/$folder/$2
  [ -f "$path" ] || { echo "error: $name: there is no ratelimit-core/$folder/$2" >&2; return 2; }
  text=$(<"$path")
  without=${text//"$from"/}
  found=$(((${#text} - ${#without}) / ${#from}))
  [ "$found" = 1 ] || { echo "NOT FOUND ONCE, but $found times: $2: $name: $from" >&2; return 2; }
  local build=() filters=() word
  if [ "$area" = lua ]; then
    build=(-p tests --all-features)
    for word in ${wanted%%--*}; do build+=(--test "$word"); done
    [ "$wanted" = "${wanted#*--}" ] || read -ra filters <<<"${wanted#*--}"
  else
    build=(-p ratelimit-core --all-features --lib)
    read -ra filters <<<"$wanted"
  fi
  printf '%s\n' "${text/"$from"/"$to"}" >"$path"
  (cd "$tree" && cargo test -q --no-run "${build[@]}") >"$work/$area.log" 2>&1 ||
    { cat "$work/$area.log" >&2; echo "error: $name: the tests do not build" >&2; exit 1; }
  local caught=0
  (cd "$tree" && timeout 300 cargo test -q "${build[@]}" -- "${filters[@]}") >"$work/$area.log" 2>&1 || caught=1
  printf '%s\n' "$text" >"$path"
  if [ "$caught" = 1 ]; then echo "caught    $2: $name"; else echo "SURVIVED  $2: $name"; return 1; fi
}

# Tries every mutation of tests/mutants/AREA.txt.
list() { # list AREA
  local area=$1 file='' name='' wanted='' from='' line caught=0 survived=0 lost=0
  [ "$area" != lua ] || need redis-server "tests/run.sh installs it"
  echo
  echo "== $area"
  copy_tree
  while IFS= read -r line; do
    case $line in
      '' | '#'*) ;;
      '@ '*) IFS='|' read -r file name wanted <<<"${line#@ }"; file=${file% } name=${name# } name=${name% } wanted=${wanted# } ;;
      '- '*) from=${line#- } ;;
      '+ '*)
        [ -n "$file" ] && [ -n "$from" ] || { echo "error: tests/mutants/$area.txt: $line" >&2; exit 1; }
        if [ -z "${ONLY:-}" ] || [[ "$file: $name" =~ $ONLY ]]; then
          if mutate "$area" "$file" "$name" "${wanted:-core -- vectors::the_redis_store conformance::redis_store}" "$from" "${line#+ }" </dev/null; then
            caught=$((caught + 1))
          else
            [ $? = 1 ] && survived=$((survived + 1)) || lost=$((lost + 1))
          fi
        fi
        from=''
        ;;
      *) echo "error: tests/mutants/$area.txt: $line" >&2; exit 1 ;;
    esac
  done <"$tree/tests/mutants/$area.txt"
  echo "$area: caught $caught, survived $survived, not found $lost"
  [ "$survived" = 0 ] && [ "$lost" = 0 ]
}

status=0
for area in "${@:-algorithm store facade lua lease}"; do
  for one in $area; do
    case $one in
      algorithm | store | facade)
        cargo mutants --version >/dev/null 2>&1 ||
          { echo "error: cargo-mutants is missing; install it with: cargo install cargo-mutants --locked" >&2; exit 1; }
        "$one"
        ;;
      lua | lease) list "$one" || status=1 ;;
      *) echo "error: no area $one; there are algorithm, store, facade, lua and lease" >&2; exit 1 ;;
    esac
  done
done
exit $status
