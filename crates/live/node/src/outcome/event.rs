//! Effects of a shard besides messages to send.

use crate::address::hop_name::HopName;
use crate::outcome::failure::Failure;
use crate::outcome::question::StoreQuestion;
use balance::{NodeRefusal, PoolId, Sign};
use std::net::SocketAddr;

/// Effects of a shard besides messages to send.
#[derive(Clone, PartialEq, Debug)]
pub enum ShardEvent {
    /// Evidence from the traffic about the health of a node.
    Sign(Sign),
    /// Request for the address of this name. The answer is [`ShardInput::Name`](crate::ShardInput::Name).
    LookUp(HopName),
    /// Question to a store. The answer is [`ShardInput::Answer`](crate::ShardInput::Answer).
    Ask(Box<StoreQuestion>),
    /// Call record. Must be written before the messages of the same step are sent, since one of these messages
    /// acknowledges the end of the call.
    Record(Box<dialog::CallRecord>),
    /// A failed request, only with [`ShardSettings::tell_failures`](crate::ShardSettings::tell_failures).
    Failed(Box<Failure>),
    /// A failed log-in.
    WrongPassword(Box<WrongPassword>),
    /// Result of a password check, for the other shards of the process
    /// ([`ShardInput::Judgement`](crate::ShardInput::Judgement)).
    Judgement(Box<digest_auth::AttemptResult>),
    /// This node has answered an INVITE that begins a dialog, and has left out this proxy's Record-Route. Reported
    /// once.
    NoRecordRoute(SocketAddr),
    /// The proxy at this address forwarded a REGISTER for a contact at another address, without Path. So calls to this
    /// contact go back to that proxy. Reported once.
    NoPath(SocketAddr),
    /// A request from this address has the mark of a proxy that shares out state, but the address is not configured as
    /// a neighbour. Reported once.
    MarkOfStranger(SocketAddr),
    /// This neighbour does not answer the offer of overload control. Reported once.
    NoFeedback(SocketAddr),
    /// No node of this pool took new calls. Reported at most once a second for each pool.
    NoServer {
        /// The pool.
        pool: PoolId,
        /// New requests refused since the last report.
        refused: u64,
    },
    /// Each node of this pool that takes new calls was at a limit. Reported at most once a second for each pool.
    AtLimit {
        /// The pool.
        pool: PoolId,
        /// The limit.
        by: NodeRefusal,
        /// New requests refused since the last report.
        refused: u64,
    },
    /// The session table had no room. Contains the number of new calls refused since the last report. Reported at most
    /// once a second.
    NoRoom(u64),
}

/// A log-in with a wrong password, or for an unknown user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrongPassword {
    /// The user name that was given, cut to 64 bytes.
    pub user: Box<str>,
    /// Source of the request. Behind a trusted proxy it is the address of the client, if the proxy states it.
    pub from: SocketAddr,
}

impl WrongPassword {
    pub(crate) fn new(user: &[u8], from: SocketAddr) -> Self {
        /// Maximum length of a reported user name, in bytes.
        const LONGEST: usize = 64;
        Self { user: String::from_utf8_lossy(&user[..user.len().min(LONGEST)]).into(), from }
    }
}
