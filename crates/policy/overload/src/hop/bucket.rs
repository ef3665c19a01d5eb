//! Leaky bucket with which a client limits its requests to a rate (RFC 7415).

use crate::{MessageClass, Tier};
use base::{Instant, Rng};
use rand::Rng as _;

/// Leaky bucket of RFC 7415 §3.5: it drains by one second per second, and each sent request adds T = 1/rate. A request
/// is sent while the content is at most the tolerance of its tier (§3.5.2).
///
/// The content is in units of T, so that a new rate does not change the number of requests that the content represents.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    rate: f64,
    content: f64,
    /// LCT of the RFC: time of the last sent request, or of the last change of the rate.
    last: Instant,
}

/// Tolerances in units of T, by tier. The first two are TAU1 and TAU2 (§3.5.2: half of 10 T, and 10 T), the third is
/// for requests within dialogs.
const TOLERANCE: [f64; 3] = [5.0, 10.0, 20.0];

/// Smallest tolerance of the first tier, in seconds. Requests come in bursts: hosts read messages in batches, and the
/// requests within dialogs, which count too, follow the bursts of a server with a quota of processor time. The server's
/// queue grows by at most this time.
const BATCH: f64 = 0.05;

impl Bucket {
    /// Creates a bucket with TAU0 = 0 and a random phase against resonance (§3.5.3): buckets that start together drift
    /// apart.
    pub(super) fn new(now: Instant, rate: f64, rng: &mut Rng) -> Self {
        Self { rate, content: phase(rng), last: now }
    }

    pub(super) const fn rate(&self) -> f64 {
        self.rate
    }

    pub(super) fn set_rate(&mut self, now: Instant, rate: f64) {
        self.content = self.content_at(now);
        self.last = now;
        self.rate = rate;
    }

    fn content_at(&self, now: Instant) -> f64 {
        self.content - now.saturating_since(self.last).as_secs_f64() * self.rate
    }

    /// Tolerance of a tier in units of T.
    fn tolerance(&self, tier: usize) -> f64 {
        TOLERANCE[tier] * (self.rate * BATCH / TOLERANCE[0]).max(1.0)
    }

    /// Decides whether a request of this class is sent; if so, adds it to the content.
    pub(super) fn admit(&mut self, now: Instant, class: MessageClass, rng: &mut Rng) -> bool {
        let content = self.content_at(now);
        let tier = class.tier();
        // §3.5.1: a rate of 0 lets no request pass. Requests that are never rejected pass, and are added.
        let passes = tier == Tier::Never || (self.rate > 0.0 && content <= self.tolerance(tier as usize));
        if passes {
            let u = if content <= 0.0 { phase(rng) } else { 0.0 };
            // Requests that are never rejected must not fill the bucket without limit.
            self.content = (content.max(0.0) + 1.0 + u).min(self.tolerance(2) + 1.5);
            self.last = now;
        }
        passes
    }
}

fn phase(rng: &mut Rng) -> f64 {
    rng.random_range(-0.5..0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(bucket: &mut Bucket, class: MessageClass, offered: u64, rng: &mut Rng) -> usize {
        (0..10 * offered)
            .filter(|n| bucket.admit(Instant::from_nanos(n * 1_000_000_000 / offered), class, rng))
            .count()
    }

    #[test]
    fn the_long_term_rate_is_the_bound_and_the_burst_is_the_tolerance() {
        let mut rng = Rng::from_seed(3);
        for (class, burst) in [(MessageClass::NewInvite, 5), (MessageClass::Priority, 10)] {
            let mut bucket = Bucket::new(Instant::ZERO, 20.0, &mut rng);
            let sent = sent(&mut bucket, class, 1_000, &mut rng);
            assert!((200 + burst - 1..=200 + burst + 2).contains(&sent), "{class:?}: {sent}");
        }
    }

    #[test]
    fn a_high_rate_is_reached_with_batches() {
        let mut rng = Rng::from_seed(3);
        let mut bucket = Bucket::new(Instant::ZERO, 10_000.0, &mut rng);
        // 64 at a time, 16,000 a second.
        let batch = |at: u64| Instant::from_nanos(at * 4_000_000);
        let sent = (0..250)
            .flat_map(|at| [at; 64])
            .filter(|at| bucket.admit(batch(*at), MessageClass::NewInvite, &mut rng));
        let sent = sent.count();
        assert!((9_900..=10_600).contains(&sent), "{sent}");
    }

    #[test]
    fn below_the_rate_all_requests_pass_and_at_zero_only_those_never_rejected() {
        let mut rng = Rng::from_seed(3);
        let mut bucket = Bucket::new(Instant::ZERO, 20.0, &mut rng);
        assert_eq!(sent(&mut bucket, MessageClass::NewInvite, 19, &mut rng), 190);
        let mut shut = Bucket::new(Instant::ZERO, 0.0, &mut rng);
        assert_eq!(sent(&mut shut, MessageClass::InDialog, 10, &mut rng), 0);
        assert_eq!(sent(&mut shut, MessageClass::Closing, 10, &mut rng), 100);
    }

    #[test]
    fn buckets_that_start_together_do_not_stay_together() {
        let mut rng = Rng::from_seed(3);
        let firsts: Vec<_> = (0..8)
            .map(|_| {
                let mut bucket = Bucket::new(Instant::ZERO, 1.0, &mut rng);
                while bucket.admit(Instant::ZERO, MessageClass::NewInvite, &mut rng) {}
                (0..3_000)
                    .find(|ms| bucket.admit(Instant::from_millis(*ms), MessageClass::NewInvite, &mut rng))
                    .unwrap()
            })
            .collect();
        let (min, max) = (firsts.iter().min().unwrap(), firsts.iter().max().unwrap());
        assert!(max - min > 300, "{firsts:?}");
    }
}
