//! Pairs an incoming INVITE with the next outgoing one with a new Call-ID, first come, first served: for a B2BUA that
//! copies no header field. It is an estimate. The mean is right if each incoming request leaves once; single latencies
//! are swapped if requests overtake each other.
//!
//! A single request that is never forwarded would shift all later ones for good. So
//!
//! - a request with a final response waits no longer;
//! - requests that wait longer than the timeout are dropped;
//! - if at least n requests were waiting at every moment of a timeout, the n oldest count as lost.

use super::table::{Gone, Table};
use super::{Keys, Seen, Sighting};
use crate::captured::Side;
use base::Instant;
use core::time::Duration;
use wire::{Message, Method};

/// Outgoing requests are remembered as long as incoming ones, so that retransmissions and branches are not taken for
/// new calls.
#[derive(Debug)]
pub(super) struct InOrder {
    sent: Table,
    timeout: Duration,
    /// Start of the time over which `fewest` is counted.
    since: Instant,
    /// Smallest number of waiting requests since then.
    fewest: usize,
}

/// The key of an incoming request is its transaction; that of an outgoing one is Call-ID and CSeq, which branches of a
/// fork share.
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

    /// Records an outgoing request, and pairs it with the oldest waiting one.
    pub(super) fn left(&mut self, now: Instant, key: u64, came: &mut Table, gone: &mut Gone) -> Seen {
        if !self.sent.came(now, key, gone) {
            return Seen::Repeated;
        }
        self.sent.answered(now, key);
        let latency = came.oldest_answered(now);
        self.fewest = self.fewest.min(came.open());
        latency.map_or(Seen::Unmatched, Seen::Latency)
    }

    /// Drops requests that have waited all the time.
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
