//! One shard's pipeline: a datagram in, datagrams out. The only crate that knows all ways of forwarding.
//!
//! Pure: sockets, clock and threads are the caller's. A [`Shard`] owns the calls whose Call-ID hashes to it;
//! [`Topology`] says which addresses are ours and where the nodes are; [`Tokens`] are the keyed marks by which
//! messages find their way without a table.
#![forbid(unsafe_code)]

mod admission;
mod allowance;
mod arrival;
mod assign;
mod client_flow;
mod counters;
mod destination;
mod edge;
mod edge_proxy;
mod edit;
mod event;
mod explain;
mod failure;
mod forward;
mod home;
mod hop_name;
mod input;
mod large;
mod leave;
mod limited;
mod marks;
mod names;
mod path;
mod pause;
mod pools;
mod ports;
mod progress;
mod question;
mod queue;
mod record;
mod refusals;
mod rejection;
mod remote_targets;
mod reply;
mod report;
mod route_header;
mod routes;
mod settings;
mod setup;
mod shard;
mod sharing;
mod step;
mod take_over;
mod target;
mod token;
mod topology;
mod validate;
mod waits;

pub use admission::{Judged, NeighbourReport, OverloadControl, OverloadReport, TicketCounts};
pub use counters::{Drop, ShardCounters};
pub use event::{ShardEvent, WrongPassword};
pub use explain::{Explanation, PassedOver, RouteTaken};
pub use failure::{Failure, FailureCause};
pub use forward::stateful::{DialogSettings, ProxyLimits, ProxyReport, ProxySettings};
pub use home::{AuthenticationSettings, HomeCounters, HomeReport, HomeSettings, LogIns, LookUps};
pub use hop_name::{HopName, Resolved};
pub use input::ShardInput;
pub use large::LargeRequests;
pub use pause::Pause;
pub use ports::{Port, Ports};
pub use question::{Question, StoreAnswer, StoreQuery, UsersUnavailable};
pub use queue::{CapacitySource, QueueMember, QueueReport, QueueSetup, QueueTurn};
pub use routes::Routes;
pub use settings::Orphans;
pub use setup::{PoolSetup, Setup, ShardSettings};
pub use shard::{Shard, ShardIdentity};
pub use sharing::{Distribution, SharingReport};
pub use token::clock::{ClockChange, KeptClock, OtherClock, Reading, TokenClock};
pub use token::owner::TokenOwner;
pub use token::{CallHash, TokenKey, Tokens, keyed_hash, shard_of};
pub use topology::{Topology, node_id};
