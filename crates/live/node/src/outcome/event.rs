//! Effects of a shard besides messages to send.

use crate::address::hop_name::HopName;
use crate::outcome::failure::Failure;
use crate::outcome::question::StoreQuestion;
use balance::{NodeRefusal, PoolId, Sign};
use std::net::SocketAddr;

/// Effects of a shard besides messages to send.
#[derive(Clone, PartialEq, Debug)]
pub enum ShardEvent {
    /// Evidence from the traffic about a node.
    Sign(Sign),
    /// Request for the address of this name. The answer is [`ShardInput::Name`](crate::ShardInput::Name).
    LookUp(HopName),
    /// Question to a store. The answer is [`ShardInput::Answer`](crate::ShardInput::Answer).
    Ask(Box<StoreQuestion>),
    /// Call record. Must be written before the messages of the same step leave, since one of them acknowledges the end
    /// of the call.
    Record(Box<dialog::CallRecord>),
    /// A failed request, only with [`ShardSettings::tell_failures`](crate::ShardSettings::tell_failures).
    Failed(Box<Failure>),
    /// A failed log-in.
    WrongPassword(Box<WrongPassword>),
    /// Result of a password check, for the other shards of the process
    /// ([`ShardInput::Judgement`](crate::ShardInput::Judgement)).
    Judgement(Box<digest_auth::Judgement>),
    /// This node has answered an INVITE that begins a dialog without its Record-Route. Reported once.
    NoRecordRoute(SocketAddr),
    /// This proxy passed on a REGISTER for a contact elsewhere without Path, so calls go back to that proxy. Reported
    /// once.
    NoPath(SocketAddr),
    /// A request from this address has the mark of a proxy that shares out state, but the address is no neighbour's.
    /// Reported once.
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
    /// Every node of this pool that takes new calls was at a limit. Reported at most once a second for each pool.
    AtLimit {
        /// The pool.
        pool: PoolId,
        /// The limit.
        by: NodeRefusal,
        /// New requests refused since the last report.
        refused: u64,
    },
    /// The session table had no room. Counts the new calls refused since the last report, at most once a second.
    NoRoom(u64),
}

/// A log-in with a wrong password, or for an unknown user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrongPassword {
    /// The user name that was given, cut to 64 bytes.
    pub user: Box<str>,
    /// Source of the request. Behind a trusted proxy: the client, if the proxy names it.
    pub from: SocketAddr,
}

impl WrongPassword {
    pub(crate) fn new(user: &[u8], from: SocketAddr) -> Self {
        /// Maximum length of a reported user name, in bytes.
        const LONGEST: usize = 64;
        Self { user: String::from_utf8_lossy(&user[..user.len().min(LONGEST)]).into(), from }
    }
}
