//! `cargo +nightly fuzz run register`: any sequence of REGISTER at one registrar and its store.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| invariants::registers(data));
