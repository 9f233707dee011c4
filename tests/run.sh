#!/usr/bin/env bash
# Runs every check of this repository: format, lints, documentation, dependency rules and all tests.
# Needs Rust; installs redis-server with the machine's package manager when it is missing, and fails without one.
set -euo pipefail
cd "$(dirname "$0")/.."

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

if ! command -v redis-server >/dev/null; then
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
fi
export REDIS_REQUIRED=1

step() {
  echo
  echo "== $*"
}

# Who may depend on what.
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

step format
cargo fmt --all -- --check
step dependencies
only ratelimit-macros "proc-macro2 quote syn unicode-ident"
never ratelimit-core "actix|http "
step lints
cargo clippy --workspace --all-targets --all-features -- -D warnings
cargo clippy -p ratelimit-core -p ratelimit-actix --no-default-features -- -D warnings
step documentation
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features
step tests
cargo test --workspace --all-features
