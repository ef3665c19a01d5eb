//! Names of the header fields that a table asks for: found among many of them without a look at each.

use core::cmp::Ordering;

/// Names, each with a number, in either form (RFC 3261 §7.3.1, §7.3.3).
#[derive(Clone, Debug, Default)]
pub(crate) struct HeaderNames {
    /// In lower case and sorted, with their numbers.
    sorted: Vec<(Box<[u8]>, u16)>,
    /// By letter: a compact form, and the number of the long one.
    compact: Vec<(u8, u16)>,
    /// A bit for each byte that a name may begin with, in either form and case.
    beginnings: [u64; 4],
}

impl HeaderNames {
    /// The number of a field, by its long name.
    pub(crate) fn add(&mut self, long: &str) -> u16 {
        let lower = long.to_ascii_lowercase().into_bytes().into_boxed_slice();
        let place = match self.sorted.binary_search_by(|(known, _)| known.cmp(&lower)) {
            Ok(known) => return self.sorted[known].1,
            Err(place) => place,
        };
        let number = self.sorted.len() as u16;
        let letter = (b'a'..=b'z').find(|letter| wire::is_header(&[*letter], long));
        self.compact.extend(letter.map(|letter| (letter, number)));
        for first in lower.first().copied().into_iter().chain(letter) {
            for byte in [first, first.to_ascii_uppercase()] {
                self.beginnings[usize::from(byte >> 6)] |= 1 << (byte & 63);
            }
        }
        self.sorted.insert(place, (lower, number));
        number
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether one of them, as it may be written, begins with this byte.
    pub(crate) fn is_beginning(&self, byte: u8) -> bool {
        self.beginnings[usize::from(byte >> 6)] & 1 << (byte & 63) != 0
    }

    /// The number of a field by its name as it is written.
    pub(crate) fn find(&self, written: &[u8]) -> Option<u16> {
        if let [letter] = *written
            && let Some((_, number)) = self.compact.iter().find(|(short, _)| *short == letter | 0x20)
        {
            return Some(*number);
        }
        let found = self.sorted.binary_search_by(|(known, _)| order(known, written));
        found.ok().map(|at| self.sorted[at].1)
    }
}

/// How a name in lower case stands to one as it is written.
fn order(known: &[u8], written: &[u8]) -> Ordering {
    let differ = known.iter().zip(written).find(|(one, other)| **one != other.to_ascii_lowercase());
    differ.map_or(known.len().cmp(&written.len()), |(one, other)| one.cmp(&other.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_number_found_is_that_of_a_look_at_each(
            names in prop::collection::vec("(X-[ab]{0,2}|Subject|x-a|Supported|Accept-Contact)", 1..8),
            written in "(X-[abA]{0,2}|x-A|s|S|SUBJECT|k|a|A|Accept-contact|b|@)",
        ) {
            let mut all = HeaderNames::default();
            let numbers: Vec<u16> = names.iter().map(|name| all.add(name)).collect();
            let expected = names.iter().position(|name| wire::is_header(written.as_bytes(), name));
            let expected = expected.map(|at| numbers[at]);
            prop_assert_eq!(all.find(written.as_bytes()), expected);
            prop_assert!(expected.is_none() || all.is_beginning(written.as_bytes()[0]));
            prop_assert!(numbers.iter().all(|number| usize::from(*number) < all.len()));
        }
    }
}
