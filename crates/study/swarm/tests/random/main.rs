//! Random sequences of operations, and whether the watches over them see what they should see.
mod element;
mod proxy;

use proptest::prelude::ProptestConfig;

fn config() -> ProptestConfig {
    ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() }
}

/// Bytes of a run, the same each time.
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
