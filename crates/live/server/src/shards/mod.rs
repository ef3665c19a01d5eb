//! The threads that carry the traffic: one a core, each with its own sockets and its own [`node::ShardView`].
//!
//! The kernel spreads datagrams over the threads by address, so the messages of one call arrive on different ones.
//! A call belongs to the shard that its Call-ID hashes to; a datagram that arrives elsewhere is handed over as it is,
//! through a ring between the two threads ([`handover`]). What the shards must know of each other for balancing, the
//! load of each node, they read from a board of atomics before each batch ([`board`]). A thread that has more messages
//! than time puts them in the order in which it serves them ([`triage`]).
//!
//! Connections are spread in the same way, and belong to the thread that has accepted or opened them. Their messages
//! take the same rings, and what leaves by another thread's connection takes them in the other direction
//! ([`stream_turn`]).

pub(crate) mod alarm;
pub(crate) mod board;
mod command;
mod counts;
pub(crate) mod handover;
mod inspect;
mod intake;
mod late;
pub(crate) mod listen;
mod obey;
mod receive;
mod send;
mod signals;
mod stream_turn;
mod triage;
mod worker;

pub(crate) use command::{Command, Explained, Report, TakenSockets, WorkerHandle};
pub(crate) use counts::{AllShards, ShardCounts, ShardSnapshot, Traffic};
pub(crate) use late::LateHandovers;
pub(crate) use send::tells_failures;
pub(crate) use signals::{SignalFigures, Signals};
pub(crate) use triage::{TriageCounts, TriageQueue};
pub(crate) use worker::{MOST_SOCKETS, Peers, Worker};

use tokio::sync::oneshot;

/// Asks all shards at once; `None` when one of them has ended.
pub(crate) async fn ask_each<T>(
    workers: &[WorkerHandle],
    question: fn(oneshot::Sender<T>) -> Command,
) -> Option<Vec<T>> {
    let ask = |worker: &WorkerHandle| {
        let (reply, answer) = oneshot::channel();
        worker.send(question(reply));
        answer
    };
    let asked: Vec<_> = workers.iter().map(ask).collect();
    let mut answers = Vec::new();
    for answer in asked {
        answers.push(answer.await.ok()?);
    }
    Some(answers)
}
