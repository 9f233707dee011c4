#!/usr/bin/env bash
# Tests the operator's page in a headless Chromium, and installs Debian's if there is none.
#
#   tests/browser.sh                     the tests
#   tests/browser.sh docs/operating.png  the tests, and a picture of the page in this file: ninety seconds
#
# CHROMEDRIVER names another driver than the one in PATH.
set -euo pipefail
cd "$(dirname "$0")/.."

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

if ! command -v "${CHROMEDRIVER:-chromedriver}" >/dev/null; then
  echo "chromedriver is missing; installing it with Chromium"
  if command -v apt-get >/dev/null; then
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver fonts-dejavu-core
  fi
  if ! command -v chromedriver >/dev/null; then
    echo "error: no chromedriver, and no way found to install one (tried apt-get)" >&2
    exit 1
  fi
fi

export BROWSER_REQUIRED=1
browser=(cargo test -p tests --all-features --test browser -- --nocapture --test-threads=1)
"${browser[@]}"
picture=${1:-}
if [ -n "$picture" ]; then
  # In a process of its own: metrics are those of a process, and the tests compare with them.
  SCREENSHOT=$(mktemp)
  export SCREENSHOT
  trap 'rm -f "$SCREENSHOT"' EXIT
  "${browser[@]}" a_picture
  base64 -d <"$SCREENSHOT" >"$picture"
  echo "wrote $picture"
fi
