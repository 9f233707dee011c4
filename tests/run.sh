#!/usr/bin/env bash
# Tells whether this repository is sound: it is formatted, compiles without warnings, and passes its tests, those of compile errors too.
#
#   tests/run.sh                  format, tests
#   tests/run.sh rest             what continuous integration asks beyond that: dependencies, lints, features, documentation, msrv, mutants,
#                                 random
#   tests/run.sh lints features   some of these steps, one after the other
#
# Many tests wait for real faults and leave the processors idle. What compiles runs meanwhile, at the lowest priority, so that it delays
# no test; its output comes at the end.
#
# Needs Rust; the tests install redis-server with the machine's package manager when it is missing, and fail without one.
set -euo pipefail
cd "$(dirname "$0")/.."

# A clean build is smaller and faster without both. Panics show their line all the same.
export CARGO_PROFILE_DEV_DEBUG=${CARGO_PROFILE_DEV_DEBUG:-0} CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
# Random cases are the same in every run, unless the environment has another seed.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}

published=(ratelimit-core ratelimit-macros ratelimit-actix)

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

install_redis() {
  command -v redis-server >/dev/null && return
  echo "redis-server is missing; installing it"
  # RUNLEVEL=1 asks Debian's installer not to start a service: the tests start servers of their own.
  if command -v apt-get >/dev/null; then
    as_root apt-get update -qq && as_root env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq redis-server
  elif command -v dnf >/dev/null; then
    as_root dnf install -y redis || as_root dnf install -y valkey-compat-redis
  elif command -v apk >/dev/null; then
    as_root apk add redis
  elif command -v brew >/dev/null; then
    brew install redis
  fi
  if ! command -v redis-server >/dev/null; then
    echo "error: no redis-server, and no way found to install one (tried apt-get, dnf, apk, brew)" >&2
    exit 1
  fi
}

only() { # only PACKAGE ALLOWED: its normal dependencies, by name
  local found
  found=$(cargo tree -p "$1" -e normal --prefix none --format '{p}' | awk '{print $1}' | sort -u | grep -vx "$1" | paste -sd' ')
  [ "$found" = "$2" ] || { echo "error: $1 depends on: $found; allowed: $2" >&2; exit 1; }
}

never() { # never PACKAGE PATTERN
  if cargo tree -p "$1" -e normal --all-features --prefix none --format '{p}' | grep -E "^($2)"; then
    echo "error: $1 must not depend on these" >&2
    exit 1
  fi
}

format() {
  cargo fmt --all -- --check
  comments
}

