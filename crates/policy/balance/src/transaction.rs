//! What is remembered of a transaction.

use crate::lease::Lease;
use crate::{Direction, Request, Response, Slot};
use base::Instant;
use core::time::Duration;
use wire::Method;

/// What a transaction is known by within its session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TransactionId {
    pub(crate) cseq: u32,
    pub(crate) branch: u32,
    pub(crate) method: Method,
    pub(crate) direction: Direction,
}

impl TransactionId {
    /// The transaction that a request is part of: for an ACK or CANCEL its INVITE's (RFC 3261 §9.1, §17.1.1.3).
    pub(crate) fn served_by(request: &Request<'_>) -> Self {
        let of_invite = matches!(request.method, Method::Ack | Method::Cancel);
        Self { method: if of_invite { Method::Invite } else { request.method }, ..request.into() }
    }
}

impl From<&Request<'_>> for TransactionId {
    fn from(of: &Request<'_>) -> Self {
        Self { cseq: of.cseq, branch: of.branch, method: of.method, direction: of.direction }
    }
}

impl From<&Response> for TransactionId {
    fn from(of: &Response) -> Self {
        Self { cseq: of.cseq, branch: of.branch, method: of.method, direction: of.direction }
    }
}

/// An open transaction: it holds a lease on its node until a final response or its time ends it.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
pub(crate) struct Transaction {
    pub(crate) started: Instant,
    pub(crate) lease: Lease,
    pub(crate) session: u32,
    /// The next one of its session.
    pub(crate) next: u32,
    pub(crate) timer: u32,
    pub(crate) id: TransactionId,
    /// [`Request::dialog()`] of its request.
    pub(crate) dialog: u32,
    /// An INVITE that is to begin a dialog.
    pub(crate) begins: bool,
    /// A request outside of any dialog, to a node: what becomes of it tells how the node does.
    pub(crate) fresh: bool,
    /// Its session may go for want of room: its timer is in `SessionStore::unanswered`.
    pub(crate) unanswered: bool,
    /// Whether any response came.
    pub(crate) answered: bool,
    /// Whether a provisional one came that says more than 100. A 100 comes from whatever node there is, and says
    /// nothing of who is called.
    pub(crate) progressed: bool,
    pub(crate) cancelled: bool,
}

impl Transaction {
    /// Whether a call rings.
    pub(crate) fn rings(&self) -> bool {
        self.begins && self.progressed
    }
}

/// The first response to an INVITE that begins a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirstAnswer {
    /// The node that answered.
    pub slot: Slot,
    /// When the INVITE was sent to it.
    pub sent: Instant,
    /// How long the response took.
    pub took: Duration,
}

/// A transaction that was answered with 2xx.
pub(crate) struct Success {
    pub(crate) slot: Slot,
    pub(crate) started: Instant,
    /// Whether it was an INVITE that began a dialog.
    pub(crate) begins: bool,
}
