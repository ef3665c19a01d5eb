//! One shard's pipeline: a datagram in, datagrams out. The only crate that knows all ways of forwarding.
//!
//! Pure: sockets, clock and threads are the caller's. A [`Shard`] owns the calls whose Call-ID hashes to it;
//! [`Topology`] says which addresses are ours and where the nodes are; [`Tokens`] are the keyed marks by which
//! messages find their way without a table.
#![forbid(unsafe_code)]

mod allowance;
mod assign;
mod begun;
mod counters;
mod edge;
mod examine;
mod explain;
mod failure;
mod forward;
mod home;
mod input;
mod names;
mod pause;
mod queue;
mod record;
mod refusals;
mod reply;
mod report;
mod route;
mod routes;
mod setup;
mod shard;
mod sharing;
mod take_over;
mod targets;
mod token;
mod topology;
mod validate;

pub use counters::{Drop, ShardCounters};
pub use explain::{Explanation, PassedOver, RouteTaken};
pub use failure::{Failure, FailureCause};
pub use forward::stateful::{DialogSettings, ProxyLimits, ProxyReport, ProxySettings};
pub use home::{
    Asked, AuthenticationSettings, HomeCounters, HomeReport, HomeSettings, LogIns, LookUps, Question,
    StoreAnswer, UsersUnavailable, WrongPassword,
};
pub use input::{ShardEvent, ShardInput};
pub use names::{HopName, Resolved};
pub use pause::Pause;
pub use queue::{CapacitySource, QueueMember, QueueReport, QueueSetup, QueueTurn};
pub use routes::Routes;
pub use setup::{Orphans, PoolMode, PoolSetup, Setup, ShardSettings};
pub use shard::{Shard, ShardIdentity};
pub use sharing::{Distribution, SharingReport};
pub use token::clock::{ClockChange, KeptClock, OtherClock, Reading, TokenClock};
pub use token::route::TokenOwner;
pub use token::{CallHash, TokenKey, Tokens, keyed_hash, shard_of};
pub use topology::{Listener, Topology, node_id};
