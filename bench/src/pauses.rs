//! What the machine itself does to a thread: how long one that only reads the clock is stopped.
//!
//! A virtual processor is at times given to somebody else. Nothing that runs on it answers meanwhile, however fast it
//! is, so the gaps of a thread that does nothing bound from below what any program can promise there.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::process::tie_to;

/// Shorter gaps are not kept: an interrupt takes some microseconds, a reading of the clock far less.
const NOTICED_NS: u64 = 10_000;

/// The gaps between two readings of the clock on one processor.
#[derive(Clone, Debug, Default)]
pub struct Pauses {
    watched_ns: u64,
    gaps_ns: Vec<u64>,
}

impl Pauses {
    /// Keeps each of `processors` busy with reading the clock, all at once, for `duration`.
    ///
    /// # Errors
    /// A processor that this process may not use.
    pub fn watch<const N: usize>(processors: [usize; N], duration: Duration) -> Result<[Self; N]> {
        thread::scope(|scope| {
            let threads =
                processors.map(|processor| scope.spawn(move || Self::watch_one(processor, duration)));
            let mut found = [const { Self { watched_ns: 0, gaps_ns: Vec::new() } }; N];
            for (found, thread) in found.iter_mut().zip(threads) {
                *found = thread.join().expect("reading the clock does not panic")?;
            }
            Ok(found)
        })
    }

    fn watch_one(processor: usize, duration: Duration) -> Result<Self> {
        tie_to(processor)?;
        let start = Instant::now();
        let (mut last, mut pauses) = (start, Self::default());
        while last - start < duration {
            let now = Instant::now();
            pauses.note((now - last).as_nanos() as u64);
            last = now;
        }
        Ok(pauses)
    }

    fn note(&mut self, gap_ns: u64) {
        self.watched_ns += gap_ns;
        if gap_ns >= NOTICED_NS {
            self.gaps_ns.push(gap_ns);
        }
    }

    /// Adds what was seen at another time.
    pub fn add(&mut self, other: &Self) {
        self.watched_ns += other.watched_ns;
        self.gaps_ns.extend(&other.gaps_ns);
    }

    /// The share of the time that passed in gaps longer than `gap_ns`, 0 to 1.
    pub fn share_above(&self, gap_ns: u64) -> f64 {
        let long = self.gaps_ns.iter().filter(|gap| **gap > gap_ns);
        long.sum::<u64>() as f64 / self.watched_ns.max(1) as f64
    }

    /// The longest gap, in nanoseconds.
    pub fn longest_ns(&self) -> u64 {
        self.gaps_ns.iter().copied().max().unwrap_or(0)
    }

    /// How long something that comes at any moment waits for the processor, in nanoseconds: the quantile `q`, 0 to 1.
    ///
    /// What comes within a gap waits for its end, so of a gap `g` the part `g - w` makes wait longer than `w`. The
    /// quantile is the `w` where these parts add up to `1 - q` of the time.
    pub fn wait_ns(&self, q: f64) -> u64 {
        let left = (1.0 - q) * self.watched_ns as f64;
        let longer = |w: u64| self.gaps_ns.iter().map(|gap| gap.saturating_sub(w)).sum::<u64>() as f64;
        let (mut low, mut high) = (0, self.longest_ns());
        while low < high {
            let middle = u64::midpoint(low, high);
            if longer(middle) > left { low = middle + 1 } else { high = middle }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(gaps_us: &[u64]) -> Pauses {
        let mut pauses = Pauses::default();
        for gap in gaps_us {
            pauses.note(gap * 1_000);
        }
        pauses
    }

    #[test]
    fn long_gaps_are_told_from_short_ones() {
        let seen = pauses(&[1, 899, 100]);
        assert!((seen.share_above(200_000) - 0.899).abs() < 1e-9);
        assert!((seen.share_above(20_000) - 0.999).abs() < 1e-9, "a microsecond is no gap");
        assert_eq!(seen.longest_ns(), 899_000);
    }

    #[test]
    fn the_wait_is_what_is_left_of_the_gap() {
        // Of 1,000 us, 400 are in a gap: 10 % of the time has 300 us of it or more ahead, 40 % has any.
        let mut seen = pauses(&[400]);
        for _ in 0..600 {
            seen.note(1_000);
        }
        assert_eq!([0.9, 0.8, 0.6].map(|q| seen.wait_ns(q) / 1_000), [300, 200, 0]);
        let mut twice = seen.clone();
        twice.add(&seen);
        assert_eq!(twice.wait_ns(0.9), seen.wait_ns(0.9), "the same again changes no share");
        assert_eq!(Pauses::default().wait_ns(0.99), 0);
    }

    #[test]
    fn each_processor_is_watched_for_as_long_as_asked() {
        let seen = Pauses::watch([0, 0], Duration::from_millis(30)).expect("processor 0 is ours");
        assert!(seen.iter().all(|pauses| pauses.watched_ns >= 30_000_000));
    }
}
