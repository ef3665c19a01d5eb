//! Hash that assigns each call to a shard.

use base::SipHash;
use core::hash::Hasher;

/// Hash of Call-IDs that classic BPF can compute, so that the kernel can pass a datagram to the thread of its call.
///
/// Unlike with `SipHash`, a sender can choose Call-IDs that all belong to one shard, for example with 64 equal first
/// bytes. It can then fill the queue and the session table of this shard with its calls, while the other shards stay
/// free. `[access.rate]` limits such a flood like any other. Tables do not use this hash, but
/// `CallHash::call_key`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ShardHash {
    /// Hash of no bytes.
    pub start: u32,
    /// Odd factor of each word.
    pub factor: u32,
    /// Odd factor of the hash of all words.
    pub last_factor: u32,
}

impl ShardHash {
    /// Number of bytes of a Call-ID that are hashed. Call-IDs that differ only after them belong to one shard.
    pub const BYTES: usize = 64;

    /// Derives the numbers from the secret of a `CallHash`.
    pub(super) fn new(secret: [u64; 2]) -> Self {
        let [start, factors] = [&b"shard start"[..], b"shard factors"].map(|label| {
            let mut hasher = SipHash::new(secret);
            hasher.write(label);
            hasher.finish()
        });
        // An even factor would lose bits of each word.
        Self { start: start as u32, factor: factors as u32 | 1, last_factor: (factors >> 32) as u32 | 1 }
    }

    /// Returns the number of the shard that owns a call.
    pub fn shard_of(self, call_id: &[u8], shards: usize) -> usize {
        let hashed = &call_id[..call_id.len().min(Self::BYTES)];
        let hash = hashed.chunks(4).fold(self.start, |hash, word| {
            let word = word.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
            (hash ^ word).wrapping_mul(self.factor)
        });
        // The low bits of a product depend only on the low bits of its factors. So the high bits are mixed in, and the
        // result is taken from the high half.
        let hash = (hash ^ hash >> 16).wrapping_mul(self.last_factor);
        (hash >> 16) as usize % shards
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two processes of one takeover must agree on the owners of calls.
    #[test]
    fn the_hash_stays_the_same_unless_the_greeting_of_a_takeover_changes() {
        let hash = ShardHash::new([1, 2]);
        let shards =
            [&b"1-4711@127.0.0.1"[..], b"a", &[b'x'; 100]].map(|call_id| hash.shard_of(call_id, 1 << 16));
        assert_eq!(
            shards,
            [13_963, 29_406, 5_608],
            "change `GREETING` in `takeover/exchange.rs` with the hash"
        );
    }

    #[test]
    fn calls_spread_evenly_over_the_shards() {
        let forms: [fn(u64) -> String; 6] = [
            |n| format!("{n}"),
            |n| format!("{n}-4711@127.0.0.1"),
            |n| format!("{}@a.example", n * 16),
            |n| format!("load-generator-number-{n:09}@192.0.2.1"),
            |n| format!("{n:08x}-7dec-11d0-a765-00a0c91e6bf6"),
            |n| {
                let mut hasher = SipHash::new([3, 4]);
                hasher.write_u64(n);
                format!("{:016x}", hasher.finish())
            },
        ];
        for (form, shards) in forms.iter().flat_map(|form| [2, 3, 4, 8, 16].map(|shards| (form, shards))) {
            let hash = ShardHash::new([1, shards as u64]);
            let mut calls = vec![0_usize; shards];
            (0..8000).for_each(|n| calls[hash.shard_of(form(n).as_bytes(), shards)] += 1);
            let fair = 8000 / shards;
            // With 16 shards, a quarter is six times the standard deviation of a random assignment.
            assert!(calls.iter().all(|calls| calls.abs_diff(fair) < fair / 4), "{}: {calls:?}", form(1));
        }
    }
}
