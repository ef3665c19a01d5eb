use crate::Instant;
use std::collections::VecDeque;

/// No timer waits in a lane.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// How many void timers one look clears away behind the one it hands out: enough to keep pace with any mix of timers, of
/// which each transaction or call sets a few, and some hundred nanoseconds at most.
const SWEEP_MAX: usize = 32;

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
    lanes: Vec<VecDeque<Waiting>>,
    /// The deadline at the front of each lane.
    fronts: Vec<Instant>,
    /// The first lane with the earliest of these, and that.
    first: (usize, Instant),
}

impl TimerLanes {
    /// So many lanes, each empty.
    pub fn new(count: usize) -> Self {
        Self { lanes: vec![VecDeque::new(); count], fronts: vec![NEVER; count], first: (0, NEVER) }
    }

    /// Sets a timer, and says when it will fire: at `deadline`, unless its lane holds a later one already, behind which
    /// it waits.
    pub fn set(&mut self, lane: u8, deadline: Instant, place: u32, generation: u32) -> Instant {
        let queue = &mut self.lanes[lane as usize];
        let deadline = queue.back().map_or(deadline, |last| last.deadline.max(deadline));
        if queue.is_empty() {
            self.fronts[lane as usize] = deadline;
            let (lane, (first, at)) = (lane as usize, self.first);
            if (deadline, lane) < (at, first) {
                self.first = (lane, deadline);
            }
        }
        queue.push_back(Waiting { deadline, place, generation });
        deadline
    }

    /// The next timer that is due at `now` and not void; among those of one instant, that of the first lane.
    pub fn pop(&mut self, now: Instant, mut is_void: impl FnMut(&LaneTimer) -> bool) -> Option<LaneTimer> {
        // Asked far more often than something is due.
        while self.first.1 <= now && self.first.1 != NEVER {
            let lane = self.first.0;
            let queue = &mut self.lanes[lane];
            let named = |&Waiting { deadline, place, generation }: &Waiting| LaneTimer {
                deadline,
                lane: lane as u8,
                place,
                generation,
            };
            let timer = queue.pop_front().as_ref().map(named)?;
            // So that nobody is woken for them.
            for _ in 0..SWEEP_MAX {
                if queue.front().is_none_or(|next| !is_void(&named(next))) {
                    break;
                }
                queue.pop_front();
            }
            self.fronts[lane] = queue.front().map_or(NEVER, |next| next.deadline);
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
        for (lane, &front) in self.fronts.iter().enumerate() {
            if front < self.first.1 {
                self.first = (lane, front);
            }
        }
    }
}
