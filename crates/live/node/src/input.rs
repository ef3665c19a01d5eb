//! What a shard is told, and what it asks for besides messages to send.

use crate::failure::Failure;
use crate::home::{Question, StoreAnswer, WrongPassword};
use crate::names::{HopName, Resolved};
use crate::setup::Setup;
#[cfg(doc)]
use crate::{Shard, ShardSettings};
use balance::{Load, NodeId, PoolId, Sign, Slot};
use base::Flow;
use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

/// Something that a shard is told.
#[derive(Debug)]
pub enum ShardInput<'a> {
    /// A message came in.
    Message {
        /// What it came by.
        flow: Flow,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// Time has passed: [`Shard::deadline`].
    Timer,
    /// A period is over, about once a second; only where the state of calls is shared out ([`Shard::shares_state`]).
    Period {
        /// How long it was.
        length: Duration,
        /// For which part of it the process has kept the processors busy that it may use, from 0 to 1.
        utilisation: f64,
    },
    /// ICMP says that a datagram to this address did not arrive (RFC 3261 §16.9).
    Unreachable {
        /// Where it was to go.
        to: SocketAddr,
        /// The beginning of the datagram.
        quoted: &'a [u8],
    },
    /// Where a name leads, after [`ShardEvent::LookUp`].
    Name {
        /// The name that was asked for.
        name: &'a HopName,
        /// The answer.
        answer: &'a Resolved,
    },
    /// A store has answered, after [`ShardEvent::Ask`].
    Answer {
        /// The number of the question.
        number: u64,
        /// The answer.
        answer: Box<StoreAnswer>,
    },
    /// A member has announced how many new calls a second it can take, from all shards together.
    Capacity {
        /// The member's slot.
        slot: Slot,
        /// Calls a second.
        capacity: f64,
    },
    /// A member has shown how many new calls a second it can take, from all shards together, while another process asked it.
    Learned {
        /// The pool whose queue is told.
        pool: PoolId,
        /// The member.
        node: NodeId,
        /// Calls a second.
        capacity: f64,
    },
    /// Another shard of the process has found out what a password is worth ([`ShardEvent::Judged`]).
    Judged(&'a digest_auth::Judgement),
    /// The load that the other shards have put on the nodes, by slot.
    OtherLoads(&'a [Load]),
    /// Another set-up.
    SetUp(&'a Arc<Setup>),
}

/// What a shard asks for besides messages to send.
#[derive(Clone, PartialEq, Debug)]
pub enum ShardEvent {
    /// What the traffic says about a node.
    Sign(Sign),
    /// The address of this name: [`ShardInput::Name`].
    LookUp(HopName),
    /// A question to a store: [`ShardInput::Answer`].
    Ask(Box<Question>),
    /// To be written before anything leaves that was sent in the same step: what acknowledges the end of the call is among it.
    Record(Box<dialog::CallRecord>),
    /// A request failed; only where [`ShardSettings::tell_failures`] says so.
    Failed(Box<Failure>),
    /// A log-in failed.
    WrongPassword(Box<WrongPassword>),
    /// To be told to the other shards of the process ([`ShardInput::Judged`]).
    Judged(Box<digest_auth::Judgement>),
    /// This node has answered an INVITE that begins a dialog without its Record-Route; told once.
    NoRecordRoute(SocketAddr),
    /// A REGISTER for a contact elsewhere came through this proxy without Path, and calls go back to the proxy; told once.
    NoPath(SocketAddr),
    /// No node took new calls: so many were refused since the last time that this was told, at most once a second.
    NoServer(u64),
    /// The session table had no room: so many new calls were refused since the last time, at most once a second.
    NoRoom(u64),
}
