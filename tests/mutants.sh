#!/usr/bin/env bash
# Mutates the code and the Lua scripts, and reports which mutations no test notices. Needs cargo-mutants and redis-server.
#
#   tests/mutants.sh                 all areas: algorithm, store, facade, lua, rust; some hours on two cores
#   tests/mutants.sh lua algorithm   some of them
#   ONLY='refund|log' tests/mutants.sh rust   the mutations of a list whose file or name matches
#   tests/mutants.sh touched [BASE]  those of the files that differ from BASE, or from the commit before: as many as 10 minutes allow
#   tests/mutants.sh check           tries none, but tells whether the lists fit the code and the tests
#
# Works on a copy in target/mutants/tree, and leaves the lists of cargo-mutants in target/mutants/AREA/mutants.out. Fails
# when a mutation of tests/mutants/lua.txt or rust.txt survives, when its text is not found exactly once, or when there is no
# test of a name. Survivors of cargo-mutants are printed; tests/mutants/README.md says which of them are known, and why.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
work=$root/target/mutants
tree=$work/tree

need() { # need COMMAND HOW
  command -v "$1" >/dev/null || { echo "error: $1 is missing; $2" >&2; exit 1; }
}

# The quickest build: most of the time goes into building and linking the tests of each mutation. A check uses the tests that are
# there.
if [ "${1:-}" = check ]; then
  export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
else
  export CARGO_TARGET_DIR=$work/build CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=1
fi
export REDIS_REQUIRED=1 RUST_BACKTRACE=0
# Few random cases: what they alone would find belongs into a vector.
export DIFFERENTIAL_CASES=${DIFFERENTIAL_CASES:-300} ORACLE_CASES=${ORACLE_CASES:-100}

copy_tree() {
  rm -rf "$tree"
  mkdir -p "$tree"
  git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -T - -cf - 2>/dev/null |
    tar -C "$tree" -xf -
}

# automatic AREA STAGE PACKAGE "GLOB .." "ARGUMENT .." "TEST ARGUMENT .."
# One run of cargo-mutants; each stage tries what the stages before it did not catch. Without optimization, since building a
# mutation takes longer than testing it.
automatic() {
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
    -C=--config=profile.test.package.ratelimit-core.opt-level=0 --output "$out" --timeout 120 --build-timeout 900 $5 -- $6) ||
    case $? in 2 | 3) ;; *) exit 1 ;; esac # 2: some survived; 3: some took too long
  awk 'FNR == 1 { file = FILENAME; sub(/.*\//, "", file) } { count[file]++ }
    END { printf "caught %d, timeout %d, unviable %d, survived %d\n", count["caught.txt"] + count["previously_caught.txt"],
      count["timeout.txt"], count["unviable.txt"], count["missed.txt"] }' "$out"/mutants.out/*.txt
}

algorithm() {
  local files='ratelimit-core/src/algorithm/*.rs ratelimit-core/src/algorithm.rs'
  # Without the tests of leases, which take most of the time and test other code.
  automatic algorithm 1 ratelimit-core "$files" '' '--lib -- --skip lease::'
  automatic algorithm 2 ratelimit-core "$files" '--test-package tests -C=--test=core' '-- vectors:: conformance::'
}

