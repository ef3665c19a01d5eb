//! From an INVITE that comes in to the next one that goes out with a Call-ID of its own, first come, first served:
//! for a B2BUA that hands nothing on. An estimate: the mean is right where each request that comes in leaves once;
//! single latencies are exchanged where requests overtake each other.
//!
//! One request that is never passed on would shift all that follow by one, for good. So
//!
//! - a request with a final answer waits no more;
//! - requests that wait for longer than the time-out are given up;
//! - where at least n requests have waited at every moment of a time-out, the n oldest of them are taken for lost.

use super::table::{Gone, Table};
use super::{Keys, Seen, Sighting};
use crate::captured::Side;
use base::Instant;
use core::time::Duration;
use wire::{Message, Method};

/// What goes out is remembered as long as what comes in, so that repetitions and branches are not taken for new
/// calls.
#[derive(Debug)]
pub(super) struct InOrder {
    sent: Table,
    timeout: Duration,
    /// Since when `fewest` has been watched.
    since: Instant,
    /// Fewest that have waited since then.
    fewest: usize,
}

/// The key of what comes in is its transaction, that of what goes out is Call-ID and CSeq: branches of a fork have
/// these in common.
pub(super) fn sighting(keys: Keys, message: &Message<'_>, side: Side) -> Option<Sighting> {
    if message.cseq().method != Method::Invite {
        return None;
    }
    let transaction = || keys.transaction(message, message.top_via());
    match (message.method(), side) {
        (Some(Method::Invite), _) if message.to_tag().is_some() => None,
        (Some(Method::Invite), Side::In) => Some(Sighting::Came(transaction())),
        (Some(Method::Invite), Side::Out) => {
            Some(Sighting::Next(keys.of(&[message.call_id(), &message.cseq().number.to_be_bytes()])))
        }
        (None, Side::Out) if super::final_response(message) => Some(Sighting::Refused(transaction())),
        _ => None,
    }
}

impl InOrder {
    pub(super) fn new(timeout: Duration, most: usize) -> Self {
        Self { sent: Table::new(timeout, most), timeout, since: Instant::ZERO, fewest: 0 }
    }

    /// One has gone out; takes the one that has waited longest of those that came in.
    pub(super) fn left(&mut self, now: Instant, key: u64, came: &mut Table, gone: &mut Gone) -> Seen {
        if !self.sent.came(now, key, gone) {
            return Seen::Repeated;
        }
        self.sent.answered(now, key);
        let latency = came.oldest_answered(now);
        self.fewest = self.fewest.min(came.open());
        latency.map_or(Seen::Unmatched, Seen::Latency)
    }

    /// Gives up what has waited all the time.
    pub(super) fn expire(&mut self, now: Instant, came: &mut Table, gone: &mut Gone) {
        self.sent.expire(now, gone);
        self.fewest = self.fewest.min(came.open());
        if now.saturating_since(self.since) < self.timeout {
            return;
        }
        for _ in 0..self.fewest {
            gone.unanswered += u64::from(came.oldest_answered(now).is_some());
        }
        (self.since, self.fewest) = (now, came.open());
    }
}
