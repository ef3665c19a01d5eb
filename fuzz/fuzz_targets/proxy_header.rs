//! `cargo +nightly fuzz run proxy_header`: the reader of PROXY headers on any bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| invariants::proxy_header(data));
