//! Requests that wait for the answer of a store or of the DNS, within bounds.

use crate::address::hop_name::HopName;
use crate::outcome::question::StoreAnswer;
use crate::read::progress::Waiter;
use base::Instant;
use core::time::Duration;
use digest_auth::{Claim, Role};
use location::Registration;
use std::collections::BTreeMap;
use transaction::TransactionKey;

/// How long a request waits. A client repeats its request for 32 s (RFC 3261 §17.1.1.2), and a caller hears nothing
/// meanwhile: better it hears soon that something is wrong.
const PATIENCE: Duration = Duration::from_secs(5);

/// Most requests of a shard that wait, and most bytes of them: with a store that answers within a millisecond, ten thousand
/// requests a second keep ten of them waiting.
const REQUESTS_MAX: usize = 4_096;
const BYTES_MAX: usize = 8 << 20;

/// The question that a request waits for.
pub(crate) enum Pending {
    /// The secret of the user that its credentials claim.
    User(Claim, Role),
    /// The next step of its registration.
    Register(Box<Registration>),
    /// The bindings of the user that its credentials claim, to know where the user is at home.
    Place(Box<[u8]>),
    /// The bindings of its Request-URI.
    Location,
    /// The bindings of its From, to know whether its caller has registered from where it came.
    Caller,
    /// The address of this host name, which is that of a contact.
    Name(HopName),
}

/// How a wait ends.
pub(crate) enum WaitEnd {
    /// A store has answered.
    Answered(StoreAnswer),
    /// The DNS has answered.
    Resolved,
    /// The request has waited too long.
    Expired,
}

/// A request that waits for an answer.
pub(crate) struct PendingRequest {
    key: TransactionKey,
    pub(crate) waiter: Waiter,
    pub(crate) pending: Pending,
    /// Whether its CANCEL has come meanwhile.
    pub(crate) is_cancelled: bool,
    until: Instant,
}

/// The waiting requests by the number of their question. Numbers only rise, so the first request is the oldest.
pub(crate) struct Waiting {
    waiters: BTreeMap<u64, PendingRequest>,
    numbers: BTreeMap<TransactionKey, u64>,
    last: u64,
    bytes: usize,
}

impl Waiting {
    /// No request waits. Numbers begin above all earlier numbers, whose answers may still come.
    pub(crate) fn new(now: Instant) -> Self {
        let (waiters, numbers) = (BTreeMap::new(), BTreeMap::new());
        Self { waiters, numbers, last: now.as_nanos(), bytes: 0 }
    }

    /// The requests that wait, as they came in.
    pub(crate) fn requests(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.waiters.values().map(|entry| &*entry.waiter.bytes)
    }

    /// How many of them hold a ticket.
    pub(crate) fn tickets(&self) -> usize {
        self.waiters.values().filter(|entry| entry.waiter.progress.holds_ticket()).count()
    }

    /// The numbers of the requests that wait for the address of this name.
    pub(crate) fn of_name(&self, name: &HopName) -> Vec<u64> {
        let is_it = |pending: &Pending| matches!(pending, Pending::Name(of) if of == name);
        self.waiters.iter().filter(|(_, entry)| is_it(&entry.pending)).map(|(number, _)| *number).collect()
    }

    /// Whether one more request of this length may wait.
    pub(crate) fn has_room(&self, length: usize) -> bool {
        self.waiters.len() < REQUESTS_MAX && self.bytes + length <= BYTES_MAX
    }

    /// Has a request wait from now on, and gives its question a number.
    pub(crate) fn insert(
        &mut self,
        now: Instant,
        key: TransactionKey,
        waiter: Waiter,
        pending: Pending,
    ) -> u64 {
        self.last += 1;
        self.bytes += waiter.bytes.len();
        self.numbers.insert(key, self.last);
        let until = now + PATIENCE;
        let request = PendingRequest { key, waiter, pending, is_cancelled: false, until };
        self.waiters.insert(self.last, request);
        self.last
    }

    /// Whether the transaction waits.
    pub(crate) fn has(&self, key: TransactionKey) -> bool {
        self.numbers.contains_key(&key)
    }

    /// The caller has hung up; false if the transaction does not wait.
    pub(crate) fn cancel(&mut self, key: TransactionKey) -> bool {
        let entry = self.numbers.get(&key).and_then(|number| self.waiters.get_mut(number));
        entry.map(|entry| entry.is_cancelled = true).is_some()
    }

    /// The request whose question has been answered; `None` if it waits no more.
    pub(crate) fn take(&mut self, number: u64) -> Option<PendingRequest> {
        let request = self.waiters.remove(&number)?;
        self.numbers.remove(&request.key);
        self.bytes -= request.waiter.bytes.len();
        Some(request)
    }

    /// The next request that has waited too long.
    pub(crate) fn expired(&mut self, now: Instant) -> Option<PendingRequest> {
        let (&number, _) = self.waiters.first_key_value().filter(|(_, entry)| entry.until <= now)?;
        self.take(number)
    }

    /// When the next one has waited too long.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.waiters.first_key_value().map(|(_, entry)| entry.until)
    }
}
