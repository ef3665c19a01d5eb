//! Names of the header fields that a table tests, with fast lookup.

use core::cmp::Ordering;

/// Numbered names in long and compact form (RFC 3261 §7.3.1, §7.3.3).
#[derive(Clone, Debug, Default)]
pub(crate) struct HeaderNames {
    /// Long names in lower case, sorted, with their numbers.
    sorted: Vec<(Box<[u8]>, u16)>,
    /// Compact forms, with the numbers of their long names.
    compact: Vec<(u8, u16)>,
    /// One bit for each byte that a name may start with, in either form and case.
    beginnings: [u64; 4],
}

impl HeaderNames {
    /// Adds a field by its long name; returns its number.
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

    /// Number of names.
    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether some name, in some spelling, starts with this byte.
    pub(crate) fn is_beginning(&self, byte: u8) -> bool {
        self.beginnings[usize::from(byte >> 6)] & 1 << (byte & 63) != 0
    }

    /// Number of a field by its name as written in a message.
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

/// Order of a lower-case name relative to a name as written.
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
        fn the_number_found_equals_that_of_a_linear_search(
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
