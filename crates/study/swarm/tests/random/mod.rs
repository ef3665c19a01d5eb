//! Random sequences of operations, checked by watches. Canaries show that each rule of a watch detects its violation.
//! These tests show that the watches are called.
mod element;
mod proxy;

use proptest::prelude::ProptestConfig;
use swarm::Sent;

fn config() -> ProptestConfig {
    ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() }
}

/// Pseudorandom bytes, the same each time.
fn data(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..2_000).map(|_| next()).collect()
}

/// Sends requests to an address that no message names.
fn to_a_stranger(sent: &mut [Sent]) {
    for one in sent.iter_mut().filter(|one| !one.bytes.starts_with(b"SIP/2.0 ")) {
        one.to = "203.0.113.9:5060".parse().expect("an address");
    }
}
