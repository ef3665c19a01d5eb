//! A table of transactions whose keys are consecutive numbers.

use base::shrink_queue;
use std::collections::VecDeque;

/// Marks a number without a transaction.
const NONE: u32 = u32::MAX;

/// Map from consecutive numbers (keys) to the places of transactions in the store: a list that starts at the lowest
/// live number.
///
/// Most transactions live equally long, so numbers are added at the end and freed near the front. Neighbours share a
/// cache line, nothing is hashed, and entries are not moved when others are freed. Gaps cost memory: each number above
/// the lowest live one takes four bytes, used or not.
#[derive(Default, Debug)]
pub(crate) struct Counted {
    first: u64,
    places: VecDeque<u32>,
}

impl Counted {
    pub(crate) fn get(&self, number: u64) -> Option<u32> {
        // A number below the first wraps to a position beyond the end.
        let place = self.places.get(number.wrapping_sub(self.first) as usize)?;
        (*place != NONE).then_some(*place)
    }

    pub(crate) fn insert(&mut self, number: u64, place: u32) {
        if self.places.is_empty() {
            self.first = number;
        }
        while number < self.first {
            self.places.push_front(NONE);
            self.first -= 1;
        }
        let at = (number - self.first) as usize;
        if at < self.places.len() {
            debug_assert_eq!(self.places[at], NONE, "number {number} is taken");
            self.places[at] = place;
        } else {
            self.places.resize(at, NONE);
            self.places.push_back(place);
        }
    }

    pub(crate) fn remove(&mut self, number: u64) {
        self.places[(number - self.first) as usize] = NONE;
        while self.places.front() == Some(&NONE) {
            self.places.pop_front();
            self.first += 1;
        }
        shrink_queue(&mut self.places);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_places_in_any_order() {
        let mut counted = Counted::default();
        let found =
            |counted: &Counted| (0..12).filter_map(|n| Some((n, counted.get(n)?))).collect::<Vec<_>>();
        // The second number leaves a gap, the third is before the first, the fourth fills the gap.
        for number in [5, 9, 3, 7] {
            counted.insert(number, number as u32 * 10);
        }
        assert_eq!(found(&counted), [(3, 30), (5, 50), (7, 70), (9, 90)]);
        counted.remove(5);
        counted.remove(3);
        assert_eq!(
            (found(&counted), counted.places.len()),
            (vec![(7, 70), (9, 90)], 3),
            "the front is freed"
        );
        counted.remove(9);
        counted.remove(7);
        counted.insert(2, 20);
        assert_eq!((found(&counted), counted.places.len()), (vec![(2, 20)], 1));
        assert_eq!(counted.get(u64::MAX), None);
    }
}
