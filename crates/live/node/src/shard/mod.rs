//! A shard, and the path of a message through it.
//!
//! - `state.rs`: the parts of a shard; `setup.rs` and `take_over.rs`: its settings and their changes,
//! - `handle.rs`: one step for each input (`input.rs`),
//! - `pipeline.rs`: the path of a message, with `recall.rs` and `plan.rs`,
//! - `events.rs`: all other inputs,
//! - `report.rs` and `explain.rs`: reports for operators.

mod events;
pub(crate) mod explain;
mod handle;
pub(crate) mod input;
mod pipeline;
mod plan;
mod recall;
mod report;
pub(crate) mod setup;
mod state;
mod take_over;

pub use state::{Shard, ShardIdentity};
