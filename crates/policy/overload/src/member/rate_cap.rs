//! The most calls a second of a server, whatever it answers.

use base::Instant;

/// Calls that may come at once: those of so many seconds, and one at least.
const BURST: f64 = 0.5;

/// A token bucket: it fills at the rate, up to the calls of half a second, and each call takes one token. Calls with
/// priority may take as many again.
#[derive(Clone, Copy, Debug)]
pub struct RateCap {
    rate: f64,
    tokens: f64,
    at: Instant,
}

impl RateCap {
    /// So many calls a second; the bucket is full.
    pub fn new(rate: f64) -> Self {
        Self { rate, tokens: burst(rate), at: Instant::ZERO }
    }

    /// Changes the rate; the tokens stay, as far as they fit.
    pub fn set_rate(&mut self, rate: f64) {
        self.tokens = self.tokens.min(burst(rate));
        self.rate = rate;
    }

    fn tokens_at(&self, now: Instant) -> f64 {
        let gained = self.rate * now.saturating_since(self.at).as_secs_f64();
        (self.tokens + gained).min(burst(self.rate))
    }

    /// Whether a call may go.
    pub fn has_room(&self, now: Instant, has_priority: bool) -> bool {
        let least = if has_priority { 1.0 - burst(self.rate) } else { 1.0 };
        self.tokens_at(now) >= least
    }

    /// A call goes.
    pub fn take(&mut self, now: Instant) {
        (self.tokens, self.at) = ((self.tokens_at(now) - 1.0).max(-burst(self.rate)), now.max(self.at));
    }
}

fn burst(rate: f64) -> f64 {
    (rate * BURST).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(rate: f64, offered: u64, has_priority: bool) -> usize {
        let mut cap = RateCap::new(rate);
        let at = |n: u64| Instant::from_nanos(n * 1_000_000_000 / offered);
        (0..10 * offered)
            .filter(|n| {
                let passes = cap.has_room(at(*n), has_priority);
                if passes {
                    cap.take(at(*n));
                }
                passes
            })
            .count()
    }

    #[test]
    fn the_rate_is_kept_to_and_a_burst_passes() {
        assert_eq!(passed(20.0, 20, false), 200, "at the rate all pass");
        assert_eq!(passed(20.0, 19, false), 190);
        assert!((208..=211).contains(&passed(20.0, 1_000, false)));
        assert!((218..=221).contains(&passed(20.0, 1_000, true)), "priority has a burst of its own");
        assert!((10..=11).contains(&passed(1.0, 1_000, false)), "one at least");
    }
}
