#!/usr/bin/env bash
# Installs the packages that the tests need, then runs all tests. Arguments select steps:
#   ./test.sh packages format lints docs unit swarm live instructions deny
# Long tests that rarely find a fault are a separate step:
#   ./test.sh nightly    (fuzzing, ten times as many seeds of the random tester, all figures of the papers)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# A Debian package counts as installed if this program of it exists.
declare -A PROGRAMS=([sip-tester]=sipp [kamailio]=kamailio [sipsak]=sipsak [valgrind]=valgrind [iproute2]=ip [g++]=g++
    [baresip-core]=baresip [twinkle-console]=twinkle-console [faketime]=faketime [redis-server]=redis-server [postgresql]=postgres
    [openssl]=openssl [chromium-headless-shell]=chromium-headless-shell [npm]=npm [default-jdk-headless]=javac [maven]=mvn
    [fakeroot]=fakeroot [man-db]=man [nftables]=nft [keepalived]=keepalived)

# Number of live tests that run at once. They mostly wait.
LIVE_TESTS=${LIVE_TESTS:-4}
FUZZ_SECONDS=${FUZZ_SECONDS:-60}
# About a minute on two cores.
SWARM_SEEDS=${SWARM_SEEDS:-500}

# On Debian the PostgreSQL server is not in the path, but in a folder of its version.
have() { PATH="$PATH:/usr/sbin:/sbin:$(printf %s: /usr/lib/postgresql/*/bin)" command -v "$1" >/dev/null; }

packages() {
    local missing=() package
    for package in "${!PROGRAMS[@]}"; do
        have "${PROGRAMS[$package]}" || missing+=("$package")
    done
    # This package has a module and no program.
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
    # The fuzz targets are a separate workspace, and must compile too.
    cargo check --manifest-path fuzz/Cargo.toml --target-dir target --locked
}

docs() { RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked; }

unit() {
    cargo test --workspace --exclude sarabande-tests --locked --lib --bins --tests
    # Only crates with examples in their documentation: each other crate would take a second for nothing.
    local examples
    examples=$(grep -rlE '^ *//[/!] ```' crates/base/src crates/*/*/src | sed 's#/src/.*##; s#.*/#--package=#' | sort -u)
    # shellcheck disable=SC2086
    cargo test --doc --locked $examples
}

# Builds all release programs in one command, because separate builds would compile shared crates twice with other features.
# `sarabande` has the features of `--package sarabande-cli` alone, so the live tests need no other build.
programs() {
    cargo build --release --locked --package sarabande-cli --package swarm --package sarabande-bench \
        --bin sarabande --bin swarm --bin bench_instructions
}

# Whole nodes in virtual time under random faults. The canaries in `unit` show that each checker detects its violation.
swarm() {
    programs
    target/release/swarm --seeds "$SWARM_SEEDS"
}

# The program under test is a release build. It is built first, because otherwise the first test would build it.
live() {
    programs
    cargo test --package sarabande-tests --locked -- --test-threads "$LIVE_TESTS"
}

# Compares the instructions of the hot paths with the record. UPDATE_INSTRUCTIONS=1 writes the record.
instructions() {
    programs
    target/release/bench_instructions
}

# Checks everything that the lock file decides. Advisories would need a database from the network.
deny() {
    # A debug build is enough, because a check takes a second.
    have cargo-deny || CARGO_PROFILE_DEV_DEBUG=none cargo install --locked --debug cargo-deny
    cargo deny check bans licenses sources
}

# Coverage needs unstable compiler options, which RUSTC_BOOTSTRAP=1 allows on a stable compiler.
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
    # The canary breaks an invariant on purpose. Fuzzing must find this fault.
    if cargo fuzz run --target "$host" canary fuzz/seeds/element -- -max_total_time=60 >/dev/null 2>&1; then
        echo "Fuzzing did not find the fault of the canary: the checks of the target do not work" >&2
        return 1
    fi
    rm -rf fuzz/artifacts/canary
}

# The seeds of the fuzz targets, and random operations on the same code, are part of `unit`.
nightly() {
    FUZZ_SECONDS=600
    SWARM_SEEDS=5000
    fuzz
    swarm
    # The verdicts on all statements of the papers. The shortest figures are part of `unit`.
    cargo test --release --locked --package papers --test documents -- --ignored
    # Five times as many random networks as in `unit`.
    cargo test --release --locked --package distribute
    programs
    # Exit code 4 means that statements fail. Some are recorded as failing, and the test above has compared all verdicts.
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
