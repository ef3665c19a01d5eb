//! Decides when to sleep and when to poll, so that timers are met to some microseconds.

use base::Instant;
use core::time::Duration;

/// Largest lateness that is assumed of a machine; an overloaded or stopped one is later.
const LATE_MAX: Duration = Duration::from_millis(1);
/// Share of the time that may be spent polling: one in so many.
const WATCH_SHARE: u32 = 8;
/// Most polling time that may be saved up.
const CREDIT_MAX: Duration = Duration::from_millis(20);
/// Decrease of the assumed lateness with each sleep that was less late: one in so many.
const DECAY: u32 = 16;

/// Plans sleeps that end early by the time that this machine wakes a thread late. On a virtual processor that was given
/// up this is up to half a millisecond. The rest is spent polling. Polling takes a processor from others, so it is
/// limited to an eighth of the time; more frequent deadlines are met only as sleep allows.
#[derive(Clone, Debug)]
pub(super) struct Waking {
    /// Assumed lateness of a sleep; rises at once and falls slowly.
    late: Duration,
    /// Time that may be spent polling.
    credit: Duration,
    /// Time up to which credit was added.
    credited: Instant,
    /// The deadline whose polling time has been paid.
    paid_for: Option<Instant>,
    /// Planned end of the last sleep.
    ends: Option<Instant>,
}

impl Default for Waking {
    fn default() -> Self {
        Self { late: LATE_MAX, credit: CREDIT_MAX, credited: Instant::ZERO, paid_for: None, ends: None }
    }
}

impl Waking {
    /// Returns how long to sleep before this deadline; zero: look for work, and ask again.
    pub(super) fn sleep(&mut self, now: Instant, due: Instant) -> Duration {
        let earned = now.saturating_since(self.credited) / WATCH_SHARE;
        (self.credit, self.credited) = ((self.credit + earned).min(CREDIT_MAX), now);
        let left = due.saturating_since(now);
        if self.paid_for != Some(due) {
            let Some(credit) = self.credit.checked_sub(self.late.min(left)) else {
                self.ends = None;
                return left;
            };
            (self.credit, self.paid_for) = (credit, Some(due));
        }
        let sleep = left.saturating_sub(self.late);
        self.ends = (!sleep.is_zero()).then_some(now + sleep);
        sleep
    }

    /// Records that a sleep has ended by its timeout.
    pub(super) fn woke(&mut self, now: Instant) {
        let Some(ends) = self.ends.take() else { return };
        let late = now.saturating_since(ends).min(LATE_MAX);
        let less = self.late.saturating_sub(late) / DECAY;
        self.late = late.max(self.late.saturating_sub(less));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    /// Sleeps until a deadline on a machine that wakes threads `late`. Returns the time spent polling.
    fn meet(waking: &mut Waking, now: &mut Instant, due: Instant, late: Duration) -> Duration {
        let mut awake = Duration::ZERO;
        while *now < due {
            let sleep = waking.sleep(*now, due);
            if sleep.is_zero() {
                *now += us(1);
                awake += us(1);
            } else {
                *now += sleep + late;
                waking.woke(*now);
            }
        }
        awake
    }

    #[test]
    fn deadlines_are_met_on_a_machine_that_wakes_late() {
        for late in [us(60), us(450)] {
            let (mut waking, mut now) = (Waking::default(), Instant::ZERO);
            for number in 1..=200 {
                let due = Instant::from_millis(20 * number);
                let awake = meet(&mut waking, &mut now, due, late);
                assert!(now - due <= us(1), "{late:?}, {number}: {:?} too late", now - due);
                // After the lateness has been learned.
                assert!(number < 100 || awake <= late + us(10), "{awake:?} awake");
            }
        }
    }

    #[test]
    fn polling_time_is_limited_to_its_share() {
        let (mut waking, mut now, mut awake) = (Waking::default(), Instant::ZERO, Duration::ZERO);
        let mut due = Instant::ZERO;
        while now < Instant::from_millis(10_000) {
            due = due.max(now) + us(500);
            awake += meet(&mut waking, &mut now, due, us(450));
        }
        assert!(awake < us(10_000_000) / WATCH_SHARE + CREDIT_MAX, "{awake:?}");
        assert!(awake > us(100_000), "{awake:?}");
    }

    #[test]
    fn a_long_stall_does_not_raise_the_assumed_lateness() {
        let (mut waking, mut now) = (Waking::default(), Instant::ZERO);
        meet(&mut waking, &mut now, Instant::from_millis(10), Duration::from_secs(1));
        assert_eq!(waking.late, LATE_MAX);
    }
}