store() {
  # Without what makes and keeps connections: its tests are about real servers that fail, and take minutes. Leases have a
  # list of their own.
  local redis=ratelimit-core/src/store/redis
  local files="ratelimit-core/src/store/*.rs ratelimit-core/src/store/memory/*.rs $redis/denial_cache.rs $redis/key.rs
    $redis/protocol.rs $redis/protocol/*.rs $redis/error.rs $redis/command.rs
    $redis/queue/waiting.rs $redis/queue/request.rs"
  automatic store 1 ratelimit-core "$files" '' '--lib'
  automatic store 2 ratelimit-core "$files" \
    '--test-package tests -C=--test=core -C=--test=redis' \
    '-- vectors:: conformance:: denial_cache:: scripts:: expiry:: foreign_values:: client::'
}

facade() {
  local src=ratelimit-actix/src
  local files="$src/address.rs $src/address/*.rs $src/caller.rs $src/caller/*.rs $src/response/headers.rs
    $src/response/headers/*.rs $src/quotas/quota.rs $src/written_limit.rs $src/written_limit/*.rs $src/handler/default_key.rs"
  automatic facade 1 ratelimit-actix "$files" '' '--lib'
  automatic facade 2 ratelimit-actix "$files" \
    '--test-package tests -C=--test=http -C=--test=attribute' ''
}

# Counts of the mutations of one list.
caught=0 survived=0 lost=0 untried=0

# each AREA ACTION: calls ACTION FILE NAME "TESTS" FROM TO for every mutation of tests/mutants/AREA.txt.
each() {
  local folder='' tests=''
  [ "$1" = rust ] || folder=ratelimit-core/lua/ tests='core -- vectors::the_redis_store conformance::redis_store'
  local file='' name='' wanted='' from='' to line
  while IFS= read -r line; do
    case $line in
      '' | '#'*) ;;
      '@ '*) IFS='|' read -r file name wanted <<<"${line#@ }"; file=$folder${file% } name=${name# } name=${name% } wanted=${wanted# } wanted=${wanted:-$tests} ;;
      '- '*) from=${line#- } ;;
      '+'*)
        [ -n "$file" ] && [ -n "$from" ] || { echo "error: tests/mutants/$1.txt: $line" >&2; exit 1; }
        to=${line#+} to=${to# }
        "$2" "$file" "$name" "$wanted" "${from//\\n/$'\n'}" "${to//\\n/$'\n'}" </dev/null
        from=''
        ;;
      *) echo "error: tests/mutants/$1.txt: $line" >&2; exit 1 ;;
    esac
  done <"$root/tests/mutants/$1.txt"
}

is_wanted() { # is_wanted FILE NAME
  [ -z "${ONLY:-}" ] || [[ "$1: $2" =~ $ONLY ]]
}

# is_once FILE NAME FROM: whether the text occurs exactly once in the file, as it is in the repository.
is_once() {
  local text without found=0
  if [ -f "$root/$1" ]; then
    text=$(<"$root/$1")
    without=${text//"$3"/}
    found=$(((${#text} - ${#without}) / ${#3}))
  fi
  [ "$found" = 1 ] && return
  echo "NOT FOUND ONCE, but $found times: $1: $2: $3" >&2
  lost=$((lost + 1))
  return 1
}

# replace FILE FROM TO: replaces the last occurrence of the text in the copy.
replace() {
  local text
  text=$(<"$tree/$1")
  printf '%s\n' "${text%"$2"*}$3${text##*"$2"}" >"$tree/$1"
}

report() { # report FILE NAME: after the tests, whose exit status is in $failed
  if [ "$failed" = 0 ]; then
    survived=$((survived + 1))
    echo "SURVIVED  $1: $2"
  else
    caught=$((caught + 1))
    echo "caught    $1: $2$([ "$failed" != 124 ] || echo " (timeout)")"
  fi
}

finish() { # finish AREA
  echo "$1: of ${#names[@]} mutations caught $caught, survived $survived, unfit $lost, not tried for want of time $untried, after $SECONDS s"
  [ "$survived" = 0 ] && [ "$lost" = 0 ]
}

# What lua.txt or rust.txt says, by the number of the mutation.
files=() names=() wanted_tests=()

# add_replacement FILE NAME "TESTS" FROM TO: makes a mutation of a script selectable in the copy: two files, which hold the text
# and its replacement. If other scripts have the text too, both begin with what stands before it.
add_replacement() {
  local from=$4 before='' number=${#names[@]}
  is_once "$1" "$2" "$from" || return 0
  if [ "$(cat "$root"/ratelimit-core/lua/*.lua | tr '\n' '\r' | grep -oF -- "${from//$'\n'/$'\r'}" | wc -l)" != 1 ]; then
    before=$(<"$root/$1") before=${before%%"$from"*} before=${before: -60}
  fi
  printf '%s' "$before$from" >"$tree/scripts/$number.from"
  printf '%s' "$before$5" >"$tree/scripts/$number.to"
  files+=("$1") names+=("$2") wanted_tests+=("$3")
}

add_replacements() {
  mkdir -p "$tree/scripts"
  each lua add_replacement
  sed -i 's|^    fn new(text: String) -> Self {$|&\n        let text = crate::mutated_script(text);|' \
    "$tree/ratelimit-core/src/store/redis/script.rs"
  cat >>"$tree/ratelimit-core/src/lib.rs" <<'SWITCH'

/// The script with the mutation that is selected, if it has its text.
pub(crate) fn mutated_script(text: String) -> String {
    let read = |number: &str, part| {
        std::fs::read_to_string(format!("{}/../scripts/{number}.{part}", env!("CARGO_MANIFEST_DIR")))
    };
    let Ok(number) = std::env::var("MUTANT") else { return text };
    let (Ok(from), Ok(to)) = (read(&number, "from"), read(&number, "to")) else { return text };
    text.replace(&from, &to)
}
SWITCH
}

# add_switch FILE NAME "TESTS" FROM TO: makes a mutation selectable in the copy.
add_switch() {
  local from=$4 to=$5 call
  is_once "$1" "$2" "$from" || return 0
  case $1 in ratelimit-core/*) call=crate::mutant ;; *) call=ratelimit_core::mutant ;; esac
  call="$call(${#names[@]})"
  files+=("$1") names+=("$2") wanted_tests+=("$3")
  if [[ $to == *'{M}'* ]]; then
    to=${to//'{M}'/"$call"}
  elif [[ $from == *[\;}] ]]; then
    to="if $call { $to } else { $from }"
  else
    to="(if $call { $to } else { $from })"
  fi
  # In the last occurrence: an earlier mutation of the same text has the original last.
  [[ $(<"$tree/$1") == *"$from"* ]] ||
    { echo "error: $1: $2: the text overlaps that of another mutation; give both the same text" >&2; exit 1; }
  replace "$1" "$from" "$to"
  # A switch cannot be read in a `const fn`.
  case $1 in */store/redis/* | */store/deadline.rs | */outcome/* | */check.rs | */reservation.rs | */response/*) sed -i 's/\bconst fn /fn /' "$tree/$1" ;; esac
}

# run_tests NUMBER "BINARY .." [FILTER ..]: runs tests with the mutation of this number, or without one.
run_tests() {
  local number=$1 word folder
  for word in $2; do
    case $word in ratelimit-*) folder=$word ;; *) folder=tests ;; esac
    (cd "$tree/$folder" && MUTANT=$number timeout 600 "${binaries[$word]}" -q "${@:3}") >"$work/tests.log" 2>&1 || return
  done
}

add_switches() {
  each rust add_switch
  cat >>"$tree/ratelimit-core/src/lib.rs" <<'SWITCH'

/// Whether the mutation of this number is selected.
#[doc(hidden)]
pub fn mutant(number: usize) -> bool {
    static SELECTED: std::sync::LazyLock<Option<usize>> =
        std::sync::LazyLock::new(|| std::env::var("MUTANT").ok()?.parse().ok());
    *SELECTED == Some(number)
}
SWITCH
}

compile() { # compile FOLDER COMMAND ARGUMENT ..
  (cd "$1" && cargo "$2" --all-features "${@:3}") >"$work/tests.log" 2>&1 ||
    { sed -n '/^error/,/^$/p' "$work/tests.log" >&2; echo "error: it does not compile" >&2; exit 1; }
}

# build FOLDER ARGUMENT ..: builds tests of the workspace in a folder, and lists them.
declare -A binaries=() lists=()
build() {
  local path word
  compile "$1" test --no-run "${@:2}"
  while read -r path; do
    word=${path##*/} word=${word%-*}
    case $path in /*) ;; *) path=$1/$path ;; esac
    # Without the toolchain's libraries, tests of a crate of macros do not start.
    binaries[${word//_/-}]=$path lists[${word//_/-}]=$("$path" --list 2>/dev/null || true)
  done < <(sed -n 's/^ *Executable .*(\(.*\))$/\1/p' "$work/tests.log")
  echo "built in $SECONDS s"
}

# has_tests FILE NAME "BINARY .. -- FILTER ..": whether each filter finds a test in a binary, and each binary has a test.
has_tests() {
  local word filter missing=" ${3/ -- / } "
  for word in ${3%% -- *}; do
    for filter in ${3##* -- }; do
      [[ ${lists[$word]:-} != *"$filter"* ]] || missing=${missing/" $word "/ } missing=${missing/" $filter "/ }
    done
  done
  [ "$missing" != ' ' ] || return 0
  echo "NO TEST   $1: $2:$missing" >&2
  lost=$((lost + 1))
  return 1
}

# Whether the text of each mutation is in the code, the tests that it names exist, and the mutated code compiles.
check() {
  local number word arguments=(--workspace --lib)
  for word in $(sed -n 's/^@ .*| *\([^|]*\) -- .*/\1/p' tests/mutants/*.txt | tr ' ' '\n' | grep -v '^ratelimit-' | sort -u); do
    arguments+=(--test "$word")
  done
  build "$root" "${arguments[@]}"
  add_replacements
  add_switches
  for number in "${!names[@]}"; do has_tests "${files[number]}" "${names[number]}" "${wanted_tests[number]}" || true; done
  compile "$tree" check -p ratelimit-core -p ratelimit-actix
}

