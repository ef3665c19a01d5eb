//! When requests of dialogs went on without a transaction.

use base::Instant;

/// When the first copy of each request of a dialog went on that did so without a transaction lately. A key has the
/// places of a row, where the latest replaces the oldest, so that a message allocates nothing but the first.
#[derive(Default)]
pub(super) struct FirstCopies(Vec<Row>);

type Row = [(u64, Instant); 8];

impl FirstCopies {
    /// At 1,000 requests a second one row of 50 gets more than it has places for within 32 s (64*T1).
    const ROWS: usize = 8_192;

    /// When the first copy of the request with this key went on: now, if none is known.
    pub(super) fn since(&mut self, now: Instant, key: u64) -> Instant {
        if self.0.is_empty() {
            self.0.resize(Self::ROWS, Row::default());
        }
        let row = &mut self.0[key as usize % Self::ROWS];
        if let Some((_, since)) = row.iter().find(|(kept, _)| *kept == key) {
            return *since;
        }
        if let Some(oldest) = row.iter_mut().min_by_key(|(_, since)| *since) {
            *oldest = (key, now);
        }
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn a_request_is_known_until_as_many_others_of_its_row_have_come() {
        let mut copies = FirstCopies::default();
        let at = |second| Instant::ZERO + Duration::from_secs(second);
        let key = |of_row: u64| 5 + of_row * FirstCopies::ROWS as u64;
        for of_row in 1..=8 {
            assert_eq!(copies.since(at(of_row), key(of_row)), at(of_row));
        }
        assert_eq!(copies.since(at(20), key(1)), at(1));
        assert_eq!(copies.since(at(21), key(9)), at(21));
        assert_eq!(copies.since(at(22), key(1)), at(22), "the oldest made place");
        assert_eq!(copies.since(at(23), key(3)), at(3));
    }
}
