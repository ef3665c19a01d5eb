//! Requests that wait for the answer of a store or of the DNS, within limits.

use crate::address::hop_name::HopName;
use crate::outcome::question::StoreAnswer;
use crate::read::progress::Waiter;
use base::Instant;
use core::time::Duration;
use digest_auth::{Claim, Role};
use location::Registration;
use std::collections::BTreeMap;
use transaction::TransactionKey;

/// Maximum wait of a request. A client retransmits its request for 32 s (RFC 3261 §17.1.1.2), but an early failure is
/// better for the caller.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum number of waiting requests of a shard. With a store that answers within a millisecond, ten thousand requests
/// a second keep ten of them waiting.
const REQUESTS_MAX: usize = 4_096;
/// Maximum bytes of the waiting requests of a shard.
const BYTES_MAX: usize = 8 << 20;

/// The question that a request waits for.
pub(crate) enum Pending {
    /// The secret of the user in the credentials.
    User(Claim, Role),
    /// The next step of a registration.
    Register(Box<Registration>),
    /// The bindings of the user in the credentials, which show the locations at which the user is known.
    Place(Box<[u8]>),
    /// The bindings of the Request-URI.
    Location,
    /// The bindings of the From, which show whether the caller has registered from its source address.
    Caller,
    /// The address of this host name of a contact.
    Name(HopName),
}

pub(crate) enum WaitEnd {
    Answered(StoreAnswer),
    Resolved,
    Expired,
}

pub(crate) struct PendingRequest {
    key: TransactionKey,
    pub(crate) waiter: Waiter,
    pub(crate) pending: Pending,
    /// Whether a CANCEL has come.
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
    /// Creates the table without requests. Numbers begin above all earlier ones, whose answers may still come.
    pub(crate) fn new(now: Instant) -> Self {
        let (waiters, numbers) = (BTreeMap::new(), BTreeMap::new());
        Self { waiters, numbers, last: now.as_nanos(), bytes: 0 }
    }

    /// Returns the messages of the waiting requests.
    pub(crate) fn requests(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.waiters.values().map(|entry| &*entry.waiter.bytes)
    }

    /// Returns the number of requests with a ticket.
    pub(crate) fn tickets(&self) -> usize {
        self.waiters.values().filter(|entry| entry.waiter.progress.holds_ticket()).count()
    }

    /// Returns the numbers of the requests that wait for the address of this name.
    pub(crate) fn of_name(&self, name: &HopName) -> Vec<u64> {
        let is_it = |pending: &Pending| matches!(pending, Pending::Name(of) if of == name);
        self.waiters.iter().filter(|(_, entry)| is_it(&entry.pending)).map(|(number, _)| *number).collect()
    }

    /// Returns whether another request of this length may wait.
    pub(crate) fn has_room(&self, length: usize) -> bool {
        self.waiters.len() < REQUESTS_MAX && self.bytes + length <= BYTES_MAX
    }

    /// Adds a waiting request. Returns the number of its question.
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

    pub(crate) fn has(&self, key: TransactionKey) -> bool {
        self.numbers.contains_key(&key)
    }

    /// Marks the request of this transaction as cancelled. Returns `false` if it does not wait.
    pub(crate) fn cancel(&mut self, key: TransactionKey) -> bool {
        let entry = self.numbers.get(&key).and_then(|number| self.waiters.get_mut(number));
        entry.map(|entry| entry.is_cancelled = true).is_some()
    }

    /// Removes and returns the request with this number; `None` if it no longer waits.
    pub(crate) fn take(&mut self, number: u64) -> Option<PendingRequest> {
        let request = self.waiters.remove(&number)?;
        self.numbers.remove(&request.key);
        self.bytes -= request.waiter.bytes.len();
        Some(request)
    }

    /// Removes and returns the next request that has waited too long.
    pub(crate) fn expired(&mut self, now: Instant) -> Option<PendingRequest> {
        let (&number, _) = self.waiters.first_key_value().filter(|(_, entry)| entry.until <= now)?;
        self.take(number)
    }

    /// Returns when the next request has waited too long.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.waiters.first_key_value().map(|(_, entry)| entry.until)
    }
}
