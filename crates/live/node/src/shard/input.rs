//! Inputs of a shard.

use crate::address::hop_name::{HopName, Resolved};
use crate::outcome::question::StoreAnswer;
use crate::shard::setup::Setup;
use balance::{Load, NodeId, PoolId, Slot};
use base::Flow;
use core::time::Duration;
use overload::MessageClass;
use std::sync::Arc;

/// An input of a shard.
#[derive(Debug)]
pub enum ShardInput<'a> {
    /// A message came in.
    Message {
        /// Ingress flow of the message.
        flow: Flow,
        /// Bytes of the message.
        bytes: &'a [u8],
    },
    /// Waiting time of the next messages in the sockets and the queue of the thread.
    Waited {
        /// Time since the messages arrived.
        waited: Duration,
        /// Number of messages still waiting, as far as the thread has read them.
        queue: usize,
        /// Class of the messages. If they were not sorted by class, it is the class of new INVITEs.
        class: MessageClass,
    },
    /// Total busy time of the thread, due at [`Shard::busy_deadline`](crate::Shard::busy_deadline).
    Busy(Duration),
    /// Timers are due, at [`Shard::deadline`](crate::Shard::deadline).
    Timer,
    /// A measurement period is over. Used only with shared-out state of calls
    /// ([`Shard::sharing_period`](crate::Shard::sharing_period)).
    Period {
        /// Length of the period.
        length: Duration,
        /// Processor time that the process used during the period, divided by the processor time available to it, from
        /// 0 to 1.
        utilisation: f64,
    },
    /// ICMP says that a datagram did not arrive, or a connection failed before a message was sent (RFC 3261 §16.9).
    Unreachable {
        /// The flow on which the message was sent.
        to: Flow,
        /// The beginning of the message. If empty, all connections to this peer are lost, and so is every request that
        /// was sent on them and has no response.
        quoted: &'a [u8],
    },
    /// Addresses of a name, after [`ShardEvent::LookUp`](crate::ShardEvent::LookUp).
    Name {
        /// The name of the question.
        name: &'a HopName,
        /// The answer.
        answer: &'a Resolved,
    },
    /// Answer of a store, after [`ShardEvent::Ask`](crate::ShardEvent::Ask).
    Answer {
        /// The number of the question.
        number: u64,
        /// The answer.
        answer: Box<StoreAnswer>,
    },
    /// Capacity that a member has announced, for all shards together.
    Capacity {
        /// The member's slot.
        slot: Slot,
        /// New calls per second.
        capacity: f64,
    },
    /// Capacity of a member that another process has measured, for all shards together.
    Learned {
        /// The pool whose queue uses the capacity.
        pool: PoolId,
        /// The member.
        node: NodeId,
        /// New calls per second.
        capacity: f64,
    },
    /// Result of a password check by another shard of the process
    /// ([`ShardEvent::Judgement`](crate::ShardEvent::Judgement)).
    Judgement(&'a digest_auth::AttemptResult),
    /// Load that the other shards have put on the nodes, by slot.
    OtherLoads(&'a [Load]),
    /// A new set-up.
    SetUp(&'a Arc<Setup>),
}
