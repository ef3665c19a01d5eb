//! One shard's pipeline: it takes one message and returns the messages to send. This crate forwards requests with and
//! without transactions, and requests within dialogs.
//!
//! The crate does no input or output: sockets, clock and threads belong to the caller. A [`Shard`] owns the calls whose
//! Call-ID hashes to it. A [`AddressTable`] holds the addresses of this process and of the nodes. [`Tokens`] writes and
//! verifies the authenticated values in Via and Record-Route by which messages are routed without a table.
#![forbid(unsafe_code)]

mod address;
mod admission;
mod decide;
mod forward;
mod gate;
mod message;
mod outcome;
mod queue;
mod read;
mod registrar;
mod seen;
mod shard;
mod site;
mod step;
mod token;
mod trace;

pub use address::hop_name::{HopName, Resolved};
pub use address::ports::{Port, Ports};
pub use address::topology::{AddressTable, node_id};
pub use admission::{NeighbourReport, OverloadControl, OverloadCounts, OverloadReport, TicketCounts};
pub use forward::stateful::{DialogSettings, ProxyLimits, ProxyReport, ProxySettings};
pub use outcome::Outcome;
pub use outcome::counters::{Drop, ShardCounters};
pub use outcome::event::{ShardEvent, WrongPassword};
pub use outcome::failure::{Failure, FailureCause};
pub use outcome::pause::Pause;
pub use outcome::question::{StoreAnswer, StoreQuery, StoreQuestion, UsersUnavailable};
pub use queue::{CapacitySource, QueueMember, QueueReport, QueueSetup, QueueTurn};
pub use registrar::{
    AuthenticationSettings, LogIns, LookUps, RegistrarCounters, RegistrarReport, RegistrarSettings,
};
pub use shard::explain::{Explanation, PassedOver, RouteTaken};
pub use shard::input::ShardInput;
pub use shard::setup::{PoolSetup, Setup, ShardSettings};
pub use shard::{Shard, ShardIdentity};
pub use site::keep_alive::is_keep_alive;
pub use site::large::LargeRequests;
pub use site::routes::Routes;
pub use site::sharing::{Decisions, Distribution, SharingReport};
pub use token::branch::is_hop_branch;
pub use token::owner::TokenOwner;
pub use token::shard_hash::ShardHash;
pub use token::{CallHash, TokenKey, Tokens, keyed_hash};
pub use trace::failed::{FailedRequest, Tried, TriedResult};
pub use trace::ring::KeptFailure;
