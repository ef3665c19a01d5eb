//! `cargo +nightly fuzz run stream`: properties of the framer on any stream, in any pieces.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| invariants::stream(data));
