//! Recent requests, and whether they are answered.

use base::{Instant, shrink_queue};
use core::time::Duration;
use hashbrown::HashTable;
use std::collections::VecDeque;

/// A request of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Request {
    key: u64,
    at: Instant,
    /// Neither answered nor refused yet.
    open: bool,
}

/// Result of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// The first answer to a request, after this time.
    First(Duration),
    /// A further answer: a retransmission or another branch.
    Again,
    /// An answer to an unknown request.
    Unknown,
}

/// Requests by key, in order of arrival, for a limited time and in limited number. They stay after their answer, so
/// that a retransmission is not taken for a new request.
#[derive(Debug)]
pub(super) struct Table {
    requests: VecDeque<Request>,
    /// Number of the request at the front. Numbers wrap; there are far fewer requests than numbers.
    first: u32,
    /// Numbers of requests by their keys.
    index: HashTable<u32>,
    /// No request before this number is open.
    oldest_open: u32,
    open: usize,
    /// Number of the latest request that was settled.
    settled: Option<u32>,
    timeout: Duration,
    most: usize,
}

/// Counts of requests that have left the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Gone {
    /// Requests that expired without an answer.
    pub(super) unanswered: u64,
    /// Requests that were evicted, answered or not.
    pub(super) evicted: u64,
}

impl Table {
    /// A table for requests of the last `timeout`, at most `most`.
    pub(super) fn new(timeout: Duration, most: usize) -> Self {
        let most = most.clamp(1, 1 << 30);
        Self {
            requests: VecDeque::new(),
            first: 0,
            index: HashTable::new(),
            oldest_open: 0,
            open: 0,
            settled: None,
            timeout,
            most,
        }
    }

    fn find(&self, key: u64) -> Option<usize> {
        let (first, requests) = (self.first, &self.requests);
        let place = |number: u32| number.wrapping_sub(first) as usize;
        self.index.find(key, |&number| requests[place(number)].key == key).map(|&number| place(number))
    }

    /// Adds a request. Returns whether it is new.
    pub(super) fn came(&mut self, now: Instant, key: u64, gone: &mut Gone) -> bool {
        if self.find(key).is_some() {
            return false;
        }
        if self.requests.len() >= self.most {
            self.drop_front();
            gone.evicted += 1;
        }
        let number = self.first.wrapping_add(self.requests.len() as u32);
        self.requests.push_back(Request { key, at: now, open: true });
        self.open += 1;
        let (first, requests) = (self.first, &self.requests);
        self.index.insert_unique(key, number, |number| requests[number.wrapping_sub(first) as usize].key);
        true
    }

    /// Whether there is an unanswered request with this key.
    pub(super) fn is_open(&self, key: u64) -> bool {
        self.find(key).is_some_and(|place| self.requests[place].open)
    }

    /// Records an answer to the request with this key.
    pub(super) fn answered(&mut self, now: Instant, key: u64) -> Answer {
        match self.find(key) {
            None => Answer::Unknown,
            Some(place) if self.requests[place].open => Answer::First(self.settle(now, place)),
            Some(_) => Answer::Again,
        }
    }

    /// Records an answer to the oldest unanswered request, and returns its time.
    pub(super) fn oldest_answered(&mut self, now: Instant) -> Option<Duration> {
        if self.open == 0 {
            return None;
        }
        let mut place = self.oldest_open.wrapping_sub(self.first) as usize;
        while !self.requests[place].open {
            place += 1;
        }
        self.oldest_open = self.first.wrapping_add(place as u32);
        Some(self.settle(now, place))
    }

    fn settle(&mut self, now: Instant, place: usize) -> Duration {
        let request = &mut self.requests[place];
        request.open = false;
        self.open -= 1;
        let time = now.saturating_since(request.at);
        if place >= self.after_settled() {
            self.settled = Some(self.first.wrapping_add(place as u32));
        }
        time
    }

    /// Place after the latest settled request.
    fn after_settled(&self) -> usize {
        let place = self.settled.map(|number| number.wrapping_sub(self.first) as usize);
        // The request may have left the table.
        place.filter(|place| *place < self.requests.len()).map_or(0, |place| place + 1)
    }

    /// Returns the age of the oldest request that is newer than every settled one. `None` without a second such
    /// request, since a single request may be lost.
    pub(super) fn oldest(&self, now: Instant) -> Option<Duration> {
        let mut newer = self.requests.range(self.after_settled()..);
        let oldest = newer.next()?;
        newer.next().map(|_| now.saturating_since(oldest.at))
    }

