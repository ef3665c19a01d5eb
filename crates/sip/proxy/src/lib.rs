//! Core of a transaction-stateful proxy (RFC 3261 §16), for any representation of messages.
//!
//! The crate does no input or output: time is an argument, and messages go to the caller's [`Sink`]. A [`Medium`] reads
//! and edits messages, and a [`Router`] chooses their destination. Both exist for bytes and for the simulator's small
//! typed values. [`Branch`] is one branch of a request. [`Context`] is the response context, which compares the
//! responses of the branches (§16.7). [`Proxy`] ties both to the transactions.
//!
//! The targets of a request come in groups. The groups are tried one after the other; the targets of one group are
//! tried in parallel, each by its own branch (§16.6). Within a branch another next hop is tried after a 503 if the
//! router knows an alternate (RFC 3263 §4.3). By default there is one group of one target.
#![forbid(unsafe_code)]

mod branch;
mod branches;
mod collect;
mod context;
mod counters;
mod medium;
mod proxy;
mod table;

pub use branch::{Branch, BranchAction, BranchActions, ProxyEvent};
pub use context::{Context, ContextAction, ContextActions, ContextEvent};
pub use counters::ProxyCounters;
pub use medium::{
    Answered, Attempt, Form, KeptRequest, Medium, NewBranch, ProxyRefusal, ProxyStep, Router, Sink,
};
pub use proxy::{Arrived, Fire, MOST_BRANCHES, Proxy, ProxyTimers};
