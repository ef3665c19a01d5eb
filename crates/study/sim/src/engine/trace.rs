//! A digest of a run, to compare two runs.

use base::Instant;
use core::fmt;

/// Odd constants with evenly mixed bits: the fractional digits of the square roots of 2 and 3.
const FACTOR: u64 = 0x6a09_e667_f3bc_c909;
const START: u64 = 0xbb67_ae85_84ca_a73b;

/// Digest of all events in order: two runs with equal digests took the same course.
///
/// It costs one multiplication per word, cheap enough to be always on. It detects accidental differences, not
/// forgeries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trace {
    state: u64,
    words: u64,
}

impl Default for Trace {
    fn default() -> Self {
        Self { state: START, words: 0 }
    }
}

impl Trace {
    /// Adds a number that describes an event.
    pub fn word(&mut self, word: u64) {
        // Folding the wide product keeps the high bits, which a plain multiplication never moves down again.
        let wide = u128::from(self.state ^ word) * u128::from(FACTOR);
        self.state = ((wide >> 64) as u64 ^ wide as u64).wrapping_add(START);
        self.words += 1;
    }

    /// Adds an event: its time, its kind, and the host or call that it concerns.
    pub fn event(&mut self, at: Instant, kind: u32, subject: u32) {
        self.word(at.as_nanos());
        self.word(u64::from(kind) << 32 | u64::from(subject));
    }

    /// The digest so far.
    pub fn digest(&self) -> u64 {
        self.state ^ self.words
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.digest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(words: &[u64]) -> u64 {
        let mut trace = Trace::default();
        for &word in words {
            trace.word(word);
        }
        trace.digest()
    }

    #[test]
    fn order_number_and_every_bit_of_the_words_count() {
        assert_ne!(digest(&[1, 2]), digest(&[2, 1]));
        assert_ne!(digest(&[0]), digest(&[0, 0]));
        for bit in 0..64 {
            assert_ne!(digest(&[1 << bit, 7]), digest(&[0, 7]), "bit {bit}");
            assert_ne!(digest(&[7, 1 << bit]), digest(&[7, 0]), "bit {bit}");
        }
    }
}
