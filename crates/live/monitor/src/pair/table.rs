//! The requests that came in lately, and whether they are answered.

use base::{Instant, shrink_queue};
use core::time::Duration;
use hashbrown::HashTable;
use std::collections::VecDeque;

/// What becomes of a request in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Request {
    key: u64,
    at: Instant,
    /// Neither answered nor refused so far.
    open: bool,
}

/// What an answer is to the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// The first to a request, which came so long before.
    First(Duration),
    /// Another one: a repetition, or a further branch.
    Again,
    /// To nothing that is known.
    Unknown,
}

/// Requests by key, in the order in which they came, for a limited time and in limited number. They stay after their
/// answer, so that a repetition is not taken for a new one.
#[derive(Debug)]
pub(super) struct Table {
    requests: VecDeque<Request>,
    /// Number of the request at the front. Numbers wrap; there are far fewer requests than numbers.
    first: u32,
    /// Numbers of requests by their keys.
    index: HashTable<u32>,
    /// None before this number is open.
    oldest_open: u32,
    open: usize,
    /// Number of the latest one that was settled.
    settled: Option<u32>,
    timeout: Duration,
    most: usize,
}

/// Requests that have left the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Gone {
    /// Their time was over and there was no answer.
    pub(super) unanswered: u64,
    /// They had to make room, whatever had become of them.
    pub(super) evicted: u64,
}

impl Table {
    /// For requests of the last `timeout`, `most` of them at most.
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

    /// A request has come; says whether it is new.
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

    /// Whether there is a request of this key that has no answer.
    pub(super) fn is_open(&self, key: u64) -> bool {
        self.find(key).is_some_and(|place| self.requests[place].open)
    }

    /// What was asked for by this key has been done.
    pub(super) fn answered(&mut self, now: Instant, key: u64) -> Answer {
        match self.find(key) {
            None => Answer::Unknown,
            Some(place) if self.requests[place].open => Answer::First(self.settle(now, place)),
            Some(_) => Answer::Again,
        }
    }

    /// The request that has waited longest has been answered; gives its time.
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

    /// The place from which on none is settled.
    fn after_settled(&self) -> usize {
        let place = self.settled.map(|number| number.wrapping_sub(self.first) as usize);
        // It may be gone.
        place.filter(|place| *place < self.requests.len()).map_or(0, |place| place + 1)
    }

    /// The age of the oldest request newer than every settled one, if another one came after it: one alone may be lost.
    pub(super) fn oldest(&self, now: Instant) -> Option<Duration> {
        let mut newer = self.requests.range(self.after_settled()..);
        let oldest = newer.next()?;
        newer.next().map(|_| now.saturating_since(oldest.at))
    }

    /// Requests without an answer.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// All requests that are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Forgets what is too old by now.
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

    /// Forgets the oldest; says whether it was open.
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
        /// Against a plain list, also where numbers wrap.
        #[test]
        fn it_does_what_a_plain_list_does(steps in prop::collection::vec(step(), 0..200), most in 1..8_usize) {
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
    fn memory_goes_back_after_a_peak() {
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