# rustfmt leaves comments as they are. Tables, code and lines of one word may be longer.
comments() {
  find benches examples ratelimit-* tests -name '*.rs' -exec awk '
    !match($0, /^ *\/\/[\/!]? */) { code = 0; next }
    { text = substr($0, RLENGTH + 1) }
    text ~ /^```/ { code = !code }
    length($0) > 110 && !code && text ~ /[^ *-] / && text !~ /^\|/ {
      print FILENAME ":" FNR ": a comment of " length($0) " columns, of which there may be 110"
      failed = 1
    }
    END { exit failed }' {} +
}

# Which crate may depend on what, no circle among the files of a crate, and what dependencies may be. Without known vulnerabilities, which
# change while the code does not: tests/release.sh asks for those.
dependencies() {
  only ratelimit-macros "proc-macro2 quote syn unicode-ident"
  never ratelimit-core "actix|http "
  cargo run -q -p circles -- "${published[@]}"
  if command -v cargo-deny >/dev/null; then
    cargo deny check bans licenses sources
  else
    echo "skipped: deny.toml needs cargo-deny (cargo install --locked cargo-deny)"
  fi
}

lints() {
  cargo clippy --workspace --all-targets --all-features -- -D warnings
}

# Every feature by itself, and none; `lints` has all of them together. A feature of the facade that its code does not name only
# passes on to one of the core, which has its own turn.
features() {
  local crate feature
  for crate in ratelimit-core ratelimit-actix; do
    echo "$crate: no feature"
    cargo clippy -q -p "$crate" --no-default-features -- -D warnings
    for feature in $(sed -n '/^\[features\]/,/^\[dependencies\]/s/^\([a-z-]*\) = .*/\1/p' "$crate/Cargo.toml" | grep -vx default); do
      if [ "$crate" = ratelimit-actix ] && ! grep -rqF "feature = \"$feature\"" "$crate/src"; then
        echo "$crate: $feature is one of the core"
        continue
      fi
      echo "$crate: $feature"
      cargo clippy -q -p "$crate" --no-default-features --features "$feature" -- -D warnings
    done
  done
}

# As docs.rs builds it, with the guide; and the facade as everyone else does.
documentation() {
  RUSTDOCFLAGS="--cfg docsrs -D warnings" cargo doc --workspace --no-deps --all-features
  RUSTDOCFLAGS="-D warnings" cargo doc -p ratelimit-actix --no-deps --all-features
}

# The oldest compiler that the crates support, when it is installed.
msrv() {
  local oldest toolchain
  oldest=$(sed -n 's/^rust-version = "\([0-9.]*\)".*/\1/p' Cargo.toml)
  toolchain=$(rustup toolchain list 2>/dev/null | grep -oE "^$oldest(\.[0-9]+)?-[^ ]+" | head -n 1 || true)
  if [ -n "$toolchain" ]; then
    cargo "+$toolchain" check "${published[@]/#/-p}" --all-features
    return
  fi
  echo "skipped: msrv needs Rust $oldest (rustup toolchain install $oldest)"
}

# Starts the steps beside what comes, at the lowest priority.
beside=()
start_beside() { # start_beside STEP..
  # In a process group of their own, which has a priority, and can be ended as a whole. What comes begins first: both need the build
  # folder for a moment.
  set -m
  { sleep 5; run_steps "$@"; } </dev/null >"$logs/${#beside[@]}" 2>&1 &
  beside+=("$!")
  set +m
  renice -n 19 -g "$!" >/dev/null
  trap 'kill -- "${beside[@]/#/-}" 2>/dev/null || true' EXIT
}

wait_beside() {
  local process failed=0
  for process in "${beside[@]}"; do
    wait "$process" || failed=1
  done
  trap - EXIT
  cat "$logs"/*
  beside=()
  [ "$failed" = 0 ]
}

prepare_tests() {
  install_redis
  # Most tests wait rather than compute, so that four at once for each core take less time in all.
  export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((4 * $(getconf _NPROCESSORS_ONLN)))}
  # A test that is skipped for want of a server, or of the compiler that wrote its expectations, is a failure here.
  export REDIS_REQUIRED=1 UI_REQUIRED=1
}

cargo_test=(cargo test --workspace --all-features --no-fail-fast)
ui_test=mistakes_fail_as_expected

# Runs a program of tests, unless it is that of the outages.
not_outages='target."cfg(unix)".runner = ["sh", "-c", "case $0 in */outages-*) ;; *) exec \"$0\" \"$@\" ;; esac"]'

# Builds tests, and fails if the compiler warns.
build_tests() { # build_tests ARGUMENT..
  "${cargo_test[@]}" --no-run "$@" 2>&1 | tee "$logs/build"
  if grep -E '^warning: .* generated [0-9]+ warning' "$logs/build"; then
    echo "error: the compiler warns, see above" >&2
    return 1
  fi
  rm "$logs/build"
}

# Without the examples that have no tests: they are built as the programs of the tests as well.
others() {
  build_tests --tests
}

# What the compiler says of mistakes. It checks the facade once more, in a folder of its own.
messages() {
  "${cargo_test[@]}" --test ui -- "$ui_test"
}

tests() {
  local logs failed=0
  logs=$(mktemp -d)
  prepare_tests
  # Random cases enough to find what is broken; the step `random` tries many.
  export DIFFERENTIAL_CASES=${DIFFERENTIAL_CASES:-500} ORACLE_CASES=${ORACLE_CASES:-150}
  export REFUND_CASES=${REFUND_CASES:-100} CALENDAR_CASES=${CALENDAR_CASES:-20}
  build_tests --test outages
  start_beside others messages
  "${cargo_test[@]}" --test outages || failed=1
  "${cargo_test[@]}" --tests --config "$not_outages" -- --skip "$ui_test" || failed=1
  "${cargo_test[@]}" --doc || failed=1
  wait_beside || failed=1
  rm -r "$logs"
  [ "$failed" = 0 ]
}

# As many random cases as a bare `cargo test` has.
random() {
  prepare_tests
  "${cargo_test[@]}" --test core -- differential:: oracle:: calendar::
}

# The lists of mutations fit the code and the tests. tests/mutants.sh tries them.
mutants() {
  prepare_tests
  tests/mutants.sh check
}

# What of the rest takes long compiles beside the random cases, most of whose time is the server's.
rest() {
  local logs failed=0
  logs=$(mktemp -d)
  run_steps dependencies msrv mutants
  start_beside lints documentation features
  random || failed=1
  wait_beside || failed=1
  rm -r "$logs"
  [ "$failed" = 0 ]
}

run_steps() {
  local step began
  for step in "$@"; do
    echo
    echo "== $step"
    began=$SECONDS
    "$step"
    echo "$step took $((SECONDS - began)) s"
  done
}

steps=("$@")
[ "$#" != 0 ] || steps=(format tests)
for step in "${steps[@]}"; do
  case $step in
    format | tests | rest | dependencies | lints | features | documentation | msrv | mutants | random) ;;
    *)
      echo "error: no step $step; there are format, tests, rest, dependencies, lints, features, documentation, msrv, mutants and random" >&2
      exit 1
      ;;
  esac
done
run_steps "${steps[@]}"
echo
echo "all of it took $SECONDS s; target/ has $(du -sh "${CARGO_TARGET_DIR:-target}" 2>/dev/null | cut -f1)"
