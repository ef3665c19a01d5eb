//! `cargo +nightly fuzz run stream`: the framer's invariants on any stream, in any pieces.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| invariants::stream(data));
