//! The queue of pending events.

use base::Instant;
use core::time::Duration;

/// Bits of a digit of time. Each digit has a level of slots.
const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
/// Digits of 64 bits of nanoseconds: the queue covers the whole range of [`Instant`].
const LEVELS: usize = u64::BITS.div_ceil(DIGIT_BITS) as usize;
/// A slot with at most this many events is sorted directly; a fuller slot is first distributed over the level below.
const POUR_MAX: usize = 48;
/// Maximum of sorted events. Beyond it the later half returns to the slots, because insertions move events.
const NEAR_MAX: usize = 96;
/// Number of events in the sorted run that a new event is compared with before a binary search. Most new events are
/// among the next to happen, for example the end of a service.
const STEPS_MAX: usize = 16;
/// Capacity above which an emptied list is freed, so that memory follows the number of pending events.
const SPARE_MAX: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    at: u64,
    event: E,
}

/// Events in exact order of time. Events of the same instant come out first in, first out.
///
/// Near events wait in a short sorted run. Far events wait in slots by the highest digit in which their time differs
/// from the end of the run, as in a radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, J. ACM 37, 1990). They are sorted
/// only when few enough share the next slot, as in a ladder queue (Tang, Goh and Thng, ACM TOMACS 15, 2005). An event
/// thus costs a few moves of its entry, whatever the number of pending events and the scale of time. No tick must be
/// chosen for the model. Keep `E` small (8 to 16 bytes), because it is copied.
///
/// An event cannot be cancelled: put a generation into it and compare when it happens.
///
/// - Scheduling: [`at`](Self::at), [`after`](Self::after).
/// - Running: [`pop`](Self::pop), or [`pop_until`](Self::pop_until) an end; both advance [`now`](Self::now).
#[derive(Debug)]
pub struct EventQueue<E> {
    now: u64,
    len: usize,
    /// All events up to `base`; the next one is last.
    near: Vec<Entry<E>>,
    base: u64,
    /// Lists of the events after `base`, level by level; each list is in the order of scheduling.
    slots: Vec<Vec<Entry<E>>>,
    /// One bit for each slot with events.
    occupied: [u64; LEVELS],
    /// One bit for each level that has such a slot.
    levels: u32,
    /// Empty lists for reuse.
    spare: Vec<Vec<Entry<E>>>,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self {
            now: 0,
            len: 0,
            near: Vec::with_capacity(2 * NEAR_MAX),
            base: 0,
            slots: (0..LEVELS * SLOTS).map(|_| Vec::new()).collect(),
            occupied: [0; LEVELS],
            levels: 0,
            spare: Vec::new(),
        }
    }
}

impl<E: Copy> EventQueue<E> {
    /// Instant of the last popped event.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    /// Schedules an event. An instant before [`now`](Self::now) is a bug of the model; without debug assertions, the
    /// event happens at once.
    pub fn at(&mut self, at: Instant, event: E) {
        debug_assert!(at.as_nanos() >= self.now, "scheduled at {at}, in the past of {}", self.now());
        let entry = Entry { at: at.as_nanos().max(self.now), event };
        self.len += 1;
        if entry.at > self.base {
            self.put_far(entry);
            return;
        }
        self.put_near(entry);
        if self.near.len() > NEAR_MAX {
            self.split();
        }
    }

    /// Schedules an event at this time after [`now`](Self::now).
    pub fn after(&mut self, wait: Duration, event: E) {
        self.at(self.now() + wait, event);
    }

    /// Removes the next event and advances the time to it.
    pub fn pop(&mut self) -> Option<(Instant, E)> {
        self.take_until(u64::MAX)
    }

    /// Removes the next event if it happens at `end` or before. Otherwise advances the time to `end`.
    pub fn pop_until(&mut self, end: Instant) -> Option<(Instant, E)> {
        let popped = self.take_until(end.as_nanos());
        if popped.is_none() {
            self.now = self.now.max(end.as_nanos());
        }
        popped
    }

    fn take_until(&mut self, end: u64) -> Option<(Instant, E)> {
        if self.near.is_empty() {
            self.fill();
        }
        let &Entry { at, event } = self.near.last().filter(|entry| entry.at <= end)?;
        self.near.pop();
        self.now = at;
        self.len -= 1;
        Some((Instant::from_nanos(at), event))
    }

