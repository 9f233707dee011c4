# Commands of everyday work; `just` lists them. Each is one or two commands of cargo or of a script in tests/, so that all of
# it works without `just` as well. Arguments after a test recipe are names of tests: `just redis denial_cache`.

set positional-arguments

[private]
default:
    @just --list --unsorted

# Formats all code.
fmt:
    cargo fmt --all

# Checks format, dependency rules and lints.
lint:
    tests/run.sh format dependencies lints

# Tests without a server: under a minute, once built.
test *names:
    REDIS_SERVER=none cargo test --workspace --all-features --lib --examples
    REDIS_SERVER=none DIFFERENTIAL_CASES=1000 ORACLE_CASES=200 cargo test -p tests --all-features \
        --test core --test http --test attribute -- "$@"

# Tests on real Redis servers.
redis *names:
    REDIS_REQUIRED=1 cargo test -p tests --all-features --test redis --test core -- "$@"

# Tests of servers that die, hang or misbehave.
outages *names:
    REDIS_REQUIRED=1 cargo test -p tests --all-features --test outages -- "$@"

# Tests on real Sentinel and Cluster set-ups.
cluster:
    REDIS_REQUIRED=1 cargo test -p tests --all-features --test outages -- topology:: failover:: cluster

# Tests of processes that hold, flood and lose their server for minutes, in release mode.
soak *names:
    REDIS_REQUIRED=1 FLAPS=150 FLOOD=10000000 cargo test --release -p tests --all-features --test outages -- --include-ignored --nocapture "${@:-process}"

# Tests the error messages of the attribute.
ui:
    cargo test -p ratelimit-macros
    UI_REQUIRED=1 cargo test -p ui -p ui-pass

# Writes the expected error messages anew, and the page that shows some; review the difference like code.
ui-update:
    MISTAKES=overwrite cargo test -p ratelimit-macros mistakes
    TRYBUILD=overwrite cargo test -p ui mistakes

# Builds the documentation and tests its code.
docs:
    tests/run.sh documentation
    cargo test --workspace --all-features --doc

# Writes what the pages have from the code, and tests pages, recipes and links.
guide:
    cargo run -p guide
    cargo test -p guide

# Checks all that a release needs; see RELEASING.md.
release *steps:
    tests/release.sh "$@"

# Measures against peers, and writes benches/report; `just bench --smoke` measures nothing and writes nothing.
bench *arguments:
    cargo bench -p benches -- "$@"

# Builds the crates with the oldest compiler that they support.
msrv:
    tests/run.sh msrv

# Lints every feature of the crates by itself.
features:
    tests/run.sh features

# Mutates the code and the scripts, and shows which mutations no test notices: `just mutants lua`.
mutants *areas:
    tests/mutants.sh "$@"

# Tests the operator's page in a headless Chromium: `just browser docs/operating.png` also takes a picture of it.
browser *picture:
    tests/browser.sh "$@"

# Tests the crates as they are published, without this repository around them.
packages:
    tests/packages.sh

# Tests decisions against other versions of Redis and Valkey; on Debian.
servers *servers:
    tests/servers.sh "$@"

# Checks licences and advisories of the dependencies; needs cargo-deny.
deny:
    cargo deny check

# All that continuous integration runs.
all:
    .ci/run
