//! Effects of a shard besides messages to send.

use crate::address::hop_name::HopName;
use crate::outcome::failure::Failure;
use crate::outcome::question::Question;
use balance::{NodeRefusal, PoolId, Sign};
use std::net::SocketAddr;

/// Effects of a shard besides messages to send.
#[derive(Clone, PartialEq, Debug)]
pub enum ShardEvent {
    /// Evidence from the traffic about a node.
    Sign(Sign),
    /// The address of this name: [`ShardInput::Name`](crate::ShardInput::Name).
    LookUp(HopName),
    /// A question to a store: [`ShardInput::Answer`](crate::ShardInput::Answer).
    Ask(Box<Question>),
    /// To be written before the messages of the same step leave: one of them acknowledges the end of the call.
    Record(Box<dialog::CallRecord>),
    /// A request failed; only where [`ShardSettings::tell_failures`](crate::ShardSettings::tell_failures) says so.
    Failed(Box<Failure>),
    /// A log-in failed.
    WrongPassword(Box<WrongPassword>),
    /// To be told to the other shards of the process ([`ShardInput::Judgement`](crate::ShardInput::Judgement)).
    Judgement(Box<digest_auth::Judgement>),
    /// This node has answered an INVITE that begins a dialog without its Record-Route; told once.
    NoRecordRoute(SocketAddr),
    /// A REGISTER for a contact elsewhere came through this proxy without Path, and calls go back to the proxy; told
    /// once.
    NoPath(SocketAddr),
    /// A request from here has the mark of a proxy that shares out state, and no neighbour of ours is there; told once.
    MarkOfStranger(SocketAddr),
    /// This neighbour does not answer our offer of overload control; told once.
    NoFeedback(SocketAddr),
    /// No node of this pool took new calls: so many were refused since the last time that this was told of the pool, at
    /// most once a second.
    NoServer {
        /// The pool.
        pool: PoolId,
        /// How many new requests.
        refused: u64,
    },
    /// Every node of this pool that takes new calls was at a limit: so many were refused since the last time that this
    /// was told of the pool, at most once a second.
    AtLimit {
        /// The pool.
        pool: PoolId,
        /// The limit.
        by: NodeRefusal,
        /// How many new requests.
        refused: u64,
    },
    /// The session table had no room: so many new calls were refused since the last time, at most once a second.
    NoRoom(u64),
}

/// A log-in with a wrong password, or for an unknown user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrongPassword {
    /// The user name that was given; of a long one the beginning.
    pub user: Box<str>,
    /// Its source; behind a trusted proxy the client, if the proxy names it.
    pub from: SocketAddr,
}

impl WrongPassword {
    pub(crate) fn new(user: &[u8], from: SocketAddr) -> Self {
        /// Most bytes of a name that are told.
        const LONGEST: usize = 64;
        Self { user: String::from_utf8_lossy(&user[..user.len().min(LONGEST)]).into(), from }
    }
}
