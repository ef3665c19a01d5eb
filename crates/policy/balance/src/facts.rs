//! Input and output of the balancer. The input is facts of requests and responses; the output is decisions, and signs
//! about the health of nodes.

use crate::session::NO_INITIATOR;
use crate::{CallKey, NodeRefusal, OutcomeTally, PoolId, Slot, Tags};
use base::Instant;
use wire::Method;

/// Direction of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From a client to a node.
    ToPool,
    /// From a node to a client.
    FromPool,
}

/// The facts of a request that balancing needs.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "four facts of a message that do not depend on each other")]
pub struct RequestFacts<'a> {
    /// Key of its call.
    pub key: CallKey,
    /// Its Call-ID, for the policies that hash it.
    pub call_id: &'a [u8],
    /// Pool for a new request.
    pub pool: PoolId,
    /// Its method.
    pub method: Method,
    /// Its CSeq number.
    pub cseq: u32,
    /// Whether it has a To tag.
    pub in_dialog: bool,
    /// Direction.
    pub direction: Direction,
    /// Node that a verified token names, or that sent the request.
    pub pinned: Option<Slot>,
    /// Whether a verified token names the node. The request then belongs to a dialog that was set up through this site.
    pub by_token: bool,
    /// Whether the other side started the dialog, according to the token.
    pub started_by_peer: bool,
    /// Hash of the branch in the client's Via. A request that was forked upstream arrives several times with one CSeq
    /// and different branches.
    pub branch: u32,
    /// Tags. The Call-ID and the initiator's tag identify a call.
    pub tags: Tags,
    /// Whether the request may use up to twice the limits of members, like an emergency call.
    pub has_priority: bool,
}

impl RequestFacts<'_> {
    /// Key of the session that the request starts if it has none. It is made from the Call-ID and, for a call, from its
    /// initiator as far as known.
    pub(crate) fn session_key(&self) -> CallKey {
        let of_call = self.in_dialog || matches!(self.method, Method::Invite | Method::Ack | Method::Cancel);
        let initiator = if self.started_by_peer { self.tags.to } else { self.tags.from };
        self.key.with_initiator(if of_call { initiator } else { NO_INITIATOR })
    }

    /// Key of its dialog, 0 outside dialogs. The session store ends calls by this key.
    pub(crate) fn dialog(&self) -> u32 {
        if self.in_dialog { self.tags.dialog() } else { 0 }
    }
}

/// The facts of a response that balancing needs.
#[derive(Clone, Copy, Debug)]
pub struct Response {
    /// Key of its call.
    pub key: CallKey,
    /// Method in its CSeq.
    pub method: Method,
    /// CSeq number.
    pub cseq: u32,
    /// Status code.
    pub status: u16,
    /// Direction of its request.
    pub direction: Direction,
    /// [`RequestFacts::branch`] of its request.
    pub branch: u32,
    /// Tags. A 2xx to an INVITE with another To tag sets up another dialog (RFC 3261 §13.2.2.4).
    pub tags: Tags,
}

/// Reason why a request goes to its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The request is new, and the policy chose the node.
    Policy,
    /// The call of the request is in the session table.
    Session,
    /// A verified token names the node, or the node sent the request.
    Token,
    /// The request failed at its node, or its node is dead, and the policy chose again.
    Moved,
}

impl Why {
    /// Every reason, in declaration order.
    pub const ALL: [Self; 4] = [Self::Policy, Self::Session, Self::Token, Self::Moved];

    /// Word used by `explain` and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Session => "session",
            Self::Token => "token",
            Self::Moved => "moved",
        }
    }
}

/// Destination of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeDecision {
    /// The request goes to this node, or comes from it.
    Forward {
        /// The node.
        slot: Slot,
        /// Reason.
        why: Why,
    },
    /// An ACK or CANCEL whose INVITE is unknown here. It goes to every node, and the node with the INVITE handles it.
    Search,
    /// The request belongs to a dialog that is unknown here.
    Orphan,
    /// No node takes new calls.
    NoServer,
    /// Each node that takes new calls is at a limit now.
    AtLimit(NodeRefusal),
    /// The session table is full of calls that ring or were answered.
    NoRoom,
}

/// A sign about a node's health from the traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sign {
    /// A request got no response at all.
    NoAnswer {
        /// The node.
        slot: Slot,
        /// Whether the node has given no other response since the request, as far as this shard knows.
        silent: bool,
    },
    /// A doubted node answered.
    Answer {
        /// The node.
        slot: Slot,
    },
    /// A node answered 503 and pauses for a while.
    Pause {
        /// The node.
        slot: Slot,
        /// End of the pause.
        until: Instant,
        /// Whether the node named the time itself (Retry-After).
        asked: bool,
    },
    /// An ICMP error says that a request to a node did not arrive. For a while the node gets calls only as the last
    /// resort.
    Unreachable {
        /// The node.
        slot: Slot,
        /// End of that time.
        until: Instant,
    },
    /// Outcomes of new requests since the last report of outcomes.
    Tally {
        /// The node.
        slot: Slot,
        /// Outcomes.
        tally: OutcomeTally,
    },
    /// A node that came back answered a request of a call from before.
    Memory {
        /// The node.
        slot: Slot,
        /// Whether the node knows the call: it answered other than 481.
        knows: bool,
    },
    /// A pausing node got a call as a trial, and answered it.
    Recovered {
        /// The node.
        slot: Slot,
    },
}
