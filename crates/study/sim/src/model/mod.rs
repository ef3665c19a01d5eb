//! The model of SIP on the engine, with small typed messages: the server's own state machines on virtual hosts.
//!
//! Proxies run [`proxy::Proxy`] on [`transaction::Layer`], agents run [`load::user_agent`] on the same layer. This
//! module adds only their environment: hosts with processors and queues, links, and measurements.

mod agents;
mod balancer;
mod control;
mod gate;
mod host;
mod keeping;
mod links;
mod measure;
mod medium;
mod message;
mod prices;
mod sources;
mod ties;
mod work;
mod world;

pub use keeping::{NetworkState, ProxyModel, StateKeeping};
pub use links::rules;
pub use measure::{BinRates, HostResults, Outcomes, RunResults, StreamResults};
pub use message::{HOPS_MAX, HostId, ModelMessage, ModelStart, ModelVia};
pub use sources::arrivals;
pub use world::{run, run_sharing, run_until, run_watched};