# Builds the tests once, with every mutation of the list in them, and runs for each mutation the tests that it names.
try_all() {
  local number word wanted filters arguments=() failed
  local -A filters_of=()
  for number in "${!names[@]}"; do
    is_wanted "${files[number]}" "${names[number]}" || continue
    wanted=${wanted_tests[number]}
    for word in ${wanted%% -- *}; do filters_of[$word]+=" ${wanted##* -- }"; done
  done
  [ "${#filters_of[@]}" != 0 ] || return 0
  for word in "${!filters_of[@]}"; do
    case $word in ratelimit-*) arguments+=(-p "$word") ;; *) arguments+=(-p tests --test "$word") ;; esac
  done
  [[ "${arguments[*]}" != *ratelimit-* ]] || arguments+=(--lib)
  build "$tree" "${arguments[@]}"
  for word in "${!filters_of[@]}"; do
    # shellcheck disable=SC2086 # a list of words
    run_tests none "$word" ${filters_of[$word]} ||
      { cat "$work/tests.log" >&2; echo "error: the tests of $word fail without a mutation" >&2; exit 1; }
  done
  echo "all tests pass without a mutation, after $SECONDS s"
  for number in "${!names[@]}"; do
    is_wanted "${files[number]}" "${names[number]}" || continue
    wanted=${wanted_tests[number]} failed=0
    has_tests "${files[number]}" "${names[number]}" "$wanted" || continue
    [ "$SECONDS" -lt "$most_seconds" ] || { untried=$((untried + 1)); continue; }
    read -ra filters <<<"${wanted##* -- }"
    run_tests "$number" "${wanted%% -- *}" "${filters[@]}" || failed=$?
    report "${files[number]#ratelimit-*/src/}" "${names[number]}"
  done
}