    /// Returns the number of unanswered requests.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Returns the number of all requests.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Drops requests that are too old.
    pub(super) fn expire(&mut self, now: Instant, gone: &mut Gone) {
        while self.requests.front().is_some_and(|request| request.at + self.timeout <= now) {
            gone.unanswered += u64::from(self.drop_front());
        }
        shrink_queue(&mut self.requests);
        if self.index.capacity() > 1024 && self.index.len() < self.index.capacity() / 8 {
            let (first, requests) = (self.first, &self.requests);
            let key = |number: &u32| requests[number.wrapping_sub(first) as usize].key;
            self.index.shrink_to(self.requests.len() * 2, key);
        }
    }

    /// Drops the oldest request. Returns whether it was open.
    fn drop_front(&mut self) -> bool {
        let Some(request) = self.requests.front().copied() else { return false };
        let first = self.first;
        if let Ok(found) = self.index.find_entry(request.key, |&number| number == first) {
            found.remove();
        }
        self.requests.pop_front();
        self.open -= usize::from(request.open);
        if self.oldest_open == self.first {
            self.oldest_open = self.oldest_open.wrapping_add(1);
        }
        self.first = self.first.wrapping_add(1);
        request.open
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TIMEOUT: Duration = Duration::from_millis(50);

    #[derive(Clone, Debug)]
    enum Step {
        Came(u64),
        Answered(u64),
        Oldest,
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..12_u64).prop_map(Step::Came),
            3 => (0..12_u64).prop_map(Step::Answered),
            1 => Just(Step::Oldest),
            2 => (0..30_u64).prop_map(Step::Wait),
        ]
    }

    proptest! {
        /// Compares the table with a plain list, also while numbers wrap.
        #[test]
        fn the_table_behaves_like_a_plain_list(steps in prop::collection::vec(step(), 0..200), most in 1..8_usize) {
            let mut table = Table::new(TIMEOUT, most);
            table.first = u32::MAX - 20;
            table.oldest_open = table.first;
            let mut list: Vec<Request> = Vec::new();
            let (mut now, mut gone, mut expected) = (Instant::ZERO, Gone::default(), Gone::default());
            for step in steps {
                match step {
                    Step::Came(key) => {
                        let new = !list.iter().any(|request| request.key == key);
                        prop_assert_eq!(table.came(now, key, &mut gone), new);
                        if new {
                            if list.len() == most {
                                list.remove(0);
                                expected.evicted += 1;
                            }
                            list.push(Request { key, at: now, open: true });
                        }
                    }
                    Step::Answered(key) => {
                        let answer = match list.iter_mut().find(|request| request.key == key) {
                            None => Answer::Unknown,
                            Some(Request { open: false, .. }) => Answer::Again,
                            Some(request) => {
                                request.open = false;
                                Answer::First(now - request.at)
                            }
                        };
                        prop_assert_eq!(table.answered(now, key), answer);
                    }
                    Step::Oldest => {
                        let oldest = list.iter_mut().find(|request| request.open).map(|request| {
                            request.open = false;
                            now - request.at
                        });
                        prop_assert_eq!(table.oldest_answered(now), oldest);
                    }
                    Step::Wait(ms) => {
                        now += Duration::from_millis(ms);
                        table.expire(now, &mut gone);
                        list.retain(|request| {
                            let old = request.at + TIMEOUT <= now;
                            expected.unanswered += u64::from(old && request.open);
                            !old
                        });
                    }
                }
                prop_assert_eq!(gone, expected);
                prop_assert_eq!(table.len(), list.len());
                prop_assert_eq!(table.index.len(), list.len());
                let newer = list.iter().rposition(|request| !request.open).map_or(0, |place| place + 1);
                let oldest = list[newer..].first().filter(|_| newer + 1 < list.len());
                prop_assert_eq!(table.oldest(now), oldest.map(|request| now - request.at));
                prop_assert_eq!(table.open(), list.iter().filter(|request| request.open).count());
            }
        }
    }

    #[test]
    fn memory_is_released_after_a_peak() {
        let (mut table, mut gone) = (Table::new(TIMEOUT, 1 << 20), Gone::default());
        for key in 0..100_000 {
            table.came(Instant::ZERO, key, &mut gone);
        }
        for _ in 0..10 {
            table.expire(Instant::from_millis(50), &mut gone);
        }
        assert_eq!(gone, Gone { unanswered: 100_000, evicted: 0 });
        assert!(table.requests.capacity() <= 2048 && table.index.capacity() <= 2048);
    }
}
