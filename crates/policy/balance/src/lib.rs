//! Which server a call goes to, and how much each server still has to do.
//!
//! Pure: time and every message's facts are arguments, nothing is read from outside, no text is parsed here.
//! [`Cluster`] holds the nodes with their health; [`Balancer`] holds the sessions and the leases
//! and asks a [`Policy`] when a call is new. A process has one cluster and a balancer for each shard.
#![forbid(unsafe_code)]

mod assignment;
mod balancer;
mod beside;
mod cluster;
mod dialogs;
mod evidence;
mod half_open;
mod lease;
mod limits;
mod node;
mod outlier;
pub mod policy;
mod pool;
mod refusals;
mod room;
mod session;
mod stats;
mod store;
mod transaction;
mod weights;

pub use balancer::{
    Balancer, CandidateVerdict, Decision, Direction, Request, Response, SessionSettings, Sign, Why,
};
pub use cluster::{Cluster, ClusterMember, HealthCause, HealthEffect, HealthNews, HealthSettings, Outlier};
pub use lease::{Load, LoadCell};
pub use limits::{CallLimits, SentCalls};
pub use node::{Health, Node, NodeId, NodeRefusal, Slot};
pub use outlier::{OutcomeTally, OutlierSettings};
pub use policy::{Candidate, Policy, PolicyKind};
pub use pool::{Members, Pool, PoolId};
pub use session::{CallKey, SessionState, SessionView, TableCounts, Tags};
pub use stats::{EndReason, NodeStats, StatusCounts};
pub use transaction::FirstAnswer;
pub use weights::Weights;
