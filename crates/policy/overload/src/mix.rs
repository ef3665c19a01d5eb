//! Choice of requests to reject, by a fraction or a rate.

use crate::{MessageClass, Tier};
use base::{Instant, Rng};
use core::time::Duration;
use rand::Rng as _;

/// Messages that a fraction or a rate counts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Scope {
    /// New requests only: the acceptance probability of INVITEs of the Overload paper (VI-B, VII-A).
    #[default]
    NewRequests,
    /// Every request, new or within a dialog: the meaning of `oc` on the wire (RFC 7339 §5.3, RFC 7415 §3.4).
    AllRequests,
}

impl Scope {
    /// Whether messages of this class are counted. Retransmissions are never counted (RFC 6357 §9.1).
    pub const fn counts(self, class: MessageClass) -> bool {
        match self {
            Self::NewRequests => class.is_new(),
            Self::AllRequests => {
                !matches!(class, MessageClass::Timer | MessageClass::Response | MessageClass::Repeat)
            }
        }
    }
}

/// Rejects a fraction of requests, lower tiers first (RFC 7339 §7.2). It uses the share of each tier in the recent
/// traffic: "10 % less" then becomes "25 % of the 40 % that may be rejected".
#[derive(Clone, Debug)]
pub struct Mix {
    scope: Scope,
    counts: [f64; 4],
    aged: Instant,
}

/// RFC 7339 §7.2 samples the mix "every 5-10 seconds". Here the counts halve at this interval, so that a new sample
/// never replaces a good one at once.
const HALF_LIFE: Duration = Duration::from_secs(5);

impl Mix {
    /// Starts with one assumed new request, so that the very first emergency call does not count as all of the traffic.
    pub const fn new(scope: Scope) -> Self {
        Self { scope, counts: [1.0, 0.0, 0.0, 0.0], aged: Instant::ZERO }
    }

    /// Counts a request, whether or not requests are being rejected: the mix must be known when rejections start.
    pub fn note(&mut self, now: Instant, class: MessageClass) {
        let halvings = now.saturating_since(self.aged).as_nanos() / HALF_LIFE.as_nanos();
        if halvings > 0 {
            let keep = 0.5_f64.powi(halvings.min(64) as i32);
            self.counts.iter_mut().for_each(|count| *count *= keep);
            self.aged = now;
        }
        if self.scope.counts(class) {
            self.counts[class.tier() as usize] += 1.0;
        }
    }

    /// Probability that a request of this tier is kept, if a fraction `acceptance` (0 to 1) of all requests is to be
    /// kept.
    pub fn keep(&self, tier: Tier, acceptance: f64) -> f64 {
        let total: f64 = self.counts.iter().sum();
        if tier == Tier::Never || total <= 0.0 {
            return if tier == Tier::Never { 1.0 } else { acceptance };
        }
        // This tier has to reject the part that lower tiers cannot cover.
        let before: f64 = self.counts[..tier as usize].iter().sum();
        let to_reject = (1.0 - acceptance) * total - before;
        if to_reject <= 0.0 {
            return 1.0;
        }
        (1.0 - to_reject / self.counts[tier as usize]).max(0.0)
    }

    /// Counts a request, and draws whether it is accepted.
    pub fn draw(&mut self, now: Instant, class: MessageClass, acceptance: f64, rng: &mut Rng) -> bool {
        self.note(now, class);
        let keep = if self.scope.counts(class) { self.keep(class.tier(), acceptance) } else { 1.0 };
        // A number is drawn in any case, so that two runs with one seed differ only where their laws differ.
        rng.random::<f64>() < keep
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "values are passed on, not computed")]
mod tests {
    use super::*;

    fn mix(counts: &[(MessageClass, usize)]) -> Mix {
        let mut mix = Mix::new(Scope::AllRequests);
        for &(class, count) in counts {
            (0..count).for_each(|_| mix.note(Instant::ZERO, class));
        }
        mix
    }

    #[test]
    fn lower_tiers_are_rejected_first_and_the_total_is_the_requested_fraction() {
        // Example of RFC 7339 §7.2: if 40 % of all requests may be rejected, 10 % less of all means 25 % of these 40 %.
        let mix = mix(&[
            (MessageClass::NewInvite, 39),
            (MessageClass::Priority, 20),
            (MessageClass::InDialog, 20),
            (MessageClass::Closing, 20),
        ]);
        let keep = |f| [Tier::First, Tier::Later, Tier::Last, Tier::Never].map(|tier| mix.keep(tier, f));
        assert_eq!(keep(1.0), [1.0; 4]);
        assert!((keep(0.9)[0] - 0.75).abs() < 1e-12);
        let half = keep(0.5);
        assert!(half[0] == 0.0 && (half[1] - 0.5).abs() < 1e-12 && half[2..] == [1.0; 2], "{half:?}");
        let tenth = keep(0.1);
        assert_eq!(tenth, [0.0, 0.0, 0.0, 1.0], "only requests that are never rejected are left");
    }

    #[test]
    fn the_mix_follows_the_traffic() {
        let mut mix = mix(&[(MessageClass::Priority, 1_000)]);
        let later = Instant::ZERO + HALF_LIFE * 20;
        (0..100).for_each(|_| mix.note(later, MessageClass::NewInvite));
        assert!((mix.keep(Tier::First, 0.5) - 0.5).abs() < 1e-3 && mix.keep(Tier::Later, 0.5) > 0.99);
    }
}
