//! The Cloud paper's law (sections IV-B and VI-C).
//!
//! Every 10 s at most, with L the 95th percentile of the last window and T the threshold:
//!
//! - L > T: `capacity <- 0.9 * goodput`;
//! - else: `capacity <- capacity * sqrt(1 + (T - L) / T)`, or in the conservative mode `capacity + 10` a minute.
//!
//! What the paper leaves open, and what is done: goodput counts up to the capacity alone
//! ([`SmaceSettings::goodput_bounded`](super::SmaceSettings::goodput_bounded)); `load_current` is the capacity that
//! is announced, not what has come, so capacity grows to the maximum when nobody calls; a window without samples
//! changes nothing, but one of a server that stands still takes a tenth; the conservative mode begins with the second
//! reduction in a row and ends after a calm minute.

use super::estimator::relative;
use super::{Settings, Window};
use base::Instant;

#[derive(Debug, Clone)]
pub(super) struct Smace {
    changed: Instant,
    /// Reductions in a row.
    reductions: u32,
    conservative: bool,
    /// Since when latency is within the threshold.
    calm_since: Instant,
    /// The last change in the conservative mode is counted from here.
    grown: Instant,
}

impl Smace {
    pub(super) fn new(now: Instant) -> Self {
        Self { changed: now, reductions: 0, conservative: false, calm_since: now, grown: now }
    }

    pub(super) fn next(&mut self, settings: &Settings, now: Instant, capacity: f64, window: &Window) -> f64 {
        let law = &settings.smace;
        let measured = window.p95.filter(|_| window.calls > 0);
        let Some(p95) = measured.or_else(|| window.stands_still(settings)) else { return capacity };
        let latency = relative(settings, p95);
        if latency > 1.0 {
            self.calm_since = now;
        } else if now - self.calm_since >= law.calm {
            self.conservative = false;
        }
        if now - self.changed < law.hold {
            return capacity;
        }
        self.changed = now;
        let grown = now - core::mem::replace(&mut self.grown, now);
        if latency > 1.0 {
            self.reductions += 1;
            self.conservative |= self.reductions >= law.conservative_after && capacity < settings.maximum;
            let most = if law.goodput_bounded { capacity } else { f64::INFINITY };
            // Of nothing that was forwarded nothing follows but that it was too much.
            let goodput = if measured.is_some() { window.goodput } else { capacity };
            return law.reduced * goodput.min(most);
        }
        self.reductions = 0;
        if self.conservative {
            capacity + law.conservative_per_minute * grown.as_secs_f64() / 60.0
        } else {
            capacity * (2.0 - latency).sqrt()
        }
    }
}
