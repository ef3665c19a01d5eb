//! `cargo +nightly fuzz run websocket`: a connection over WebSocket with any frames, in any pieces.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| invariants::websocket(data));
