#!/usr/bin/env bash
# Measures what #[rate_limit] adds to the time that a service takes to compile: 100 handlers with a path parameter and a
# JSON body each, without the attribute, with a constant limit, and with choices.
#
# Processor time of rustc, user and system, so that other work on the machine matters little; the least and the most of RUNS
# (default 5), and what a handler adds by the least. Incremental compilation is off. Prints a table in Markdown.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
runs=${RUNS:-5}
handlers=100
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/compile-time

variant() { # variant NAME ATTRIBUTE: a package of that many handlers, each in a file of one
  mkdir -p "$folder/$1/src"
  cat >"$folder/$1/Cargo.toml" <<EOF
[package]
name = "$1"
version = "0.0.0"
edition = "2024"

[dependencies]
actix-web = { version = "4.18", default-features = false, features = ["macros"] }
ratelimit-actix = { path = "$root/ratelimit-actix", default-features = false }

[workspace]
EOF
  cp Cargo.lock "$folder/$1/Cargo.lock"
  {
    echo '#![allow(unused_imports)]'
    echo 'use actix_web::{App, HttpRequest, post, web};'
    echo 'use ratelimit_actix::rate_limit;'
    for ((i = 0; i < handlers; i++)); do
      [ -z "$2" ] || echo "$2"
      echo "#[post(\"/h$i/{id}\")]"
      echo "async fn h$i(id: web::Path<u64>, body: web::Json<Vec<String>>) -> String { format!(\"{id} {}\", body.len()) }"
    done
    echo 'fn main() { let app = App::new()'
    for ((i = 0; i < handlers; i++)); do echo ".service(h$i)"; done
    echo '; drop(app); }'
  } >"$folder/$1/src/main.rs"
}

variant bare ''
variant constant '#[rate_limit(max = 10, window = "60s")]'
variant chosen '#[rate_limit(max = |_: &HttpRequest| 10, by = |id: web::Path<u64>| *id, count = "failures")]'

measure() { # measure VARIANT PROFILE: least and most processor time in milliseconds
  local least= most=
  for ((run = 0; run <= runs; run++)); do
    touch "$folder/$1/src/main.rs"
    TIMEFORMAT='%U %S'
    local took
    took=$({ time cargo build --offline --quiet --manifest-path "$folder/$1/Cargo.toml" $2 >&2; } 2>&1 | tail -n 1 | awk '{ printf "%d", ($1 + $2) * 1000 }')
    # The first run also builds the dependencies.
    [ "$run" -gt 0 ] || continue
    if [ -z "$least" ] || [ "$took" -lt "$least" ]; then least=$took; fi
    if [ -z "$most" ] || [ "$took" -gt "$most" ]; then most=$took; fi
  done
  echo "$least $most"
}

echo "| profile | $handlers bare handlers | with a constant limit | each | with choices and \`count\` | each |"
echo "|---|---|---|---|---|---|"
for profile in '' --release; do
  bare=$(measure bare "$profile")
  constant=$(measure constant "$profile")
  chosen=$(measure chosen "$profile")
  awk -v profile="${profile:---debug}" -v times="$bare $constant $chosen" -v n="$handlers" 'BEGIN {
    split(times, t, " ")
    for (i = 1; i <= 6; i++) t[i] /= 1000
    printf "| %s | %.2f to %.2f s | %.2f to %.2f s | +%.0f ms | %.2f to %.2f s | +%.0f ms |\n", substr(profile, 3),
      t[1], t[2], t[3], t[4], (t[3] - t[1]) * 1000 / n, t[5], t[6], (t[5] - t[1]) * 1000 / n
  }'
done
