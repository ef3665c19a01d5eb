//! Timers of few different lengths, in one queue for each length.

use crate::Instant;
use std::collections::VecDeque;

/// Deadline of an empty queue.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// Void timers that one call of `pop` removes behind the timer it returns. The limit keeps pace with any mix of timers,
/// since each transaction or call sets a few, and costs some hundred nanoseconds at most.
const SWEEP_MAX: usize = 32;

/// Void timers at the front of queues that one call of `pop` passes over, each with its sweep: a thousand timers in
/// all, some ten microseconds. After a long stall there may be more; the next call continues with them at once.
const PASSED_MAX: usize = 32;

/// Capacity of a queue below which it is not shrunk.
const SHORT: usize = 1 << 10;

/// Frees memory that a peak has left to a queue. A queue that is an eighth full is copied to a quarter of its capacity,
/// so the cost per removed entry is small.
pub fn shrink_queue<T>(queue: &mut VecDeque<T>) {
    let places = queue.capacity();
    if places > SHORT && queue.len() < places / 8 {
        queue.shrink_to(places / 4);
    }
}

/// Timer with its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneTimer {
    /// Deadline.
    pub deadline: Instant,
    /// Number of its queue.
    pub queue: u8,
    /// Entry that the timer belongs to: its place, and its generation in this place.
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

/// Timers of few different lengths, with a queue for each length: the first timer set is the first to fire.
///
/// Setting and firing touch 16 bytes at the end and at the front of a queue, whatever the number of timers. A timer
/// fires exactly at its deadline. There is no cancel. The owner of a timer knows whether it is void and says so to
/// [`pop`](Self::pop), so a void timer holds its 16 bytes until its deadline. [`crate::TimerWheel`] is better if there
/// are many lengths, or if most timers are cancelled long before their deadline.
///
/// - Setting: [`set`](Self::set).
/// - Running: [`deadline`](Self::deadline) says when to call [`pop`](Self::pop) again.
#[derive(Debug)]
pub struct TimerQueues {
    queues: Vec<Queue>,
    /// The first queue with the earliest deadline at its front, and this deadline.
    first: (usize, Instant),
}

#[derive(Clone, Debug)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// Deadline of the timer at the front.
    front: Instant,
    /// Deadline of the timer at the back; in an empty queue, of its last timer.
    back: Instant,
}

impl TimerQueues {
    /// Makes that many empty queues.
    pub fn new(count: usize) -> Self {
        let queue = Queue { waiting: VecDeque::new(), front: NEVER, back: Instant::ZERO };
        Self { queues: vec![queue; count], first: (0, NEVER) }
    }

    /// Sets a timer, and returns when it will fire: at `deadline`, or with the last timer of its queue if that is
    /// later.
    #[expect(clippy::inline_always, reason = "a few instructions, several times a message")]
    #[inline(always)]
    pub fn set(&mut self, queue: u8, deadline: Instant, place: u32, generation: u32) -> Instant {
        let number = queue as usize;
        let queue = &mut self.queues[number];
        // An empty queue has no timer to wait behind.
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

    /// Next timer that is due at `now` and not void. Of timers with one deadline, the timer of the first queue comes
    /// first. Also `None` after very many void timers: then [`deadline`](Self::deadline) is not after `now`, and the
    /// next call continues there.
    #[inline]
    pub fn pop(&mut self, now: Instant, is_void: impl FnMut(&LaneTimer) -> bool) -> Option<LaneTimer> {
        // Called far more often than a timer is due.
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
            // Void timers are removed here, so that no wake-up is scheduled for them.
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

    /// Time of the next call of [`pop`](Self::pop); a lower bound, as the timer may be void.
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
