//! The timer that wakes a thread for the next deadline of its shard.

use base::Instant;
use rustix::event::{PollFd, PollFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::OwnedFd;

/// Deadlines are rounded up to multiples of this, 2^24 ns or about 16.8 ms. Thousands of sessions with fine deadlines
/// therefore wake an idle thread at most sixty times a second. The grain is far below every SIP timer.
const GRAIN_NS: u64 = 1 << 24;

/// A timer that stays armed while its thread sleeps and wakes.
///
/// A time-out of `poll` would be armed at each sleep and disarmed at each wake-up. On a virtual machine each of these
/// may be a trap to the host. Deadlines change far less often than datagrams arrive.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: OwnedFd,
    /// Expiry time; `None` if disarmed.
    set: Option<Instant>,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Self { timer: timerfd_create(TimerfdClockId::Monotonic, flags)?, set: None })
    }

    /// Arms the timer for `deadline`, rounded up to the grain; `None` disarms an expired timer. `now` is the time as
    /// last read.
    ///
    /// A timer that expires too early is left as it is: the thread finds no work and arms it again. An expired timer
    /// stays readable until it is re-armed or disarmed.
    pub(crate) fn set(&mut self, now: Instant, deadline: Option<Instant>) {
        let rung = self.set.is_some_and(|set| set <= now);
        let wanted = deadline.map(|deadline| {
            Instant::from_nanos(deadline.as_nanos().max(now.as_nanos()).next_multiple_of(GRAIN_NS))
        });
        let early_enough = match (self.set, wanted) {
            (_, None) => true,
            (Some(set), Some(wanted)) => set <= wanted,
            (None, Some(_)) => false,
        };
        if early_enough && !rung {
            return;
        }
        // Zero would disarm the timer, so the time is at least a nanosecond.
        let nanos = wanted.map_or(0, |wanted| (wanted.as_nanos() - now.as_nanos()).max(1));
        let value =
            Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let spec = Itimerspec { it_interval: never, it_value: value };
        // This fails only for invalid times, which cannot occur here.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec);
        self.set = wanted;
    }

    /// Returns the descriptor to poll, which is readable once the timer has expired.
    pub(crate) fn watched(&self) -> PollFd<'_> {
        PollFd::new(&self.timer, PollFlags::IN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{Timespec, poll};

    /// Returns whether the timer expires within this number of seconds.
    fn is_due_in(alarm: &Alarm, tv_sec: i64) -> bool {
        poll(&mut [alarm.watched()], Some(&Timespec { tv_sec, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn expires_until_it_is_set_again() {
        let (mut alarm, now) = (Alarm::new().unwrap(), Instant::from_nanos(5));
        alarm.set(now, None);
        assert!(!is_due_in(&alarm, 0));
        alarm.set(now, Some(now));
        assert!(is_due_in(&alarm, 60));
        assert!(is_due_in(&alarm, 0));
        // The timer expired after one grain at the earliest, and no deadline is left.
        let later = Instant::from_nanos(GRAIN_NS);
        alarm.set(later, None);
        assert!(!is_due_in(&alarm, 0));
    }

    #[test]
    fn is_rearmed_only_for_an_earlier_time_or_after_expiry() {
        let at = |grains: u64| Instant::from_nanos(grains * GRAIN_NS);
        let mut alarm = Alarm::new().unwrap();
        let hour = 214_577;
        let steps = [
            (0, Some(2 * hour), Some(2 * hour)),
            (1, Some(3 * hour), Some(2 * hour)),
            (1, None, Some(2 * hour)),
            (1, Some(hour), Some(hour)),
            (hour - 1, Some(3 * hour), Some(hour)),
            (hour, Some(3 * hour), Some(3 * hour)),
            (3 * hour, Some(hour), Some(3 * hour)),
            (3 * hour, None, None),
        ];
        for (now, deadline, expected) in steps {
            alarm.set(at(now), deadline.map(at));
            assert_eq!(alarm.set, expected.map(at), "at {now} for {deadline:?}");
        }
        // A time between two grains is rounded up.
        alarm.set(at(0), Some(Instant::from_nanos(1)));
        assert_eq!(alarm.set, Some(at(1)));
    }
}
