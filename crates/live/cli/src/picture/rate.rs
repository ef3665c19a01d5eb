//! Recent growth of counters.

use std::collections::VecDeque;

/// Time over which a rate is computed, in seconds.
const RATE_OVER: f64 = 1.0;

/// Growth of a counter: seconds and counts, back to the last sample that is old enough for a rate.
#[derive(Default)]
pub(crate) struct Rate(VecDeque<(f64, u64)>);

impl Rate {
    /// Takes a sample. Returns the recent increase a second; 0 with a single sample.
    pub(crate) fn sample(&mut self, seconds: f64, count: u64) -> f64 {
        // Another process counts from 0.
        if self.0.back().is_some_and(|last| last.1 > count) {
            self.0.clear();
        }
        self.0.push_back((seconds, count));
        while self.0.get(1).is_some_and(|next| seconds - next.0 >= RATE_OVER) {
            self.0.pop_front();
        }
        let (since, before) = self.0[0];
        if seconds > since { (count - before) as f64 / (seconds - since) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_last_second_and_survive_a_restart() {
        let mut track = Rate::default();
        let mut rate = |seconds: f64, count: u64| track.sample(seconds, count);
        assert!(rate(0.0, 1_000).abs() < 1e-9);
        for tenth in 1..=20 {
            assert!((rate(f64::from(tenth) * 0.1, 1_000 + tenth as u64) - 10.0).abs() < 1e-6);
        }
        assert!((rate(2.5, 1_120) - 105.0).abs() < 1e-6, "since 1.5 s, when it was 1,015");
        assert!(rate(3.0, 5).abs() < 1e-9, "the counter restarted");
        assert!((rate(4.0, 25) - 20.0).abs() < 1e-6);
    }
}
