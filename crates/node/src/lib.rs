//! One shard's pipeline: a datagram in, datagrams out. The only crate that knows all roles.
//!
//! Pure: sockets, clock and threads are the caller's. A [`Shard`] owns the calls whose Call-ID hashes to it;
//! [`Topology`] says which addresses are ours and where the nodes are; [`Tokens`] are the keyed marks by which
//! messages find their way without a table.
#![forbid(unsafe_code)]

mod counters;
mod explain;
mod failure;
pub mod fuzz;
mod names;
mod prober;
mod proxy;
mod record;
mod removed;
mod reply;
mod request;
mod response;
mod rest;
mod role;
mod rounds;
mod route;
mod search;
mod shard;
mod targets;
mod token;
mod topology;
mod validate;

pub use counters::{Counters, Drop};
pub use explain::Explanation;
pub use failure::{Cause, Failure};
pub use names::{Name, Resolved};
pub use prober::Prober;
pub use proxy::{HopFailure, ProxyLimits, ProxyReport, ProxySettings, ProxyShard};
pub use rest::Rest;
pub use role::Role;
pub use rounds::{Ask, Outcome, ProbeSettings, Reason, Rounds, Step};
pub use shard::{Event, Input, Orphans, Settings, Shard};
pub use token::clock::{ClockChange, KeptClock, OtherClock, Reading, TokenClock};
pub use token::{CallHash, Key, Tokens, shard_of};
pub use topology::{Listener, Topology, node_id};
