//! `cargo +nightly fuzz run capture`: properties of the monitor under any packets, messages and times.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| invariants::capture(data));
