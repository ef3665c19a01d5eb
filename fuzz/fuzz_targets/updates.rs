//! `cargo +nightly fuzz run updates`: accepts no capacity update except the next one of its connection.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| invariants::updates(data));
