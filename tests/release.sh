#!/usr/bin/env bash
# Checks everything that a release needs, and publishes nothing. See RELEASING.md.
#
#   tests/release.sh                       every step
#   tests/release.sh changelog packages    some of them
#
# Needs cargo-semver-checks (once there is a tag), cargo-deny, the oldest supported compiler and a nightly one, as docs.rs has it. A
# missing tool is an error. With RELEASE_ALLOW_MISSING=1 the step is listed as not checked instead. So is a comparison with an earlier
# release while there is none.
set -euo pipefail
cd "$(dirname "$0")/.."

published=(ratelimit-core ratelimit-macros ratelimit-actix)
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
unchecked=()

needs() { # needs COMMAND HINT: whether the tool is there
  if eval "$1" >/dev/null 2>&1; then return 0; fi
  if [ "${RELEASE_ALLOW_MISSING:-}" = 1 ]; then
    unchecked+=("$step: $2")
    return 1
  fi
  echo "error: $step needs a tool that is missing: $2" >&2
  exit 1
}

# Nothing that is not committed goes into a release.
clean() {
  local changed
  changed=$(git status --porcelain)
  [ -z "$changed" ] || { echo "error: these files are not committed:" >&2; echo "$changed" >&2; exit 1; }
}

# The changelog has a section of the version with a date, and the crates name each other in that version.
changelog() {
  local heading
  heading=$(grep -m 1 "^## ${version//./\\.}\( \|$\)" CHANGELOG.md || true)
  grep -qE "^## [^ ]+ - [0-9]{4}-[0-9]{2}-[0-9]{2}$" <<<"$heading" || {
    echo "error: CHANGELOG.md needs the section \"## $version - YYYY-MM-DD\", found \"${heading:-none}\"; see step 3 of RELEASING.md" >&2
    exit 1
  }
  local crate
  for crate in "${published[@]}"; do
    grep -q "^$crate = { version = \"=\?$version\"" Cargo.toml || {
      echo "error: Cargo.toml does not name $crate in version $version" >&2
      exit 1
    }
  done
}

# The crates as they are published: packed, unpacked, built and tested without this repository around them.
packages() {
  tests/packages.sh
}

# No public item disappears or changes between two compatible versions.
semver() {
  local last
  last=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true)
  if [ -z "$last" ]; then
    unchecked+=("semver: there is no earlier release to compare with")
    return
  fi
  needs "cargo semver-checks --version" "cargo install --locked cargo-semver-checks" || return 0
  cargo semver-checks --baseline-rev "$last" "${published[@]/#/--package=}"
}

# Licences and advisories of all dependencies.
deny() {
  needs "cargo deny --version" "cargo install --locked cargo-deny" || return 0
  cargo deny check
}

msrv() {
  local oldest
  oldest=$(sed -n 's/^rust-version = "\([0-9.]*\)".*/\1/p' Cargo.toml)
  needs "rustup run $oldest rustc --version" "rustup toolchain install $oldest" || return 0
  tests/run.sh msrv
}

# The documentation as docs.rs builds it, with every link to an item. Links of the pages are a test of the package guide.
docs() {
  needs "rustup run nightly rustc --version" "rustup toolchain install nightly" || return 0
  local target=${CARGO_TARGET_DIR:-target}/release-docs
  rm -rf "$target/doc"
  # One after the other, because a link leads only to documentation that is there. Dependencies whose traits are on every page have
  # theirs elsewhere, as on docs.rs.
  local crate elsewhere="-Z unstable-options"
  for crate in tracing tracing_core; do
    elsewhere+=" --extern-html-root-url $crate=https://docs.rs/$crate/latest"
  done
  for crate in "${published[@]}"; do
    RUSTDOCFLAGS="--cfg docsrs -D warnings $elsewhere" \
      cargo +nightly doc --no-deps --all-features --target-dir "$target" -p "$crate"
  done
  cargo test -q -p guide
}

steps=("$@")
[ "$#" != 0 ] || steps=(clean changelog semver deny msrv docs packages)
for step in "${steps[@]}"; do
  case $step in
    clean | changelog | semver | deny | msrv | docs | packages) ;;
    *) echo "error: no step $step; there are clean, changelog, semver, deny, msrv, docs and packages" >&2; exit 1 ;;
  esac
done
for step in "${steps[@]}"; do
  echo "== $step"
  "$step"
done
echo
for line in ${unchecked[@]+"${unchecked[@]}"}; do
  echo "NOT CHECKED: $line"
done
passed=()
for step in "${steps[@]}"; do
  case " ${unchecked[*]+${unchecked[*]%%:*}} " in *" $step "*) ;; *) passed+=("$step") ;; esac
done
echo "version $version: passed in $SECONDS s: ${passed[*]}"
