//! The server transactions of an answerer: requests that may come again.

use super::dialogs::DialogId;
use super::texts::Text;
use crate::timers::{NEVER, Timed};
use base::{Flow, Instant};
use core::hash::{Hash, Hasher};
use std::hash::DefaultHasher;
use transaction::TransactionKind;
use wire::{Host, Message, Method};

/// A request that was received, kept for as long as it may come again.
///
/// That of an INVITE whose 2xx nobody acknowledged becomes that of the BYE which ends the call: it is over at the
/// same instant (RFC 6026 §7.1, timer L), and what comes to it again is absorbed either way.
#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) key: u64,
    /// Of what was received, or BYE for one that is sent.
    pub(super) method: Method,
    /// CSeq number of what was received.
    pub(super) cseq: u32,
    /// The last response sent; 0 before the first, and for one that is sent.
    pub(super) status: u16,
    /// Where responses go, or the BYE.
    pub(super) to: Flow,
    /// What its messages are made of, emptied as soon as none can follow but to a repeated request.
    pub(super) text: Text,
    pub(super) timed: Timed,
    /// When the dialog's callee is to be woken.
    pub(super) wake: Instant,
    /// The alarm that is set for it.
    pub(super) alarm: Instant,
    /// The dialog that it creates or belongs to.
    pub(super) dialog: Option<DialogId>,
}

impl Transaction {
    /// A transaction whose request is about to be queued.
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

    /// When something is to be done; [`NEVER`] while the processor has it.
    pub(super) fn deadline(&self) -> Instant {
        self.wake.min(self.timed.deadline())
    }
}

/// What requests of one transaction have in common, hashed; `method` is INVITE for its ACK, and for the INVITE that
/// a CANCEL is about.
///
/// RFC 3261 §17.2.3 compares branch, sent-by and method. Call-ID and CSeq number are the same too, and tell requests
/// without a branch of RFC 3261 apart. With 64 bits, two of a million live transactions collide once in 10^7 runs.
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

/// A Call-ID, hashed.
pub(super) fn call_id_hash(request: &Message<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    request.call_id().hash(&mut hasher);
    hasher.finish()
}
