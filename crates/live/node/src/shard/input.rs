//! What a shard is told.

use crate::address::hop_name::{HopName, Resolved};
use crate::outcome::question::StoreAnswer;
use crate::shard::setup::Setup;
use balance::{Load, NodeId, PoolId, Slot};
use base::Flow;
use core::time::Duration;
use overload::MessageClass;
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
    /// How long the messages to come have waited in the sockets and the queue of the thread.
    Waited {
        /// The time since the first of them arrived.
        waited: Duration,
        /// How many wait still, as far as the thread has read them.
        queue: usize,
        /// The class of the messages to come. Where they were not put in order by class: that of new INVITEs.
        class: MessageClass,
    },
    /// How long the thread has been busy in all, at [`Shard::busy_deadline`](crate::Shard::busy_deadline).
    Busy(Duration),
    /// Time has passed: [`Shard::deadline`](crate::Shard::deadline).
    Timer,
    /// A period is over; only where the state of calls is shared out
    /// ([`Shard::sharing_period`](crate::Shard::sharing_period)).
    Period {
        /// How long it was.
        length: Duration,
        /// For which part of it the process has kept the processors busy that it may use, from 0 to 1.
        utilisation: f64,
    },
    /// ICMP says that a datagram did not arrive, or a connection failed before a message was sent (RFC 3261 §16.9).
    Unreachable {
        /// The way that it was to go.
        to: Flow,
        /// The beginning of the message. Empty: the connections that lead there are lost, and whatever went by them and has no
        /// answer.
        quoted: &'a [u8],
    },
    /// Where a name leads, after [`ShardEvent::LookUp`](crate::ShardEvent::LookUp).
    Name {
        /// The name that was asked for.
        name: &'a HopName,
        /// The answer.
        answer: &'a Resolved,
    },
    /// A store has answered, after [`ShardEvent::Ask`](crate::ShardEvent::Ask).
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
    /// Another shard of the process has found out what a password is worth ([`ShardEvent::Judgement`](crate::ShardEvent::Judgement)).
    Judgement(&'a digest_auth::Judgement),
    /// The load that the other shards have put on the nodes, by slot.
    OtherLoads(&'a [Load]),
    /// Another set-up.
    SetUp(&'a Arc<Setup>),
}
