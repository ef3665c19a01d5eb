use crate::Instant;
use std::collections::VecDeque;

/// No timer waits in a lane.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// How many void timers one look clears away behind the one it hands out: enough to keep pace with any mix of timers, of
/// which each transaction or call sets a few, and some hundred nanoseconds at most.
const SWEEP_MAX: usize = 32;

/// How many void timers at the front of lanes one look passes over, each with its sweep: a thousand in all, some ten
/// microseconds. After a long stall there may be more; they are due again at once.
const PASSED_MAX: usize = 32;

/// Places of a queue below which it is not made shorter.
const SHORT: usize = 1 << 10;

/// Gives back what memory a peak has left to a queue. One that is an eighth full is copied to a quarter of its size, so this
/// costs little for each entry that has gone.
pub fn shrink_queue<T>(queue: &mut VecDeque<T>) {
    let places = queue.capacity();
    if places > SHORT && queue.len() < places / 8 {
        queue.shrink_to(places / 4);
    }
}

/// A timer in its lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneTimer {
    /// When it fires.
    pub deadline: Instant,
    /// Which lane it is in.
    pub lane: u8,
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
/// fires at its very instant. There is no cancel: whoever set a timer knows whether it still waits for it, and is asked
/// when its turn comes, so a void timer costs its 16 bytes until its time is over. Where lengths are many or most timers
/// are called off long before their time, [`crate::TimerWheel`] is the better choice.
///
/// - Setting: [`set`](Self::set).
/// - Running: [`deadline`](Self::deadline) says when to call [`pop`](Self::pop) again.
#[derive(Debug)]
pub struct TimerLanes {
    lanes: Vec<Lane>,
    /// The first lane with the earliest deadline at its front, and that.
    first: (usize, Instant),
}

#[derive(Clone, Debug)]
struct Lane {
    queue: VecDeque<Waiting>,
    /// The deadline at its front.
    front: Instant,
    /// The deadline at its back; once it is empty, that of the last one that was there.
    back: Instant,
}

impl TimerLanes {
    /// So many lanes, each empty.
    pub fn new(count: usize) -> Self {
        let lane = Lane { queue: VecDeque::new(), front: NEVER, back: Instant::ZERO };
        Self { lanes: vec![lane; count], first: (0, NEVER) }
    }

    /// Sets a timer, and says when it will fire: at `deadline`, unless its lane holds a later one already, behind which
    /// it waits.
    #[expect(clippy::inline_always, reason = "a few instructions, several times a message")]
    #[inline(always)]
    pub fn set(&mut self, lane: u8, deadline: Instant, place: u32, generation: u32) -> Instant {
        let number = lane as usize;
        let lane = &mut self.lanes[number];
        // Where the lane is empty there is nothing to wait behind.
        let deadline = if lane.front == NEVER { deadline } else { lane.back.max(deadline) };
        if lane.front == NEVER {
            lane.front = deadline;
            let (first, at) = self.first;
            if (deadline, number) < (at, first) {
                self.first = (number, deadline);
            }
        }
        lane.back = deadline;
        lane.queue.push_back(Waiting { deadline, place, generation });
        deadline
    }

    /// The next timer that is due at `now` and not void; among those of one instant, that of the first lane. `None` too when very
    /// many void ones are before it: then [`deadline`](Self::deadline) is not after `now`, and the next call goes on from there.
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
            let lane = &mut self.lanes[number];
            let named = |&Waiting { deadline, place, generation }: &Waiting| LaneTimer {
                deadline,
                lane: number as u8,
                place,
                generation,
            };
            let timer = lane.queue.pop_front().as_ref().map(named)?;
            // So that nobody is woken for them.
            for _ in 0..SWEEP_MAX {
                if lane.queue.front().is_none_or(|next| !is_void(&named(next))) {
                    break;
                }
                lane.queue.pop_front();
            }
            shrink_queue(&mut lane.queue);
            lane.front = lane.queue.front().map_or(NEVER, |next| next.deadline);
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
        for (number, lane) in self.lanes.iter().enumerate() {
            if lane.front < self.first.1 {
                self.first = (number, lane.front);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_back_after_a_peak() {
        let mut lanes = TimerLanes::new(1);
        let at = Instant::from_millis;
        for n in 0..100_000 {
            lanes.set(0, at(n.into()), n, 0);
        }
        assert!(lanes.lanes[0].queue.capacity() >= 100_000);
        for n in 0..100_000 {
            assert_eq!(lanes.pop(at(200_000), |_| false).map(|timer| timer.place), Some(n));
        }
        assert_eq!(lanes.pop(at(200_000), |_| false), None);
        assert!(lanes.lanes[0].queue.capacity() <= 2 * SHORT);
    }
}
