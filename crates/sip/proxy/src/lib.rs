//! The core of a transaction-stateful proxy (RFC 3261 §16), written once for all representations of a message.
//!
//! Pure: time is an argument, what is sent goes to the caller's [`Sink`], nothing is read from outside. What a
//! message looks like and how it is edited is a [`Medium`]'s, and where it goes a [`Router`]'s: bytes live, small
//! typed values in the simulator. What to do is decided here: [`Branch`] is one way that a request takes, [`Context`]
//! the response context that compares what the branches bring (§16.7), and [`Proxy`] ties both to the transactions
//! below.
//!
//! The targets of a request come in groups. Those of a group are tried in parallel, each by a branch of its own, and
//! the groups one after the other (§16.6). Within a branch another next hop is tried after a 503 when the router
//! knows an alternate (RFC 3263 §4.3). A router that says nothing of groups has one group of one target.
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
