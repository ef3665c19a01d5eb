//! Counts of the registrar, and the number of waiting requests.

use location::Purpose;
use std::collections::BTreeMap;

/// Outcomes of requests to the registrar and to its users. Retransmissions are not counted again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RegistrarCounters {
    /// REGISTER requests that added contacts, or refreshed them.
    pub granted: u64,
    /// REGISTER requests that removed contacts and added none.
    pub removed: u64,
    /// REGISTER requests that asked which contacts there are.
    pub fetched: u64,
    /// REGISTER requests that were refused, challenges aside, by status code.
    pub refused: BTreeMap<u16, u64>,
    /// Of log-ins.
    pub log_ins: LogIns,
    /// Of look-ups.
    pub look_ups: LookUps,
}

/// Outcomes of requests that need authentication.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogIns {
    /// Requests without credentials for us: they were challenged.
    pub challenged: u64,
    /// The credentials were right.
    pub accepted: u64,
    /// A wrong password, or no such user.
    pub refused: u64,
    /// Challenged again for a nonce that is too old or was used before; the password may be right.
    pub stale: u64,
    /// Refused unchecked: too many wrong passwords from this source, or for this user.
    pub banned: u64,
    /// Refused unchecked: too many checks from this source, or for this user, were under way.
    pub busy: u64,
    /// The store of users gave no answer.
    pub failed: u64,
}

/// Outcomes of requests to a user, whose contacts are looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LookUps {
    /// There are contacts.
    pub found: u64,
    /// The user has no contact.
    pub not_found: u64,
    /// The store of registrations gave no answer.
    pub failed: u64,
}

impl RegistrarCounters {
    /// A REGISTER has got its answer.
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

/// The state of the registrar.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RegistrarReport {
    /// Outcomes of requests.
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
