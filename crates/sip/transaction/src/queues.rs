//! Timers of all transactions. There are only a few different lengths, so a queue for each length is enough.

use crate::machine::{Pace, Timer};
use crate::timers::Timers;
use base::{Instant, LaneTimer, TimerQueues};
use core::time::Duration;

/// Retransmission interval: T1 doubled this number of times, or T2.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Interval(u8);

/// Maximum number of doublings of T1: retransmissions last 64*T1, so an interval of 2^7 T1 never expires.
const DOUBLINGS_MAX: u8 = 7;

impl Interval {
    const T2: Self = Self(DOUBLINGS_MAX + 1);
    const COUNT: usize = Self::T2.0 as usize + 1;
}

/// Number of timers that end a state. Their queues come first, so that at one instant the end of a state precedes a
/// retransmission.
const LIVES: usize = Timer::ALL.len();

/// All timers of a layer, in one queue for each length.
#[derive(Debug)]
pub(crate) struct Queues {
    profile: Timers,
    /// Lengths of the timers in nanoseconds, by queue.
    lengths: [u64; LIVES + Interval::COUNT],
    /// Timers that cause a retransmission or news for the user.
    noticed: TimerQueues,
    /// Timers that only end transactions.
    unnoticed: TimerQueues,
}

/// Timers that only end a transaction, by their queue.
const UNNOTICED: [Timer; 6] = [Timer::D, Timer::I, Timer::J, Timer::K, Timer::L, Timer::M];

/// Queue of each timer in [`UNNOTICED`].
const LANE_OF: [Option<u8>; LIVES] = {
    let mut queues = [None; LIVES];
    let mut queue = 0;
    while queue < UNNOTICED.len() {
        queues[UNNOTICED[queue] as usize] = Some(queue as u8);
        queue += 1;
    }
    queues
};

/// Purpose of a timer in a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Ends a state.
    Life(Timer),
    /// Retransmits a message.
    Resend,
}

impl Queues {
    pub(crate) fn new(profile: Timers) -> Self {
        let mut lengths = [nanos(profile.t2); LIVES + Interval::COUNT];
        for (length, timer) in lengths.iter_mut().zip(Timer::ALL) {
            *length = nanos(profile.value(timer));
        }
        for doublings in 0..=DOUBLINGS_MAX {
            lengths[LIVES + doublings as usize] = nanos(profile.t1 * (1 << doublings));
        }
        Self {
            profile,
            lengths,
            noticed: TimerQueues::new(LIVES + Interval::COUNT),
            unnoticed: TimerQueues::new(UNNOTICED.len()),
        }
    }

    /// Starts a timer that ends a state, for the transaction at this place.
    #[inline(always)]
    pub(crate) fn live(&mut self, now: Instant, timer: Timer, (place, generation): (u32, u32)) -> Instant {
        let deadline = self.after(now, timer as u8);
        match LANE_OF[timer as usize] {
            Some(queue) => self.unnoticed.set(queue, deadline, place, generation),
            None => self.noticed.set(timer as u8, deadline, place, generation),
        }
    }

    fn after(&self, now: Instant, queue: u8) -> Instant {
        Instant::from_nanos(now.as_nanos().saturating_add(self.lengths[queue as usize]))
    }

    /// Starts the retransmission timer.
    #[inline(always)]
    pub(crate) fn resend(
        &mut self,
        now: Instant,
        interval: Interval,
        (place, generation): (u32, u32),
    ) -> Instant {
        let queue = LIVES as u8 + interval.0;
        self.noticed.set(queue, self.after(now, queue), place, generation)
    }

    /// Next interval; `None` if no timer is started.
    pub(crate) fn paced(&self, interval: Interval, pace: Pace) -> Option<Interval> {
        let doubled = Interval((interval.0 + 1).min(DOUBLINGS_MAX));
        match pace {
            Pace::Keep | Pace::Stop => None,
            Pace::Start => Some(Interval::default()),
            Pace::Double => Some(doubled),
            Pace::DoubleToT2 if interval == Interval::T2 => Some(interval),
            Pace::DoubleToT2 => {
                let fits = self.lengths[LIVES + doubled.0 as usize] < nanos(self.profile.t2);
                Some(if fits { doubled } else { Interval::T2 })
            }
            Pace::T2 => Some(Interval::T2),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        Instant::earliest(self.noticed.deadline(), self.unnoticed.deadline())
    }

    pub(crate) fn noticed_deadline(&self) -> Option<Instant> {
        self.noticed.deadline()
    }

    pub(crate) fn unnoticed_deadline(&self) -> Option<Instant> {
        self.unnoticed.deadline()
    }

    /// Returns the next due timer that its transaction still waits for.
    pub(crate) fn pop(
        &mut self,
        now: Instant,
        waits: impl Fn(&LaneTimer, Purpose) -> bool,
    ) -> Option<(LaneTimer, Purpose)> {
        if let Some((timer, life)) = self.pop_unnoticed(now, |timer, life| waits(timer, Purpose::Life(life)))
        {
            return Some((timer, Purpose::Life(life)));
        }
        let noticed = |timer: &LaneTimer| match Timer::ALL.get(timer.queue as usize) {
            Some(&life) => Purpose::Life(life),
            None => Purpose::Resend,
        };
        let timer = self.noticed.pop(now, |timer| !waits(timer, noticed(timer)))?;
        Some((timer, noticed(&timer)))
    }

    /// Whether a timer that only ends a transaction may be due.
    #[inline]
    pub(crate) fn unnoticed_is_due(&self, now: Instant) -> bool {
        self.unnoticed.deadline().is_some_and(|deadline| deadline <= now)
    }

    /// Like [`pop`](Self::pop), but only for the timers that only end transactions.
    pub(crate) fn pop_unnoticed(
        &mut self,
        now: Instant,
        waits: impl Fn(&LaneTimer, Timer) -> bool,
    ) -> Option<(LaneTimer, Timer)> {
        let life = |timer: &LaneTimer| UNNOTICED[timer.queue as usize];
        let timer = self.unnoticed.pop(now, |timer| !waits(timer, life(timer)))?;
        Some((timer, life(&timer)))
    }
}

fn nanos(length: Duration) -> u64 {
    (Instant::ZERO + length).as_nanos()
}
