#!/usr/bin/env bash
# Installs what the tests need, then runs all of them. Without arguments everything; else the steps named:
#   ./test.sh packages format lints docs unit swarm live instructions deny
# What takes long and finds something once in many nights is a step of its own:
#   ./test.sh nightly    (fuzzing, a swarm ten times as large, all figures of the papers)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# One program of each Debian package tells whether it is there.
declare -A PROGRAMS=([sip-tester]=sipp [kamailio]=kamailio [sipsak]=sipsak [valgrind]=valgrind [iproute2]=ip [g++]=g++
    [baresip-core]=baresip [twinkle-console]=twinkle-console [faketime]=faketime [redis-server]=redis-server [postgresql]=postgres
    [openssl]=openssl [chromium-headless-shell]=chromium-headless-shell [npm]=npm [default-jdk-headless]=javac [maven]=mvn)

# How many live tests run at once: they wait more than they compute.
LIVE_TESTS=${LIVE_TESTS:-4}
FUZZ_SECONDS=${FUZZ_SECONDS:-60}
# About a minute on two cores.
SWARM_SEEDS=${SWARM_SEEDS:-500}

# Debian keeps the server of PostgreSQL out of everybody's path, in a folder of its version.
have() { PATH="$PATH:/usr/sbin:/sbin:$(printf %s: /usr/lib/postgresql/*/bin)" command -v "$1" >/dev/null; }

packages() {
    local missing=() package
    for package in "${!PROGRAMS[@]}"; do
        have "${PROGRAMS[$package]}" || missing+=("$package")
    done
    # A module is no program.
    compgen -G '/usr/lib/*/kamailio/modules/tls.so' >/dev/null || missing+=(kamailio-tls-modules)
    [ ${#missing[@]} -eq 0 ] && return
    if [ "$(id -u)" -ne 0 ] || ! have apt-get; then
        echo "Please install: ${missing[*]} (Debian: sudo apt-get install ${missing[*]})" >&2
        return 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get -q update
    apt-get -q install -y --no-install-recommends "${missing[@]}"
}

format() { cargo fmt --all --check; }

lints() {
    cargo clippy --workspace --all-targets --locked -- -D warnings
    # The fuzz targets are a workspace of their own, and have to compile with every change.
    cargo check --manifest-path fuzz/Cargo.toml --target-dir target --locked
}

docs() { RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked; }

unit() {
    cargo test --workspace --exclude sarabande-tests --locked --lib --bins --tests
    # Few crates have an example or a diagram in their documentation, and each that has none takes a second.
    local examples
    examples=$(grep -rlE '^ *//[/!] ```' crates/base/src crates/*/*/src | sed 's#/src/.*##; s#.*/#--package=#' | sort -u)
    # shellcheck disable=SC2086
    cargo test --doc --locked $examples
}

# All programs of a release build at once: crates that two of them need with other features would be compiled twice. The program
# has the features of `--package sarabande-cli` alone, so the live tests find it up to date.
programs() {
    cargo build --release --locked --package sarabande-cli --package swarm --package sarabande-bench \
        --bin sarabande --bin swarm --bin bench_instructions
}

# The whole node in virtual time under random faults. That its checkers see something is shown by canaries in `unit`.
swarm() {
    programs
    target/release/swarm --seeds "$SWARM_SEEDS"
}

# The program under test is a release build. The tests would make it themselves, but then in the middle of one.
live() {
    programs
    cargo test --package sarabande-tests --locked -- --test-threads "$LIVE_TESTS"
}

# Instructions of the hot paths against those on record. UPDATE_INSTRUCTIONS=1 records them.
instructions() {
    programs
    target/release/bench_instructions
}

# Advisories would need a database from the net; what can be judged from the lock file alone is.
deny() {
    # It runs for a second: no time is spent on making it fast.
    have cargo-deny || CARGO_PROFILE_DEV_DEBUG=none cargo install --locked --debug cargo-deny
    cargo deny check bans licenses sources
}

# Coverage needs options that a stable compiler keeps to itself; this one is told that it may.
fuzz() {
    have cargo-fuzz || cargo install --locked --debug cargo-fuzz
    export RUSTC_BOOTSTRAP=1
    local host targets=(scan element proxy digest register capture updates stream proxy_header websocket) target seeds
    host=$(rustc -vV | sed -n 's/^host: //p')
    for target in "${targets[@]}"; do
        mkdir -p "fuzz/corpus/$target"
        seeds=("fuzz/seeds/$target")
        # The messages of RFC 4475 and RFC 5118.
        [ "$target" != scan ] || seeds+=(tests/torture/wire)
        cargo fuzz run --target "$host" "$target" "fuzz/corpus/$target" "${seeds[@]}" -- \
            -max_total_time=$((FUZZ_SECONDS / ${#targets[@]})) -max_len=2000 -len_control=0
    done
    # The canary breaks an invariant on purpose: fuzzing that does not catch it is blind.
    if cargo fuzz run --target "$host" canary fuzz/seeds/element -- -max_total_time=60 >/dev/null 2>&1; then
        echo "The canary was not caught: the checks of the element see nothing" >&2
        return 1
    fi
    rm -rf fuzz/artifacts/canary
}

# The seeds of the fuzz targets, and random operations on what they drive, are part of `unit`.
nightly() {
    FUZZ_SECONDS=600
    SWARM_SEEDS=5000
    fuzz
    swarm
    # What every statement of the papers comes to; the shortest figures are part of `unit`.
    cargo test --release --locked --package papers --test documents -- --ignored
    # Five times as many random networks as in `unit`.
    cargo test --release --locked --package distribute
    programs
    # Exit code 4 says that statements fail, as some do by record: the step before has compared all verdicts.
    target/release/sarabande sim figures --out target/figures || [ $? -eq 4 ]
}

steps=("$@")
[ $# -gt 0 ] || steps=(packages format lints docs unit swarm live instructions deny)
for step in "${steps[@]}"; do
    printf '\n== %s\n' "$step"
    start=$SECONDS
    "$step"
    printf '== %s: %d s\n' "$step" $((SECONDS - start))
done
