//! The threads that carry the traffic: one a core, each with its own sockets and its own [`node::Shard`].
//!
//! The kernel spreads datagrams over the threads by address, so the messages of one call arrive on different ones.
//! A call belongs to the shard that its Call-ID hashes to; a datagram that arrives elsewhere is handed over as it is,
//! through a ring between the two threads (`handover`). What the shards must know of each other for balancing, the
//! load of each node, they read from a board of atomics before each batch (`board`). A thread that has more messages
//! than time puts them in the order in which it serves them (`triage`).
//!
//! Connections are spread in the same way, and belong to the thread that has accepted or opened them. Their messages
//! take the same rings, and what leaves by another thread's connection takes them in the other direction
//! (`worker/stream_turn`).

#![forbid(unsafe_code)]

mod alarm;
mod board;
mod clock;
mod command;
mod counts;
mod handover;
mod late;
pub mod listen;
mod other_process;
pub mod proc;
mod records;
mod signals;
pub mod state;
mod stores;
mod threads;
mod triage;
mod utilisation;
mod worker;

pub use board::Board;
pub use clock::Clock;
pub use command::{Command, Explained, Report, TakenSockets, WorkerHandle};
pub use counts::{AllShards, ShardCounts, ShardSnapshot, Traffic};
pub use handover::Handed;
pub use other_process::{Inlet, KeptCalls, NodeStates, OtherProcess, Remainder};
pub use records::{RecordCounts, Records};
pub use signals::SignalFigures;
pub use stores::{OnAnswer, StoreReport, Stores, redis, subscribers};
pub use threads::Threads;
pub use triage::TriageCounts;
pub use utilisation::{ModelProcessor, processor_time};
pub use worker::{MOST_SOCKETS, tells_failures};

use tokio::sync::oneshot;

/// Asks all shards at once; `None` when one of them has ended.
pub async fn ask_each<T>(
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
