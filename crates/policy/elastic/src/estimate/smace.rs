//! The Cloud paper's law (sections IV-B and VI-C).
//!
//! Every 10 s at most, with L the 95th percentile of the last window and T the threshold:
//!
//! - L > T: `capacity <- 0.9 * goodput`;
//! - else: `capacity <- capacity * sqrt(1 + (T - L) / T)`, or in the conservative mode `capacity + 10` a minute.
//!
//! What the paper leaves open, and what is done: goodput counts up to the capacity alone
//! ([`Settings::goodput_bounded`]); `load_current` is the capacity that
//! is announced, not what has come, so capacity grows to the maximum when nobody calls; a window without samples
//! changes nothing, but one of a server that stands still takes a tenth; the conservative mode begins with the second
//! reduction in a row and ends after a calm minute.

use super::estimator::relative;
use super::{Settings, Window};
use base::Instant;
use core::time::Duration;

/// Factor of the goodput when latency is above the threshold (sections IV-B and VI-C).
const REDUCED: f64 = 0.9;
/// The least time between two changes (section VI-C).
const HOLD: Duration = Duration::from_secs(10);
/// Growth in the conservative mode, calls a second in a minute (section IV-B).
const CONSERVATIVE_PER_MINUTE: f64 = 10.0;
/// So many changes in a row above the threshold, with less than the maximum, are the period "where latency is high even
/// when the load is below the maximum" that begins the conservative mode. Ours, the paper gives no number.
const CONSERVATIVE_AFTER: u32 = 2;
/// So long without latency above the threshold ends it. Ours.
const CALM: Duration = Duration::from_mins(1);

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
        let measured = window.p95.filter(|_| window.calls > 0);
        let Some(p95) = measured.or_else(|| window.stands_still(settings)) else { return capacity };
        let latency = relative(settings, p95);
        if latency > 1.0 {
            self.calm_since = now;
        } else if now - self.calm_since >= CALM {
            self.conservative = false;
        }
        if now - self.changed < HOLD {
            return capacity;
        }
        self.changed = now;
        let grown = now - core::mem::replace(&mut self.grown, now);
        if latency > 1.0 {
            self.reductions += 1;
            self.conservative |= self.reductions >= CONSERVATIVE_AFTER && capacity < settings.maximum;
            let most = if settings.goodput_bounded { capacity } else { f64::INFINITY };
            // Of nothing that was forwarded nothing follows but that it was too much.
            let goodput = if measured.is_some() { window.goodput } else { capacity };
            return REDUCED * goodput.min(most);
        }
        self.reductions = 0;
        if self.conservative {
            capacity + CONSERVATIVE_PER_MINUTE * grown.as_secs_f64() / 60.0
        } else {
            capacity * (2.0 - latency).sqrt()
        }
    }
}
