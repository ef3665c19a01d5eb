//! The traffic threads: one for each core, each with its own sockets and its own [`node::Shard`].
//!
//! A call belongs to the shard that its Call-ID hashes to. The kernel passes a datagram to the thread of its call if it
//! finds the Call-ID (`steer`), and otherwise to a thread by address. A datagram that arrives elsewhere is handed over
//! unchanged through a ring between the two threads (`handover`). Each shard reads the others' load of each node from a
//! board of atomics before each batch (`board`). A thread with more messages than time orders them by class (`triage`).
//!
//! Connections are distributed in the same way, and belong to the thread that has accepted or opened them. Their
//! messages use the same rings. A message that leaves by another thread's connection uses the rings in the other
//! direction (`worker/stream_turn`).

#![forbid(unsafe_code)]

mod alarm;
mod board;
mod bpf;
mod clock;
mod command;
mod counts;
mod handover;
mod late;
pub mod listen;
mod mirror;
mod other_process;
pub mod proc;
mod records;
mod signals;
mod socket_filter;
pub mod state;
mod steer;
mod stores;
mod threads;
mod triage;
mod utilisation;
mod worker;

pub use board::Board;
pub use clock::Clock;
pub use command::{CallFilter, Command, Explained, OpenCalls, ShardReport, TakenSockets, WorkerHandle};
pub use counts::{AllShards, ShardCounts, ShardSnapshot, Traffic};
pub use handover::Handed;
pub use mirror::{Mirror, MirrorCounts};
pub use other_process::{Inlet, KeptCalls, NodeStates, OtherProcess, Remainder};
pub use records::{RecordCounts, Records};
pub use signals::SignalFigures;
pub use steer::steer;
pub use stores::{OnAnswer, StoreReport, Stores, redis, subscribers};
pub use threads::Threads;
pub use triage::TriageCounts;
pub use utilisation::{ModelProcessor, processor_time};
pub use worker::{MOST_SOCKETS, tells_failures};

use tokio::sync::oneshot;

/// Asks all shards at the same time. Returns `None` if one of them has ended.
pub async fn ask_each<T>(
    workers: &[WorkerHandle],
    question: impl Fn(oneshot::Sender<T>) -> Command,
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
