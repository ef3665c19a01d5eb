//! Server transactions of an answerer: requests that may be repeated.

use super::dialogs::DialogId;
use super::texts::Text;
use crate::timers::{NEVER, Timed};
use base::{Flow, Instant};
use core::hash::{Hash, Hasher};
use std::hash::DefaultHasher;
use transaction::TransactionKind;
use wire::{Host, Message, Method};

/// A received request, kept for as long as it may be repeated.
///
/// The transaction of an INVITE whose 2xx got no ACK becomes the transaction of the BYE that ends the call. The
/// INVITE's transaction is over at that instant (RFC 6026 §7.1, timer L). Repeated INVITEs are absorbed before and
/// after it.
#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) key: u64,
    /// Method of the received request, or BYE for a request of this side.
    pub(super) method: Method,
    /// CSeq number of the received request.
    pub(super) cseq: u32,
    /// Last response sent; 0 before the first, and for a request of this side.
    pub(super) status: u16,
    /// Destination of the responses, or of the BYE.
    pub(super) to: Flow,
    /// Text of its messages. Dropped when only a retransmission can still need it.
    pub(super) text: Text,
    pub(super) timed: Timed,
    /// Time of the callee's next alarm.
    pub(super) wake: Instant,
    /// Time of the alarm that is set for this transaction.
    pub(super) alarm: Instant,
    /// The dialog that it creates or belongs to.
    pub(super) dialog: Option<DialogId>,
}

impl Transaction {
    /// Returns a transaction whose request is about to be queued.
    pub(super) fn new(
        key: u64,
        request: &Message<'_>,
        (method, to): (Method, Flow),
        text: Text,
        dialog: Option<DialogId>,
    ) -> Self {
        let kind =
            if method == Method::Invite { TransactionKind::Invite } else { TransactionKind::NonInvite };
        let timed = Timed::server(kind, to.transport.into());
        let cseq = request.cseq().number;
        Self { key, method, cseq, status: 0, to, text, timed, wake: NEVER, alarm: NEVER, dialog }
    }

    /// Time of the next action; [`NEVER`] while the processor has the request.
    pub(super) fn deadline(&self) -> Instant {
        self.wake.min(self.timed.deadline())
    }
}

/// Hash of the properties that all requests of one transaction share. `method` is INVITE for an ACK and for a CANCEL's
/// INVITE.
///
/// RFC 3261 §17.2.3 compares branch, sent-by and method. Call-ID and CSeq number are equal too, and distinguish
/// requests whose branch does not follow RFC 3261. With 64 bits, a million live transactions collide once in 10^7 runs.
pub(super) fn key(request: &Message<'_>, method: Method) -> u64 {
    let mut hasher = DefaultHasher::new();
    let via = request.top_via();
    via.branch.hash(&mut hasher);
    match via.host {
        Host::V4(ip) => ip.hash(&mut hasher),
        Host::V6(ip) => ip.hash(&mut hasher),
        Host::Name(name) => name.hash(&mut hasher),
    }
    via.port.hash(&mut hasher);
    request.call_id().hash(&mut hasher);
    let cseq = request.cseq();
    cseq.number.hash(&mut hasher);
    if method == Method::Other {
        cseq.method_name.of(request.bytes()).hash(&mut hasher);
    }
    method.hash(&mut hasher);
    hasher.finish()
}

/// Hash of the Call-ID.
pub(super) fn call_id_hash(request: &Message<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    request.call_id().hash(&mut hasher);
    hasher.finish()
}
