//! Limit of the time that a host spends on refusals.

use crate::Tier;
use base::Instant;
use core::time::Duration;

/// Share of a host's time spent on refusing requests. Above [`Refusing::MOST`], refusals leave too little time for
/// accepted requests. A new request is then dropped and not refused, which takes almost no time.
///
/// A dropped request comes back up to six times (RFC 3261 §17.1.1.2), so refusing is better as long as there is time
/// for it.
#[derive(Clone, Debug, Default)]
pub struct Refusing {
    since: Instant,
    spent: Duration,
    share: f64,
}

/// Length of a window: short compared with T1, and as long as some hundred refusals.
const WINDOW: Duration = Duration::from_millis(50);
/// Weight of a new window. The share covers about the last 500 ms, so that a burst of refusals does not cause drops.
const WEIGHT: f64 = 0.1;

impl Refusing {
    /// Largest share for refusals of requests without priority. The other half serves accepted requests.
    pub const MOST: f64 = 0.5;
    /// Largest share for refusals of all requests. Requests with priority may also be the flood of an outsider.
    pub const MOST_WITH_PRIORITY: f64 = 0.8;

    /// Adds time spent on a refusal that ended now.
    pub fn on_refused(&mut self, now: Instant, spent: Duration) {
        self.spent += spent;
        self.roll(now);
    }

    /// Whether one more request of this tier is refused, and not dropped.
    pub fn may_refuse(&mut self, now: Instant, tier: Tier) -> bool {
        self.roll(now);
        self.share <= if tier == Tier::First { Self::MOST } else { Self::MOST_WITH_PRIORITY }
    }

    /// Share of the time, 0 to 1.
    pub fn share(&self) -> f64 {
        self.share
    }

    fn roll(&mut self, now: Instant) {
        let length = now.saturating_since(self.since);
        if length < WINDOW {
            return;
        }
        let share = (self.spent.as_secs_f64() / length.as_secs_f64()).min(1.0);
        // After 100 windows without a refusal the share is zero.
        let windows = (length.as_secs_f64() / WINDOW.as_secs_f64()).min(100.0);
        let keeps = (1.0 - WEIGHT).powf(windows);
        self.share = self.share * keeps + share * (1.0 - keeps);
        (self.since, self.spent) = (now, Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_half_of_the_time_is_spent_on_refusals() {
        let mut refusing = Refusing::default();
        let (mut now, mut refused, mut served) = (Instant::ZERO, Duration::ZERO, Duration::ZERO);
        // For each 300 us of service there are ten refusals of 100 us each: more than half of the time.
        for _ in 0..3_000 {
            for _ in 0..10 {
                if refusing.may_refuse(now, Tier::First) {
                    let spent = Duration::from_micros(100);
                    (now, refused) = (now + spent, refused + spent);
                    refusing.on_refused(now, spent);
                }
            }
            now += Duration::from_micros(300);
            served += Duration::from_micros(300);
        }
        let share = refused.as_secs_f64() / (refused + served).as_secs_f64();
        assert!((0.4..0.6).contains(&share), "{share}");
    }

    #[test]
    fn few_refusals_are_all_sent_and_a_pause_resets_the_share() {
        let mut refusing = Refusing::default();
        let mut now = Instant::ZERO;
        for _ in 0..1_000 {
            assert!(refusing.may_refuse(now, Tier::First));
            refusing.on_refused(now, Duration::from_micros(100));
            now += Duration::from_millis(1);
        }
        (0..3_000).for_each(|_| {
            now += Duration::from_millis(1);
            refusing.on_refused(now, Duration::from_millis(1));
        });
        assert!(!refusing.may_refuse(now, Tier::First) && refusing.share() > 0.9);
        assert!(refusing.may_refuse(now + Duration::from_secs(1), Tier::First), "{}", refusing.share());
    }
}
