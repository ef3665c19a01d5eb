//! A seeded random generator with named forks.

use crate::SipHash;
use core::hash::Hasher;
use rand::RngCore;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// Seeded generator with named forks: drawing more numbers in one place never changes the numbers drawn elsewhere from
/// the same seed.
#[derive(Clone, Debug)]
pub struct Rng {
    seed: u64,
    stream: Xoshiro256PlusPlus,
}

impl Rng {
    /// Makes the generator of this seed.
    pub fn from_seed(seed: u64) -> Self {
        Self { seed, stream: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// Independent generator that depends only on this generator's seed and the label, not on the numbers drawn so far.
    #[must_use]
    pub fn fork(&self, label: &str) -> Self {
        let mut hasher = SipHash::new([self.seed, 0x5a5a_5a5a_5a5a_5a5a]);
        hasher.write(label.as_bytes());
        Self::from_seed(hasher.finish())
    }

    /// Pseudo-random number that depends only on this generator's seed and `thing`. It is the same at each call, and
    /// numbers of different things are as independent as draws.
    #[must_use]
    pub fn number_of(&self, thing: u64) -> u64 {
        let mut hasher = SipHash::new([self.seed, 0xa5a5_a5a5_a5a5_a5a5]);
        hasher.write_u64(thing);
        hasher.finish()
    }
}

impl RngCore for Rng {
    fn next_u32(&mut self) -> u32 {
        self.stream.next_u32()
    }

    fn next_u64(&mut self) -> u64 {
        self.stream.next_u64()
    }

    fn fill_bytes(&mut self, dst: &mut [u8]) {
        self.stream.fill_bytes(dst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_depends_on_seed_and_label_only() {
        let mut drawn = Rng::from_seed(7);
        drawn.next_u64();
        assert_eq!(drawn.fork("arrivals").next_u64(), Rng::from_seed(7).fork("arrivals").next_u64());
        assert_ne!(drawn.fork("arrivals").next_u64(), drawn.fork("holding").next_u64());
        assert_ne!(Rng::from_seed(8).fork("arrivals").next_u64(), drawn.fork("arrivals").next_u64());
    }

    /// In a sequence that is spread too evenly, such as the multiples of an irrational number, every thousand numbers
    /// hold almost the same share of each tenth. Shares of random numbers vary by the square root of their count.
    #[test]
    fn numbers_of_consecutive_things_vary_like_draws() {
        let rng = Rng::from_seed(7);
        assert_eq!(rng.number_of(5), Rng::from_seed(7).number_of(5));
        assert_ne!(rng.number_of(5), Rng::from_seed(8).number_of(5));
        let in_first_tenth =
            |from: u64| (from..from + 1_000).filter(|&of| rng.number_of(of) < u64::MAX / 10).count() as f64;
        let counts: Vec<f64> = (0..500).map(|block| in_first_tenth(1_000 * block)).collect();
        let mean = counts.iter().sum::<f64>() / 500.0;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 499.0;
        assert!((mean - 100.0).abs() < 2.0 && (70.0..115.0).contains(&variance), "{mean} {variance}");
    }
}
