//! Capacity of a server as the front knows it: the announced value, and its decay when updates stop.

use base::Instant;
use core::time::Duration;

/// Validity of an update. Updates come every second (Cloud paper, section V-A), so three in a row may be lost.
pub const VALIDITY: Duration = Duration::from_millis(3_500);
/// Half-life, after that time, of the part above the safe share.
const HALF_LIFE: Duration = Duration::from_secs(5);
/// Share of the last capacity that a silent server keeps. Not zero: perhaps only the updates are lost. The calls that
/// the server still gets show whether it is alive.
const SAFE_SHARE: f64 = 0.2;

/// The last announcement of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Announced {
    capacity: f64,
    at: Instant,
}

impl Announced {
    /// Records an update at `now`. A capacity that is not a finite number counts as 0.
    pub fn new(now: Instant, capacity: f64) -> Self {
        Self { capacity: if capacity.is_finite() { capacity.max(0.0) } else { 0.0 }, at: now }
    }

    /// Effective capacity in calls a second, for an update valid for `validity`. Never increases with time.
    pub fn capacity(&self, now: Instant, validity: Duration) -> f64 {
        let late = now.saturating_since(self.at + validity);
        if late.is_zero() {
            return self.capacity;
        }
        let halves = late.as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.capacity * (SAFE_SHARE + (1.0 - SAFE_SHARE) * (-halves).exp2())
    }

    /// Whether updates have stopped.
    pub fn is_silent(&self, now: Instant, validity: Duration) -> bool {
        now > self.at + validity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_server_keeps_only_its_safe_share() {
        let at = Instant::from_millis;
        let told = Announced::new(at(1_000), 300.0);
        let capacity = |millis| told.capacity(at(millis), VALIDITY);
        assert!((capacity(4_500) - 300.0).abs() < 1e-9);
        assert!(!told.is_silent(at(4_500), VALIDITY) && told.is_silent(at(4_501), VALIDITY));
        // Half of the 240 above the safe share are gone after 5 s.
        assert!((capacity(9_500) - 180.0).abs() < 1e-9);
        assert!((capacity(10_000_000) - 60.0).abs() < 1e-6);
        let mut last = f64::INFINITY;
        for millis in (0..120_000).step_by(100) {
            assert!(capacity(millis) <= last && capacity(millis) >= 60.0);
            last = capacity(millis);
        }
        assert!(Announced::new(at(0), f64::NAN).capacity(at(0), VALIDITY).abs() < 1e-9);
    }
}
