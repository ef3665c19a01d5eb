//! Law of the Cloud paper (sections IV-B and VI-C).
//!
//! At most every 10 s, with L the 95th percentile of the last window and T the threshold:
//!
//! - L > T: `capacity <- 0.9 * goodput`;
//! - else: `capacity <- capacity * sqrt(1 + (T - L) / T)`, or in the conservative mode `capacity + 10` a minute.
//!
//! The paper leaves some points open. Goodput counts up to the capacity only ([`EstimatorSettings::goodput_bounded`]).
//! `load_current` is the announced capacity, not the arrivals, so capacity grows to the maximum without calls. A window
//! without samples changes nothing, but a server that has stopped loses a tenth. The conservative mode starts with the
//! second reduction in a row and ends after a calm minute.

use super::estimator::relative;
use super::{EstimatorSettings, ServerWindow};
use base::Instant;
use core::time::Duration;

/// Factor of the goodput when latency is above the threshold (sections IV-B and VI-C).
const REDUCED: f64 = 0.9;
/// Least time between two changes (section VI-C).
const HOLD: Duration = Duration::from_secs(10);
/// Growth in the conservative mode, calls a second in a minute (section IV-B).
const CONSERVATIVE_PER_MINUTE: f64 = 10.0;
/// Changes in a row above the threshold, below the maximum capacity, that start the conservative mode: the period
/// "where latency is high even when the load is below the maximum". The paper gives no number.
const CONSERVATIVE_AFTER: u32 = 2;
/// Time without latency above the threshold that ends the conservative mode. The paper gives no value.
const CALM: Duration = Duration::from_mins(1);

#[derive(Debug, Clone)]
pub(super) struct Smace {
    changed: Instant,
    /// Reductions in a row.
    reductions: u32,
    conservative: bool,
    /// Start of the time with latency within the threshold.
    calm_since: Instant,
    /// Time of the last change, from which growth in the conservative mode is counted.
    grown: Instant,
}

impl Smace {
    pub(super) fn new(now: Instant) -> Self {
        Self { changed: now, reductions: 0, conservative: false, calm_since: now, grown: now }
    }

    pub(super) fn next(
        &mut self,
        settings: &EstimatorSettings,
        now: Instant,
        capacity: f64,
        window: &ServerWindow,
    ) -> f64 {
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
            // If no call was forwarded, the only conclusion is that the load was too high.
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
