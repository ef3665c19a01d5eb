//! Timers of few lengths, in one queue for each length.

use crate::Instant;
use std::collections::VecDeque;

/// No timer waits in a queue.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// How many void timers one look clears away behind the one it hands out: enough to keep pace with any mix of timers,
/// of which each transaction or call sets a few, and some hundred nanoseconds at most.
const SWEEP_MAX: usize = 32;

/// How many void timers at the front of queues one look passes over, each with its sweep: a thousand in all, some ten
/// microseconds. After a long stall there may be more; they are due again at once.
const PASSED_MAX: usize = 32;

/// Places of a queue below which it is not made shorter.
const SHORT: usize = 1 << 10;

/// Gives back what memory a peak has left to a queue. One that is an eighth full is copied to a quarter of its size,
/// so this costs little for each entry that has gone.
pub fn shrink_queue<T>(queue: &mut VecDeque<T>) {
    let places = queue.capacity();
    if places > SHORT && queue.len() < places / 8 {
        queue.shrink_to(places / 4);
    }
}

/// A timer in its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneTimer {
    /// When it fires.
    pub deadline: Instant,
    /// Which queue it is in.
    pub queue: u8,
    /// What it is about: the place of an entry, and who has the place.
    pub place: u32,
    /// See [`Self::place`].
    pub generation: u32,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    deadline: Instant,
    place: u32,
    generation: u32,
}

/// Timers of few different lengths: a queue for each length, in which the first to be set is the first to fire.
///
/// Set and fire touch 16 bytes at the end and at the front of a queue, whatever the number of timers, and a timer
/// fires at its very instant. There is no cancel: whoever set a timer knows whether it still waits for it, and is
/// asked when its turn comes, so a void timer costs its 16 bytes until its time is over. Where lengths are many or
/// most timers are called off long before their time, [`crate::TimerWheel`] is the better choice.
///
/// - Setting: [`set`](Self::set).
/// - Running: [`deadline`](Self::deadline) says when to call [`pop`](Self::pop) again.
#[derive(Debug)]
pub struct TimerQueues {
    queues: Vec<Queue>,
    /// The first queue with the earliest deadline at its front, and that.
    first: (usize, Instant),
}

#[derive(Clone, Debug)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// The deadline at its front.
    front: Instant,
    /// The deadline at its back; once it is empty, that of the last one that was there.
    back: Instant,
}

impl TimerQueues {
    /// So many queues, each empty.
    pub fn new(count: usize) -> Self {
        let queue = Queue { waiting: VecDeque::new(), front: NEVER, back: Instant::ZERO };
        Self { queues: vec![queue; count], first: (0, NEVER) }
    }

    /// Sets a timer, and says when it will fire: at `deadline`, unless its queue holds a later one already, behind
    /// which it waits.
    #[expect(clippy::inline_always, reason = "a few instructions, several times a message")]
    #[inline(always)]
    pub fn set(&mut self, queue: u8, deadline: Instant, place: u32, generation: u32) -> Instant {
        let number = queue as usize;
        let queue = &mut self.queues[number];
        // Where the queue is empty there is nothing to wait behind.
        let deadline = if queue.front == NEVER { deadline } else { queue.back.max(deadline) };
        if queue.front == NEVER {
            queue.front = deadline;
            let (first, at) = self.first;
            if (deadline, number) < (at, first) {
                self.first = (number, deadline);
            }
        }
        queue.back = deadline;
        queue.waiting.push_back(Waiting { deadline, place, generation });
        deadline
    }

    /// The next timer that is due at `now` and not void; among those of one instant, that of the first queue. `None`
    /// too when very many void ones are before it: then [`deadline`](Self::deadline) is not after `now`, and the next
    /// call goes on from there.
    #[inline]
    pub fn pop(&mut self, now: Instant, is_void: impl FnMut(&LaneTimer) -> bool) -> Option<LaneTimer> {
        // Asked far more often than something is due.
        if self.first.1 > now { None } else { self.pop_due(now, is_void) }
    }

    fn pop_due(&mut self, now: Instant, mut is_void: impl FnMut(&LaneTimer) -> bool) -> Option<LaneTimer> {
        for _ in 0..PASSED_MAX {
            if self.first.1 > now || self.first.1 == NEVER {
                break;
            }
            let number = self.first.0;
            let queue = &mut self.queues[number];
            let named = |&Waiting { deadline, place, generation }: &Waiting| LaneTimer {
                deadline,
                queue: number as u8,
                place,
                generation,
            };
            let timer = queue.waiting.pop_front().as_ref().map(named)?;
            // So that nobody is woken for them.
            for _ in 0..SWEEP_MAX {
                if queue.waiting.front().is_none_or(|next| !is_void(&named(next))) {
                    break;
                }
                queue.waiting.pop_front();
            }
            shrink_queue(&mut queue.waiting);
            queue.front = queue.waiting.front().map_or(NEVER, |next| next.deadline);
            self.find_first();
            if !is_void(&timer) {
                return Some(timer);
            }
        }
        None
    }

    /// When [`pop`](Self::pop) should be called next; a lower bound, as the timer may be void.
    pub fn deadline(&self) -> Option<Instant> {
        Some(self.first.1).filter(|&deadline| deadline != NEVER)
    }

    fn find_first(&mut self) {
        self.first = (0, NEVER);
        for (number, queue) in self.queues.iter().enumerate() {
            if queue.front < self.first.1 {
                self.first = (number, queue.front);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_back_after_a_peak() {
        let mut queues = TimerQueues::new(1);
        let at = Instant::from_millis;
        for n in 0..100_000 {
            queues.set(0, at(n.into()), n, 0);
        }
        assert!(queues.queues[0].waiting.capacity() >= 100_000);
        for n in 0..100_000 {
            assert_eq!(queues.pop(at(200_000), |_| false).map(|timer| timer.place), Some(n));
        }
        assert_eq!(queues.pop(at(200_000), |_| false), None);
        assert!(queues.queues[0].waiting.capacity() <= 2 * SHORT);
    }
}
