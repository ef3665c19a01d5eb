//! The most calls a second of a server, whatever it answers.

use base::Instant;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

/// Calls that may come at once: those of so long, and one at least.
const BURST: Duration = Duration::from_millis(500);

/// A token bucket that all shards of a process share. It fills at the rate, up to the calls of half a second, and each
/// call takes one token. Calls with priority may take as many again.
///
/// It is kept as a generic cell rate algorithm (ITU-T I.371, annex A): one number, when the next call would come if
/// all came evenly. So a change of the rate changes nothing that is kept. Where two shards look at the same moment,
/// both calls may pass, and the bucket owes one.
#[derive(Debug, Default)]
pub struct RateCap {
    /// Nanoseconds.
    next: AtomicU64,
}

/// Two are equal if they are one.
impl PartialEq for RateCap {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}

/// The time from one call to the next, and that of a burst, in nanoseconds.
fn times(rate: u32) -> (u64, u64) {
    let interval = Duration::from_secs(1).as_nanos() as u64 / u64::from(rate.max(1));
    (interval, interval.max(BURST.as_nanos() as u64))
}

impl RateCap {
    /// Whether a call may go, at so many a second.
    pub fn has_room(&self, now: Instant, rate: u32, has_priority: bool) -> bool {
        let (interval, burst) = times(rate);
        let most = if has_priority { 2 * burst } else { burst };
        let ahead = self.next.load(Ordering::Relaxed).saturating_sub(now.as_nanos());
        ahead + interval <= most
    }

    /// A call goes, at so many a second.
    pub fn take(&self, now: Instant, rate: u32) {
        let ((interval, burst), now) = (times(rate), now.as_nanos());
        let after = |next: u64| Some((next.max(now) + interval).min(now + 2 * burst));
        // Never fails: there is always a next time.
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
    fn the_rate_is_kept_to_and_a_burst_passes() {
        assert_eq!(passed(20, 20, false), 200, "at the rate all pass");
        assert_eq!(passed(20, 19, false), 190);
        assert!((208..=211).contains(&passed(20, 1_000, false)));
        assert!((218..=221).contains(&passed(20, 1_000, true)), "priority has a burst of its own");
        assert!((10..=11).contains(&passed(1, 1_000, false)), "one at least");
    }
}
