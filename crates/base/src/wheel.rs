//! Timer wheel for deadlines of any length.

use crate::{Instant, Slab};
use core::time::Duration;

/// Bits of a tick: 2^20 ns, about 1.05 ms, so that a retransmission in a simulation is not visibly late.
const TICK_BITS: u32 = 20;
const SLOT_BITS: u32 = 8;
const SLOTS: usize = 1 << SLOT_BITS;
/// Four levels of 256 slots reach 2^32 ticks, about 52 days. Later deadlines wait in the last slot. They are sorted
/// again when the turn of this slot comes.
const LEVELS: usize = 4;
const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Timer {
    tick: u64,
    value: u32,
    next: u32,
    previous: u32,
    place: u16,
}

/// A hierarchical timer wheel (Varghese and Lauck, SOSP 1987): set, cancel and expire in constant time,
/// whatever the number of timers. A timer fires at most one tick (1.05 ms) late and never early.
///
/// - Setting: [`set`](Self::set) returns a key, which [`cancel`](Self::cancel) takes.
/// - Running: [`deadline`](Self::deadline) says when to call [`pop`](Self::pop) again. [`next`](Self::next) returns the
///   value in front.
#[derive(Debug)]
pub struct TimerWheel {
    timers: Slab<Timer>,
    /// First and last timer of each slot, level by level; a slot is first in, first out.
    slots: Vec<(u32, u32)>,
    /// A bit for each slot that holds timers.
    occupied: [[u64; SLOTS / 64]; LEVELS],
    /// The next tick whose slot has not been run.
    now: u64,
    /// Lower bound of the tick at which a slot has timers to run or to sort again. The bound is exact after a timer was
    /// set. After a cancellation it may be too low, which costs one search without a result.
    first: u64,
}

impl Default for TimerWheel {
    fn default() -> Self {
        Self {
            timers: Slab::default(),
            slots: vec![(NONE, NONE); LEVELS * SLOTS],
            occupied: [[0; SLOTS / 64]; LEVELS],
            now: 0,
            first: u64::MAX,
        }
    }
}

impl TimerWheel {
    /// Sets a timer that returns `value` at `deadline` or up to a tick later. Returns its key.
    pub fn set(&mut self, deadline: Instant, value: u32) -> u32 {
        // Rounded up, so that no timer fires early.
        let tick = deadline.as_nanos().div_ceil(1 << TICK_BITS).max(self.now);
        let key = self.timers.insert(Timer { tick, value, next: NONE, previous: NONE, place: 0 });
        self.link(key);
        key
    }

    /// Cancels a timer. A timer that has fired must not be cancelled, as its key may be in use again.
    pub fn cancel(&mut self, key: u32) {
        self.unlink(key);
        self.timers.remove(key);
    }

    /// Moves a timer to another deadline.
    pub fn reset(&mut self, key: u32, deadline: Instant) {
        self.unlink(key);
        self.timers[key].tick = deadline.as_nanos().div_ceil(1 << TICK_BITS).max(self.now);
        self.link(key);
    }

    /// Next timer that is due at `now`: its key, which is no longer valid, and its value.
    pub fn pop(&mut self, now: Instant) -> Option<(u32, u32)> {
        let target = now.as_nanos() >> TICK_BITS;
        while self.now <= target {
            if self.timers.is_empty() {
                (self.now, self.first) = (target, u64::MAX);
                return None;
            }
            let first = self.slots[self.now as usize % SLOTS].0;
            if first != NONE {
                let value = self.timers[first].value;
                self.cancel(first);
                return Some((first, value));
            }
            if self.first <= self.now {
                self.first = self.first_tick();
            }
            if self.now == target {
                return None;
            }
            self.now = self.first.min(target);
            self.cascade();
        }
        None
    }

    /// Value of the first timer of the next occupied slot. If all timers were set with the same length of at most a
    /// minute, it is the timer that was set first.
    pub fn next(&self) -> Option<u32> {
        let places = (0..LEVELS).filter_map(|level| self.next_place(level));
        let place = places.min_by_key(|&place| self.start(place))?;
        Some(self.timers[self.slots[place].0].value)
    }

    /// Deadline of a timer, rounded up to a tick.
    pub fn deadline_of(&self, key: u32) -> Instant {
        Instant::ZERO + Duration::from_nanos(self.timers[key].tick << TICK_BITS)
    }

    /// The next occupied slot of a level.
    fn next_place(&self, level: usize) -> Option<usize> {
        let at = (self.now >> (level as u32 * SLOT_BITS)) as usize % SLOTS;
        let here = level * SLOTS + at;
        if level == 0 && self.slots[here].0 != NONE {
            return Some(here);
        }
        self.next_slot(level, at).map(|ahead| level * SLOTS + (at + ahead as usize) % SLOTS)
    }

