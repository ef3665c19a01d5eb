//! Chooses the server of each call, and tracks the load of each server.
//!
//! The crate does no input or output and parses no text: time and the facts of each message are arguments. [`Cluster`]
//! holds the nodes with their health. [`Balancer`] holds the sessions and the leases, and asks a [`Policy`] for the
//! node of a new call. A process has one cluster, and one balancer for each shard.
#![forbid(unsafe_code)]

mod assignment;
mod balancer;
mod cluster;
mod dialogs;
mod evidence;
mod facts;
mod guards;
mod half_open;
mod ids;
mod lease;
mod limits;
mod members;
mod node;
mod other_pool;
mod outlier;
pub mod policy;
mod pool;
mod refusals;
mod room;
mod session;
mod settings;
mod stats;
mod store;
mod transaction;
mod weights;

pub use balancer::{Balancer, CandidateVerdict};
pub use cluster::{Cluster, ClusterMember, HealthCause, HealthEffect, HealthNews, HealthSettings, Outlier};
pub use facts::{Direction, NodeDecision, RequestFacts, Response, Sign, Why};
pub use guards::MemberRoom;
pub use ids::{NodeId, PoolId, Slot};
pub use lease::{Load, LoadCell};
pub use limits::{CallLimits, SentCalls};
pub use members::Members;
pub use node::{Health, Node, NodeRefusal};
pub use outlier::OutcomeTally;
pub use overload::member::MemberLaw;
pub use policy::{Candidate, Policy, PolicyKind};
pub use pool::Pool;
pub use session::{CallKey, SessionState, SessionView, TableCounts, Tags};
pub use settings::SessionSettings;
pub use stats::{EndReason, NodeHistograms, NodeStats, NodeTotals, StatusCounts, TimeSum};
pub use transaction::FirstAnswer;
pub use weights::Weights;
