//! The threads that carry the traffic: one a core, each with its own sockets and its own [`node::Shard`].
//!
//! The kernel spreads datagrams over the threads by address, so the messages of one call arrive on different ones.
//! A call belongs to the shard that its Call-ID hashes to; a datagram that arrives elsewhere is handed over as it is,
//! through a ring between the two threads ([`handover`]). What the shards must know of each other for balancing, the
//! load of each node, they read from a board of atomics before each batch ([`board`]).

pub(crate) mod board;
pub(crate) mod handover;
pub(crate) mod listen;
pub(crate) mod wake;
mod worker;

pub(crate) use worker::{Command, Peers, Report, ShardSnapshot, Traffic, Worker, WorkerHandle};