    /// Time of the next call of [`pop`](Self::pop); a lower bound. Timers further ahead than 0.27 s are only roughly
    /// sorted, and a cancelled timer may still count.
    pub fn deadline(&self) -> Option<Instant> {
        if self.timers.is_empty() {
            return None;
        }
        Some(Instant::ZERO + Duration::from_nanos(self.first << TICK_BITS))
    }

    /// Number of timers.
    pub fn len(&self) -> usize {
        self.timers.len()
    }

    /// Whether no timer is set.
    pub fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }

    /// Computes the exact value of `first`.
    fn first_tick(&self) -> u64 {
        if self.slots[self.now as usize % SLOTS].0 != NONE {
            return self.now;
        }
        let mut next = u64::MAX;
        for level in 0..LEVELS {
            let shift = level as u32 * SLOT_BITS;
            let at = self.now >> shift;
            if let Some(ahead) = self.next_slot(level, at as usize % SLOTS) {
                next = next.min((at + ahead) << shift);
            }
        }
        next
    }

    /// Number of slots from `from` to the next occupied one, going round (1 to 256).
    fn next_slot(&self, level: usize, from: usize) -> Option<u64> {
        let words = &self.occupied[level];
        for step in 0..=words.len() {
            let start = (from + 1) % SLOTS;
            let index = (start / 64 + step) % words.len();
            let mut word = words[index];
            if step == 0 {
                word &= u64::MAX << (start % 64);
            } else if step == words.len() {
                word &= !(u64::MAX << (start % 64));
            }
            if word != 0 {
                let slot = index * 64 + word.trailing_zeros() as usize;
                return Some(((slot + SLOTS - start) % SLOTS + 1) as u64);
            }
        }
        None
    }

    /// Sorts the slots of the upper levels that start at `now` into the levels below.
    fn cascade(&mut self) {
        for level in (1..LEVELS).rev() {
            let shift = level as u32 * SLOT_BITS;
            if self.now.trailing_zeros() < shift {
                continue;
            }
            let place = level * SLOTS + (self.now >> shift) as usize % SLOTS;
            let mut key = core::mem::replace(&mut self.slots[place], (NONE, NONE)).0;
            self.mark(place, false);
            while key != NONE {
                let next = self.timers[key].next;
                self.link(key);
                key = next;
            }
        }
    }

    fn link(&mut self, key: u32) {
        let tick = self.timers[key].tick.max(self.now);
        let ahead = tick - self.now;
        let level =
            (0..LEVELS - 1).find(|&l| ahead < 1 << ((l as u32 + 1) * SLOT_BITS)).unwrap_or(LEVELS - 1);
        let shift = level as u32 * SLOT_BITS;
        // Deadlines beyond the reach of the last level go into its furthest slot.
        let reach = (self.now >> shift) + SLOTS as u64 - 1;
        let place = level * SLOTS + (tick >> shift).min(reach) as usize % SLOTS;
        let last = core::mem::replace(&mut self.slots[place].1, key);
        if last == NONE {
            self.slots[place].0 = key;
            self.mark(place, true);
            self.first = self.first.min(self.start(place));
        } else {
            self.timers[last].next = key;
        }
        let timer = &mut self.timers[key];
        (timer.previous, timer.next, timer.place) = (last, NONE, place as u16);
    }

    fn unlink(&mut self, key: u32) {
        let Timer { next, previous, place, .. } = self.timers[key];
        let place = place as usize;
        if previous == NONE {
            self.slots[place].0 = next;
        } else {
            self.timers[previous].next = next;
        }
        if next == NONE {
            self.slots[place].1 = previous;
        } else {
            self.timers[next].previous = previous;
        }
        if self.slots[place].0 == NONE {
            self.mark(place, false);
        }
    }

    /// Tick at which a slot's turn comes: on the lowest level now at the earliest, on higher levels after now.
    fn start(&self, place: usize) -> u64 {
        let (level, slot) = (place / SLOTS, place % SLOTS);
        let shift = level as u32 * SLOT_BITS;
        let at = self.now >> shift;
        let ahead = (slot as u64).wrapping_sub(at) % SLOTS as u64;
        at.wrapping_add(if level > 0 && ahead == 0 { SLOTS as u64 } else { ahead }) << shift
    }

    fn mark(&mut self, place: usize, occupied: bool) {
        let (level, slot) = (place / SLOTS, place % SLOTS);
        let bit = 1 << (slot % 64);
        if occupied {
            self.occupied[level][slot / 64] |= bit;
        } else {
            self.occupied[level][slot / 64] &= !bit;
        }
    }
}
