//! Counts of the registrar, and the number of waiting requests.

use location::Purpose;
use std::collections::BTreeMap;

/// Counts of requests to the registrar and to its users, by outcome. Retransmissions are not counted again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RegistrarCounters {
    /// REGISTER requests that added or refreshed contacts.
    pub granted: u64,
    /// REGISTER requests that removed contacts and added none.
    pub removed: u64,
    /// REGISTER requests that asked for the contacts.
    pub fetched: u64,
    /// Refused REGISTER requests, by status code. Challenges are not included.
    pub refused: BTreeMap<u16, u64>,
    /// Counts of log-ins.
    pub log_ins: LogIns,
    /// Counts of look-ups.
    pub look_ups: LookUps,
}

/// Counts of requests that need authentication, by outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogIns {
    /// Requests without credentials for this proxy, which were challenged.
    pub challenged: u64,
    /// Requests with valid credentials.
    pub accepted: u64,
    /// Requests with a wrong password or an unknown user.
    pub refused: u64,
    /// Requests challenged again since the nonce was too old or already used. The password may be right.
    pub stale: u64,
    /// Requests refused without a password check, after too many wrong passwords from their source or for their user.
    pub banned: u64,
    /// Requests refused without a password check, since too many checks were in progress for their source or user.
    pub busy: u64,
    /// Requests for which the store of users gave no answer.
    pub failed: u64,
}

/// Counts of requests to users, whose contacts are looked up, by outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LookUps {
    /// Requests to users with contacts.
    pub found: u64,
    /// Requests to users without contact.
    pub not_found: u64,
    /// Requests for which the store of registrations gave no answer.
    pub failed: u64,
}

impl RegistrarCounters {
    pub(super) fn registered(&mut self, purpose: Option<Purpose>, status: u16) {
        match purpose {
            Some(Purpose::Add) if status == 200 => self.granted += 1,
            Some(Purpose::Remove) if status == 200 => self.removed += 1,
            Some(Purpose::Fetch) if status == 200 => self.fetched += 1,
            _ => *self.refused.entry(status).or_default() += 1,
        }
    }

    fn merge(&mut self, other: &Self) {
        self.granted += other.granted;
        self.removed += other.removed;
        self.fetched += other.fetched;
        for (&status, count) in &other.refused {
            *self.refused.entry(status).or_default() += count;
        }
        let (sum, more) = (&mut self.log_ins, other.log_ins);
        sum.challenged += more.challenged;
        sum.accepted += more.accepted;
        sum.refused += more.refused;
        sum.stale += more.stale;
        sum.banned += more.banned;
        sum.busy += more.busy;
        sum.failed += more.failed;
        let (sum, more) = (&mut self.look_ups, other.look_ups);
        sum.found += more.found;
        sum.not_found += more.not_found;
        sum.failed += more.failed;
    }
}

/// State of the registrar.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RegistrarReport {
    /// Counts of requests.
    pub counters: RegistrarCounters,
    /// Requests that wait for the answer of a store or of the DNS.
    pub waiting: usize,
}

impl RegistrarReport {
    /// Adds the report of another shard.
    pub fn merge(&mut self, other: &Self) {
        self.counters.merge(&other.counters);
        self.waiting += other.waiting;
    }
}
