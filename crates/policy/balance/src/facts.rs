//! What the balancer is told of requests and responses, and what it says: where they go, and what that tells of
//! health.

use crate::session::NOBODY;
use crate::{CallKey, NodeRefusal, OutcomeTally, PoolId, Slot, Tags};
use base::Instant;
use wire::Method;

/// Which way a request goes.
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
pub struct Request<'a> {
    /// Key of its call.
    pub key: CallKey,
    /// Its Call-ID, for the policies that hash it.
    pub call_id: &'a [u8],
    /// Where it goes if it is new.
    pub pool: PoolId,
    /// Its method.
    pub method: Method,
    /// Its CSeq number.
    pub cseq: u32,
    /// Whether it has a To tag.
    pub in_dialog: bool,
    /// Which way it goes.
    pub direction: Direction,
    /// The node that a verified token names, or that it comes from.
    pub pinned: Option<Slot>,
    /// Whether a verified token names the node: then it belongs to a dialog that was begun through here.
    pub by_token: bool,
    /// Whether the other side began the dialog, as the token says.
    pub begun_by_peer: bool,
    /// A hash of what the client's Via calls the transaction (its branch). A request that was forked upstream comes
    /// several times with one CSeq and differs in this.
    pub branch: u32,
    /// Its tags. With the Call-ID, that of who began it is what a call is known by.
    pub tags: Tags,
    /// Whether it passes the limits of members up to twice: an emergency call.
    pub has_priority: bool,
}

impl Request<'_> {
    /// Key of the session that it begins, should it be in none: of its call, as far as is known who began that.
    pub(crate) fn session_key(&self) -> CallKey {
        let of_call = self.in_dialog || matches!(self.method, Method::Invite | Method::Ack | Method::Cancel);
        let initiator = if self.begun_by_peer { self.tags.to } else { self.tags.from };
        self.key.begun_by(if of_call { initiator } else { NOBODY })
    }

    /// Its dialog, 0 if it is in none: what ends a call in the session store is told by it.
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
    /// Which way its request went.
    pub direction: Direction,
    /// [`Request::branch`] of its request.
    pub branch: u32,
    /// Its tags. Another To tag in a 2xx to an INVITE is another dialog (RFC 3261 §13.2.2.4).
    pub tags: Tags,
}

/// Why a request goes to its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// It is new: the policy chose.
    Policy,
    /// Its call is in the session table.
    Session,
    /// A verified token names the node, or it comes from there.
    Token,
    /// Its node is dead and nobody had answered it: the policy chose again.
    Moved,
}

impl Why {
    /// Every reason, in declaration order.
    pub const ALL: [Self; 4] = [Self::Policy, Self::Session, Self::Token, Self::Moved];

    /// The word used by `explain` and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Session => "session",
            Self::Token => "token",
            Self::Moved => "moved",
        }
    }
}

/// Where a request goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// To or from this node.
    Forward {
        /// The node.
        slot: Slot,
        /// Why this one.
        why: Why,
    },
    /// Nobody here knows its INVITE: every node is asked, the one that has it will act.
    Search,
    /// In a dialog that nobody here knows.
    Orphan,
    /// No node takes new calls.
    NoServer,
    /// Each node that takes new calls has too much to do for now.
    AtLimit(NodeRefusal),
    /// The session table is full of calls that ring or have been answered.
    NoRoom,
}

/// What the traffic says about a node's health.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sign {
    /// A request got no response at all.
    NoAnswer {
        /// The node.
        slot: Slot,
        /// Whether the node has answered nothing else since, as far as this shard knows.
        silent: bool,
    },
    /// A node answered that is in doubt.
    Answer {
        /// The node.
        slot: Slot,
    },
    /// It answered 503 and pauses for a while.
    Pause {
        /// The node.
        slot: Slot,
        /// Until when.
        until: Instant,
        /// Whether it named the time itself (Retry-After).
        asked: bool,
    },
    /// The network said that a request to it did not arrive (ICMP): it is the last to be asked for a while.
    Unreachable {
        /// The node.
        slot: Slot,
        /// Until when.
        until: Instant,
    },
    /// What became of new requests since the last time.
    Tally {
        /// The node.
        slot: Slot,
        /// Outcomes.
        tally: OutcomeTally,
    },
    /// It is back, and has answered a request of a call from before.
    Memory {
        /// The node.
        slot: Slot,
        /// Whether it knows the call; it does not if it says 481.
        knows: bool,
    },
    /// It paused, got a call all the same, and answered it.
    Recovered {
        /// The node.
        slot: Slot,
    },
}
