//! Failed requests of a shard, kept for operators.
//!
//! A request is recorded when it fails, from the facts that are at hand then. A successful request costs nothing.
//!
//! - `failed.rs`: a failed request, with the targets that were tried,
//! - `ring.rs`: the last failed requests, bounded in bytes; `quota.rs` limits how many of a kind are kept.

pub(crate) mod failed;
mod quota;
pub(crate) mod ring;
