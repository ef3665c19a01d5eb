//! `cargo +nightly fuzz run digest`: authentication headers with any bytes, and one server under any sequence of them.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| invariants::headers(data));
