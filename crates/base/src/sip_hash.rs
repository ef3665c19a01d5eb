//! `SipHash-1-3` (Aumasson and Bernstein 2012, with one round a word and three at the end), of 64 and 128 bits.
//!
//! Each message is hashed several times, so the cost matters: this code takes half of the instructions of the crate
//! `siphasher`. The tests compare it with that crate.

use core::hash::Hasher;

/// A hasher of 64 bits for texts of which senders choose the content.
#[derive(Clone, Debug)]
pub struct SipHash {
    v: [u64; 4],
    /// The bytes after the last whole word, the first one lowest; the others are 0.
    rest: u64,
    /// Number of all bytes.
    length: usize,
}

/// A hasher with a result of 128 bits.
#[derive(Clone, Debug)]
pub struct SipHash128(SipHash);

#[inline]
fn round([v0, v1, v2, v3]: &mut [u64; 4]) {
    *v0 = v0.wrapping_add(*v1);
    *v2 = v2.wrapping_add(*v3);
    *v1 = v1.rotate_left(13) ^ *v0;
    *v3 = v3.rotate_left(16) ^ *v2;
    *v0 = v0.rotate_left(32);
    *v2 = v2.wrapping_add(*v1);
    *v0 = v0.wrapping_add(*v3);
    *v1 = v1.rotate_left(17) ^ *v2;
    *v3 = v3.rotate_left(21) ^ *v0;
    *v2 = v2.rotate_left(32);
}

/// Makes the ASCII letters of a word of eight bytes lower-case.
#[inline]
fn lower(word: u64) -> u64 {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    let low = word & (0x7f * EACH);
    let from_a = low + u64::from(0x80 - b'A') * EACH;
    let after_z = low + u64::from(0x7f - b'Z') * EACH;
    let is_upper = (from_a ^ after_z) & !word & (0x80 * EACH);
    word | is_upper >> 2
}

impl SipHash {
    /// Starts with a secret key.
    #[inline]
    pub fn new([k0, k1]: [u64; 2]) -> Self {
        let constants =
            [0x736f_6d65_7073_6575, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];
        let [c0, c1, c2, c3] = constants;
        Self { v: [k0 ^ c0, k1 ^ c1, k0 ^ c2, k1 ^ c3], rest: 0, length: 0 }
    }

    #[inline]
    fn word(&mut self, word: u64) {
        self.v[3] ^= word;
        round(&mut self.v);
        self.v[0] ^= word;
    }

    /// Adds bytes, each word changed by `map`.
    #[inline]
    fn put(&mut self, bytes: &[u8], map: impl Fn(u64) -> u64) {
        let shift = self.length % 8 * 8;
        self.length += bytes.len();
        let (words, last) = bytes.as_chunks::<8>();
        for word in words {
            let word = map(u64::from_le_bytes(*word));
            let full = self.rest | word << shift;
            // In two steps, since a shift by 64 is not defined.
            self.rest = word >> (63 - shift) >> 1;
            self.word(full);
        }
        if last.is_empty() {
            return;
        }
        let word = map(short(last));
        let full = self.rest | word << shift;
        if shift + 8 * last.len() < 64 {
            self.rest = full;
        } else {
            self.rest = word >> (63 - shift) >> 1;
            self.word(full);
        }
    }

    #[inline]
    fn close(&mut self) {
        let last = self.rest | (self.length as u64) << 56;
        self.word(last);
    }

    #[inline]
    fn squeeze(&mut self) -> u64 {
        for _ in 0..3 {
            round(&mut self.v);
        }
        self.v[0] ^ self.v[1] ^ self.v[2] ^ self.v[3]
    }
}

/// Reads one to seven bytes as a word. Some bytes are read twice, to the same place.
#[inline]
fn short(bytes: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let last = u64::from(u32::from_le_bytes(*last));
        return u64::from(u32::from_le_bytes(*first)) | last << (8 * (bytes.len() - 4));
    }
    [0, bytes.len() / 2, bytes.len() - 1].iter().fold(0, |word, &at| word | u64::from(bytes[at]) << (8 * at))
}

impl Hasher for SipHash {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.put(bytes, |word| word);
    }

    #[inline]
    fn finish(&self) -> u64 {
        let mut end = self.clone();
        end.close();
        end.v[2] ^= 0xff;
        end.squeeze()
    }
}

impl SipHash128 {
    /// Starts with a secret key.
    #[inline]
    pub fn new(key: [u64; 2]) -> Self {
        let mut hasher = SipHash::new(key);
        hasher.v[1] ^= 0xee;
        Self(hasher)
    }

    /// Adds bytes.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) {
        self.0.put(bytes, |word| word);
    }

    /// Adds a text as if it were lower-case.
    #[inline]
    pub fn write_lowered(&mut self, text: &[u8]) {
        self.0.put(text, lower);
    }

    /// Returns the hash.
    #[inline]
    pub fn finish(mut self) -> u128 {
        self.0.close();
        self.0.v[2] ^= 0xee;
        let first = self.0.squeeze();
        self.0.v[1] ^= 0xdd;
        u128::from(self.0.squeeze()) << 64 | u128::from(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use siphasher::{sip, sip128};

    proptest! {
        /// For any division of a text into parts, the hashes are those of the library.
        #[test]
        fn hashes_like_the_library(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6), key: [u64; 2]) {
            let (mut ours, mut theirs) = (SipHash::new(key), sip::SipHasher13::new_with_keys(key[0], key[1]));
            let (mut ours_128, mut theirs_128) = (SipHash128::new(key), sip128::SipHasher13::new_with_keys(key[0], key[1]));
            let (mut lowered, mut of_lower) = (ours_128.clone(), ours_128.clone());
            for part in &parts {
                ours.write(part);
                theirs.write(part);
                ours_128.write(part);
                theirs_128.write(part);
                lowered.write_lowered(part);
                of_lower.write(&part.to_ascii_lowercase());
            }
            prop_assert_eq!(ours.finish(), theirs.finish());
            prop_assert_eq!(ours_128.finish(), sip128::Hasher128::finish128(&theirs_128).as_u128());
            prop_assert_eq!(lowered.finish(), of_lower.finish());
        }
    }
}
