//! A transaction of a session.

use crate::lease::Lease;
use crate::{Direction, RequestFacts, Response, Slot};
use base::Instant;
use core::time::Duration;
use wire::Method;

/// Identity of a transaction within its session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TransactionId {
    pub(crate) cseq: u32,
    pub(crate) branch: u32,
    pub(crate) method: Method,
    pub(crate) direction: Direction,
}

impl TransactionId {
    /// Transaction to which a request belongs: for an ACK or CANCEL, the transaction of its INVITE (RFC 3261 §9.1,
    /// §17.1.1.3).
    pub(crate) fn served_by(request: &RequestFacts<'_>) -> Self {
        let of_invite = matches!(request.method, Method::Ack | Method::Cancel);
        Self { method: if of_invite { Method::Invite } else { request.method }, ..request.into() }
    }
}

impl From<&RequestFacts<'_>> for TransactionId {
    fn from(of: &RequestFacts<'_>) -> Self {
        Self { cseq: of.cseq, branch: of.branch, method: of.method, direction: of.direction }
    }
}

impl From<&Response> for TransactionId {
    fn from(of: &Response) -> Self {
        Self { cseq: of.cseq, branch: of.branch, method: of.method, direction: of.direction }
    }
}

/// Open transaction. It has a lease on its node until a final response or a time-out ends the transaction.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
pub(crate) struct Transaction {
    pub(crate) started: Instant,
    pub(crate) lease: Lease,
    pub(crate) session: u32,
    /// Next transaction of its session.
    pub(crate) next: u32,
    pub(crate) timer: u32,
    pub(crate) id: TransactionId,
    /// [`RequestFacts::dialog()`] of its request.
    pub(crate) dialog: u32,
    /// Whether it is a dialog-forming INVITE.
    pub(crate) begins: bool,
    /// Whether it is a request outside dialogs to a node. Then its outcome counts for the health of the node.
    pub(crate) fresh: bool,
    /// Whether its session may be evicted for lack of room. Its timer is then in `SessionStore::unanswered`.
    pub(crate) unanswered: bool,
    /// Whether any response came.
    pub(crate) answered: bool,
    /// Whether a provisional response above 100 came. A 100 does not show this, since any proxy on the path may send
    /// it.
    pub(crate) progressed: bool,
    pub(crate) cancelled: bool,
}

impl Transaction {
    /// Whether a call rings.
    pub(crate) fn rings(&self) -> bool {
        self.begins && self.progressed
    }
}

/// First response to an INVITE that starts a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirstAnswer {
    /// The node that answered.
    pub slot: Slot,
    /// Time at which the INVITE was sent to it.
    pub sent: Instant,
    /// Time from the INVITE to the response.
    pub took: Duration,
}

/// A transaction that was answered with 2xx.
pub(crate) struct Success {
    pub(crate) slot: Slot,
    pub(crate) started: Instant,
    /// Whether it was a dialog-forming INVITE.
    pub(crate) begins: bool,
}
