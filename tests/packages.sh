#!/usr/bin/env bash
# Packs the three crates, unpacks them into an empty folder without this repository around them, and runs their tests there.
# Needs what cargo needs; about a gigabyte in the folder, which is removed.
set -euo pipefail
cd "$(dirname "$0")/.."

crates=(ratelimit-core ratelimit-macros ratelimit-actix)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

cargo package --no-verify --allow-dirty --quiet --target-dir "$place/packed" "${crates[@]/#/-p}"
for crate in "${crates[@]}"; do
  tar -xzf "$place/packed/package/$crate"-*.crate -C "$place"
done

{
  echo '[workspace]'
  echo 'resolver = "3"'
  echo 'members = ["ratelimit-*-[0-9]*"]'
  echo '[patch.crates-io]'
  for crate in "${crates[@]}"; do
    echo "$crate = { path = \"$(cd "$place" && echo "$crate"-[0-9]*)\" }"
  done
} >"$place/Cargo.toml"
cp Cargo.lock "$place"
cd "$place"
for crate in "${crates[@]}"; do
  test -s "$crate"-[0-9]*/README.md
done
export CARGO_TARGET_DIR="$place/target"
# The documentation as docs.rs builds it: it has the pages of the guide.
RUSTDOCFLAGS="--cfg docsrs -D warnings" cargo doc --no-deps --all-features -p ratelimit-actix
cargo test --workspace --all-features
