use super::dialogs::DialogId;
use crate::timers::Resend;
use base::Instant;
use core::hash::{Hash, Hasher};
use std::hash::DefaultHasher;
use std::net::SocketAddr;
use wire::{Host, Message, Method};

/// Where a server transaction stands (RFC 3261 §17.2, RFC 6026 §7.1).
#[derive(Debug)]
pub(super) enum State {
    /// With the processor or before it.
    Queued,
    /// An INVITE that rings until then.
    Ringing {
        /// When it is answered.
        until: Instant,
    },
    /// A final response to INVITE, sent again until its ACK comes: timers G and H, and the UAS core's
    /// retransmission of a 2xx (RFC 3261 §13.3.1.4).
    Final(Resend),
    /// Answered, and acknowledged if it is an INVITE: timers J and L.
    Done {
        /// When it can be forgotten.
        until: Instant,
    },
}

/// A request that was received, kept for as long as it may come again.
#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) key: u64,
    pub(super) method: Method,
    /// The last response sent; 0 before the first.
    pub(super) status: u16,
    /// Where responses go.
    pub(super) to: SocketAddr,
    /// Via to CSeq of its responses; emptied as soon as no response can follow but to a repeated request.
    pub(super) head: Box<[u8]>,
    pub(super) state: State,
    /// The alarm that is set for it.
    pub(super) alarm: Instant,
    /// The dialog that it creates or belongs to.
    pub(super) dialog: Option<DialogId>,
}

impl Transaction {
    /// A transaction whose request is about to be queued.
    pub(super) fn new(
        key: u64,
        method: Method,
        to: SocketAddr,
        head: Box<[u8]>,
        dialog: Option<DialogId>,
    ) -> Self {
        let alarm = Instant::from_nanos(u64::MAX);
        Self { key, method, status: 0, to, head, state: State::Queued, alarm, dialog }
    }

    /// When something is to be done; `None` while the processor has it.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Queued => None,
            State::Final(resend) => Some(resend.deadline()),
            State::Ringing { until } | State::Done { until } => Some(*until),
        }
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
