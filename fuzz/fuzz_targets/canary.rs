//! `cargo +nightly fuzz run canary`: must fail within seconds, or the fuzzing of the element detects nothing.
//!
//! The fault is only here, between the element and its watch: responses to CANCEL go to a port beside the right one. A
//! run must therefore reach a CANCEL.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    swarm::fuzz::element(data, |sent| {
        for one in sent {
            let message = wire::scan(&one.bytes);
            if message.is_ok_and(|m| m.status() == Some(200) && m.cseq().method == wire::Method::Cancel) {
                one.to.set_port(one.to.port() ^ 1);
            }
        }
    });
});
