//! `cargo +nightly fuzz run proxy`: properties of a stateful proxy under any sequence of operations.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    swarm::fuzz::proxy(data, |_| {});
});
