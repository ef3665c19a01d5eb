//! Which server a call goes to, and how much each server still has to do.
//!
//! Pure: time and every message's facts are arguments, nothing is read from outside, no text is parsed here.
//! [`Cluster`] holds the nodes with their health; [`Balancer`] holds the sessions and the leases
//! and asks a [`Policy`] when a call is new. A process has one cluster and a balancer for each shard.
#![forbid(unsafe_code)]

mod balancer;
mod books;
mod cluster;
mod dialogs;
mod evidence;
mod lease;
mod node;
mod outlier;
mod places;
mod plan;
pub mod policy;
mod room;
mod session;
mod stats;
mod transaction;
mod trial;
mod weights;

pub use balancer::{Balancer, Decision, Direction, Request, Response, Settings, Sign, Verdict, Why};
pub use cluster::{Cause, Cluster, Effect, HealthSettings, Member, News, Outlier};
pub use lease::{Load, LoadCell};
pub use node::{Health, Node, NodeId, Refusal, Slot};
pub use outlier::{OutlierSettings, Tally};
pub use places::Places;
pub use policy::{Candidate, Policy};
pub use session::{CallKey, SessionView, State, TableCounts, Tags};
pub use stats::{EndReason, NodeStats, StatusCounts};
pub use weights::Weights;
