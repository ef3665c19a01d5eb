//! `cargo +nightly fuzz run capture`: the monitor's invariants under any packets, messages and times.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| invariants::capture(data));
