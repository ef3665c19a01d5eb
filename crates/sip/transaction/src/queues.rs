//! The timers of all transactions: each of a length that the profile gives, so that queues are enough.

use crate::machine::{Pace, Timer};
use crate::timers::Timers;
use base::{Instant, LaneTimer, TimerQueues};
use core::time::Duration;

/// The interval after which a message is sent again: T1 doubled so many times, or T2.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Interval(u8);

/// T1 is doubled at most so often: a transaction that sends again lasts 64*T1, so 2^7 of them are never waited for.
const DOUBLINGS_MAX: u8 = 7;

impl Interval {
    const T2: Self = Self(DOUBLINGS_MAX + 1);
    const COUNT: usize = Self::T2.0 as usize + 1;
}

/// Timers of the machines come first: giving up goes before sending again at the same instant.
const LIVES: usize = Timer::ALL.len();

/// All timers of a layer. Every length is one of few, so each has its queue.
#[derive(Debug)]
pub(crate) struct Queues {
    profile: Timers,
    /// In nanoseconds, by queue.
    lengths: [u64; LIVES + Interval::COUNT],
    /// Timers that do something, sooner or later, that somebody notices.
    noticed: TimerQueues,
    /// The others: they only end transactions that have done their duty.
    unnoticed: TimerQueues,
}

/// Timers that end a transaction that has done its duty, by their queue.
const UNNOTICED: [Timer; 6] = [Timer::D, Timer::I, Timer::J, Timer::K, Timer::L, Timer::M];

/// The queue of each of these timers.
const LANE_OF: [Option<u8>; LIVES] = {
    let mut queues = [None; LIVES];
    let mut queue = 0;
    while queue < UNNOTICED.len() {
        queues[UNNOTICED[queue] as usize] = Some(queue as u8);
        queue += 1;
    }
    queues
};

/// What a timer in a queue is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// To end a state.
    Life(Timer),
    /// To send again.
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

    /// Starts the timer that sends again.
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

    /// The interval that follows this one; `None` if none is started.
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

    /// The next timer that is due and that its transaction still waits for.
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

    /// Whether one that nobody notices may be due.
    #[inline]
    pub(crate) fn unnoticed_is_due(&self, now: Instant) -> bool {
        self.unnoticed.deadline().is_some_and(|deadline| deadline <= now)
    }

    /// The same among those that nobody notices.
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
