//! `cargo +nightly fuzz run scan`: the scanner's and the edits' invariants on any bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| invariants::message(data));
