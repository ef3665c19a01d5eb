//! Configured limit of calls per second to a server.

use base::Instant;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

/// Largest burst: the calls of this time at the rate, and at least one call.
const BURST: Duration = Duration::from_millis(500);

/// Token bucket that all shards of a process share. It fills at the rate, up to the calls of half a second, and each
/// call takes one token. Calls with priority may take the same number of tokens in addition.
///
/// It is stored as in the generic cell rate algorithm (ITU-T I.371, annex A): one number, the time of the next call if
/// calls came evenly. So a change of the rate does not affect the stored state. If two shards check at the same moment,
/// both calls may pass, and the bucket is overdrawn by one call.
#[derive(Debug, Default)]
pub struct RateCap {
    /// Time of the next call, in nanoseconds.
    next: AtomicU64,
}

/// Two values are equal only if they are the same object.
impl PartialEq for RateCap {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}

/// Time between calls and length of a burst, in nanoseconds.
fn times(rate: u32) -> (u64, u64) {
    let interval = Duration::from_secs(1).as_nanos() as u64 / u64::from(rate.max(1));
    (interval, interval.max(BURST.as_nanos() as u64))
}

impl RateCap {
    /// Whether a call may go, at `rate` calls per second.
    pub fn has_room(&self, now: Instant, rate: u32, has_priority: bool) -> bool {
        let (interval, burst) = times(rate);
        let most = if has_priority { 2 * burst } else { burst };
        let ahead = self.next.load(Ordering::Relaxed).saturating_sub(now.as_nanos());
        ahead + interval <= most
    }

    /// Counts a call, at `rate` calls per second.
    pub fn take(&self, now: Instant, rate: u32) {
        let ((interval, burst), now) = (times(rate), now.as_nanos());
        let after = |next: u64| Some((next.max(now) + interval).min(now + 2 * burst));
        // This cannot fail, since the closure always returns a value.
        let _ = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(rate: u32, offered: u64, has_priority: bool) -> usize {
        let cap = RateCap::default();
        let at = |n: u64| Instant::from_nanos(n * 1_000_000_000 / offered);
        (0..10 * offered)
            .filter(|n| {
                let passes = cap.has_room(at(*n), rate, has_priority);
                if passes {
                    cap.take(at(*n), rate);
                }
                passes
            })
            .count()
    }

    #[test]
    fn the_rate_is_enforced_and_a_burst_passes() {
        assert_eq!(passed(20, 20, false), 200, "at the rate all calls pass");
        assert_eq!(passed(20, 19, false), 190);
        assert!((208..=211).contains(&passed(20, 1_000, false)));
        assert!((218..=221).contains(&passed(20, 1_000, true)), "priority has a burst of its own");
        assert!((10..=11).contains(&passed(1, 1_000, false)), "a burst has at least one call");
    }
}