# touched [BASE]: selects the mutations of the files that differ from BASE, by default the parent of the present commit.
touched() {
  local base
  base=$(git merge-base "${1:-HEAD^}" HEAD) || { echo "error: no commit ${1:-HEAD^} to compare with; name one" >&2; exit 1; }
  ONLY="^($(git diff --name-only "$base" -- ratelimit-core ratelimit-actix | paste -sd'|')):"
}

mkdir -p "$work"
status=0 most_seconds=86400 areas=${*:-algorithm store facade lua rust}
case $areas in
  touched*) touched "${2:-}"; areas='rust lua' most_seconds=600 ;;
esac
for area in $areas; do
  case $area in
    algorithm | store | facade)
      cargo mutants --version >/dev/null 2>&1 ||
        { echo "error: cargo-mutants is missing; install it with: cargo install cargo-mutants --locked" >&2; exit 1; }
      "$area"
      ;;
    lua | rust | check)
      echo
      echo "== $area"
      need redis-server "tests/run.sh installs it"
      copy_tree
      caught=0 survived=0 lost=0 untried=0 files=() names=() wanted_tests=()
      case $area in
        lua) add_replacements; try_all ;;
        rust) add_switches; try_all ;;
        check) check ;;
      esac
      finish "$area" || status=1
      ;;
    *) echo "error: no area $area; there are algorithm, store, facade, lua, rust, touched and check" >&2; exit 1 ;;
  esac
done
exit $status
