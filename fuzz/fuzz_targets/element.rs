//! `cargo +nightly fuzz run element`: properties of a balancer under any sequence of operations.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    swarm::fuzz::element(data, |_| {});
});