    /// Number of pending events.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no event is pending.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills the sorted run, so that it starts with the next event.
    fn fill(&mut self) {
        while self.near.is_empty() && self.levels != 0 {
            let level = self.levels.trailing_zeros() as usize;
            let slot = self.occupied[level].trailing_zeros() as usize;
            let mut list = self.take(level, slot);
            let shift = level as u32 * DIGIT_BITS;
            let start = upper(self.base, level) | (slot as u64) << shift;
            if level == 0 || list.len() <= POUR_MAX {
                self.base = start | ((1 << shift) - 1);
                list.sort_by_key(|entry| entry.at);
                self.near.extend(list.drain(..).rev());
            } else {
                self.base = start;
                for entry in list.drain(..) {
                    if entry.at == start {
                        self.near.push(entry);
                    } else {
                        self.put_far(entry);
                    }
                }
                self.near.reverse();
            }
            self.recycle(list);
        }
    }

    /// Shortens the sorted run to its earlier half, and sets `base` to its new end.
    fn split(&mut self) {
        let last = self.near[self.near.len() - 1 - NEAR_MAX / 2].at;
        let later = self.near.partition_point(|entry| entry.at > last);
        if later == 0 {
            return;
        }
        let (level, slot) = place(self.base, last);
        let below = core::mem::replace(&mut self.base, last);
        // Relative to the new end, all times that differed from the old end in a lower digit differ in this digit.
        while self.levels & ((1 << level) - 1) != 0 {
            let lower = self.levels.trailing_zeros() as usize;
            let from = self.occupied[lower].trailing_zeros() as usize;
            let mut list = self.take(lower, from);
            for entry in list.drain(..) {
                debug_assert!(entry.at > below && place(entry.at, last) == (level, slot));
                self.put_far(entry);
            }
            self.recycle(list);
        }
        for index in (0..later).rev() {
            self.put_far(self.near[index]);
        }
        self.near.drain(..later);
    }

    /// Inserts an event into the sorted run, behind events of the same instant.
    fn put_near(&mut self, entry: Entry<E>) {
        // Most events are among the next to happen, so earlier ones are moved one by one.
        self.near.push(entry);
        let further = (self.near.len() - 1).saturating_sub(STEPS_MAX);
        let next_few = &mut self.near[further..];
        for place in (1..next_few.len()).rev() {
            if next_few[place - 1].at > entry.at {
                next_few[place] = entry;
                return;
            }
            next_few[place] = next_few[place - 1];
        }
        let place = self.near[..further].partition_point(|other| other.at > entry.at);
        self.near.copy_within(place..further, place + 1);
        self.near[place] = entry;
    }

    fn put_far(&mut self, entry: Entry<E>) {
        let (level, slot) = place(entry.at, self.base);
        let list = &mut self.slots[level * SLOTS + slot];
        if list.capacity() == 0
            && let Some(spare) = self.spare.pop()
        {
            *list = spare;
        }
        list.push(entry);
        self.occupied[level] |= 1 << slot;
        self.levels |= 1 << level;
    }

    fn take(&mut self, level: usize, slot: usize) -> Vec<Entry<E>> {
        self.occupied[level] &= !(1 << slot);
        if self.occupied[level] == 0 {
            self.levels &= !(1 << level);
        }
        core::mem::take(&mut self.slots[level * SLOTS + slot])
    }

    fn recycle(&mut self, list: Vec<Entry<E>>) {
        if list.capacity() <= SPARE_MAX {
            self.spare.push(list);
        }
    }
}

/// Returns the highest digit in which a later time differs from `base`, as a level, and the digit's value.
fn place(at: u64, base: u64) -> (usize, usize) {
    let level = (u64::BITS - 1 - (at ^ base).leading_zeros()) / DIGIT_BITS;
    (level as usize, (at >> (level * DIGIT_BITS)) as usize % SLOTS)
}

/// Returns the digits above a level.
fn upper(time: u64, level: usize) -> u64 {
    let shift = (level as u32 + 1) * DIGIT_BITS;
    time.checked_shr(shift).and_then(|digits| digits.checked_shl(shift)).unwrap_or(0)
}
