//! Limit of the time that a host spends on refusals.

use crate::Tier;
use base::Instant;
use core::time::Duration;

/// Share of a host's time spent on refusing requests. Above [`Refusing::MOST`], refusals leave too little time for
/// accepted requests. A new request is then dropped and not refused, which takes less time. Even reading such requests
/// takes time, so the host lets the kernel drop some of them unread ([`pass`](Self::pass)).
///
/// A dropped request comes back up to six times (RFC 3261 §17.1.1.2), so refusing is better as long as there is time
/// for it.
#[derive(Clone, Debug)]
pub struct Refusing {
    since: Instant,
    spent: Duration,
    share: f64,
    /// Messages read in this window, and those of them that were dropped.
    read: usize,
    dropped: usize,
    pass: f64,
}

/// Length of a window: short compared with T1, and as long as some hundred refusals.
const WINDOW: Duration = Duration::from_millis(50);
/// Weight of a new window. The share covers about the last 500 ms, so that a burst of refusals does not cause drops.
const WEIGHT: f64 = 0.1;
/// Largest share of dropped messages among those that are read. Above it the kernel drops requests. To read and drop a
/// message takes about a quarter of the time of a served message.
const DROPPED_MOST: f64 = 0.15;
/// Least share of new requests that the kernel passes.
const PASS_MIN: f64 = 1.0 / 256.0;
/// Growth of this share in a window with few dropped requests: it doubles in three to four seconds.
const PASS_GROWTH: f64 = 1.01;
/// Growth of this share in a window without refusals: it doubles in about 200 ms.
const PASS_GROWTH_IDLE: f64 = 1.2;
/// Largest reduction of this share in a window.
const PASS_CUT: f64 = 0.8;

impl Default for Refusing {
    fn default() -> Self {
        Self { since: Instant::ZERO, spent: Duration::ZERO, share: 0.0, read: 0, dropped: 0, pass: 1.0 }
    }
}

impl Refusing {
    /// Largest share for refusals of requests without priority. The rest serves accepted requests.
    pub const MOST: f64 = 0.125;
    /// Largest share for refusals of all requests. Requests with priority may also be the flood of an outsider.
    pub const MOST_WITH_PRIORITY: f64 = 0.5;

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

    /// Counts messages that were read.
    pub fn on_read(&mut self, count: usize) {
        self.read += count;
    }

    /// Counts a message that was read and then dropped.
    pub fn on_dropped(&mut self) {
        self.dropped += 1;
    }

    /// Share of the time, 0 to 1.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Share of new requests without priority that the host should read, 0 to 1.
    pub fn pass(&self) -> f64 {
        self.pass
    }

    /// Time at which [`roll`](Self::roll) changes the share of requests to read; `None` while all are read.
    pub fn deadline(&self) -> Option<Instant> {
        (self.pass < 1.0).then_some(self.since + WINDOW)
    }

    /// Ends the present window if it is over.
    pub fn roll(&mut self, now: Instant) {
        let length = now.saturating_since(self.since);
        if length < WINDOW {
            return;
        }
        let share = (self.spent.as_secs_f64() / length.as_secs_f64()).min(1.0);
        // After 100 windows without a refusal the share is zero.
        let windows = (length.as_secs_f64() / WINDOW.as_secs_f64()).min(100.0);
        let keeps = (1.0 - WEIGHT).powf(windows);
        self.share = self.share * keeps + share * (1.0 - keeps);
        let dropped = self.dropped as f64 / self.read.max(1) as f64;
        let step = if dropped > DROPPED_MOST {
            (DROPPED_MOST / dropped).max(PASS_CUT)
        } else if share > 0.0 || self.dropped > 0 {
            if dropped < DROPPED_MOST / 3.0 { PASS_GROWTH } else { 1.0 }
        } else {
            PASS_GROWTH_IDLE.powf(windows)
        };
        self.pass = (self.pass * step).clamp(PASS_MIN, 1.0);
        (self.since, self.spent, self.read, self.dropped) = (now, Duration::ZERO, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_take_their_share_of_the_time_and_the_kernel_passes_fewer_requests() {
        let mut refusing = Refusing::default();
        let (mut now, mut refused, mut served) = (Instant::ZERO, Duration::ZERO, Duration::ZERO);
        let mut least = 1.0_f64;
        // For each 300 us of service there are ten refusals of 100 us each.
        for _ in 0..30_000 {
            refusing.on_read(16);
            for _ in 0..10 {
                if refusing.may_refuse(now, Tier::First) {
                    let spent = Duration::from_micros(100);
                    (now, refused) = (now + spent, refused + spent);
                    refusing.on_refused(now, spent);
                } else {
                    refusing.on_dropped();
                }
            }
            least = least.min(refusing.pass());
            now += Duration::from_micros(300);
            served += Duration::from_micros(300);
        }
        let share = refused.as_secs_f64() / (refused + served).as_secs_f64();
        assert!((0.9..1.4).contains(&(share / Refusing::MOST)), "{share}");
        assert!(least < 0.5, "{least}");
        // Half a second later there is nothing to refuse.
        while let Some(deadline) = refusing.deadline() {
            refusing.roll(deadline);
            assert!(deadline.saturating_since(now) < Duration::from_secs(3));
        }
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
        assert!(refusing.may_refuse(now + Duration::from_secs(2), Tier::First), "{}", refusing.share());
    }
}
