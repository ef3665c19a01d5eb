//! `cargo +nightly fuzz run scan`: properties of scanner and edits on any bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| invariants::message(data));
