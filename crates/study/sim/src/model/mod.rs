//! The model of SIP on the engine, with small typed messages: the server's own machines on virtual hosts.
//!
//! Proxies run [`proxy::Proxy`] on [`transaction::Layer`], agents run [`load::user_agent`] on the same layer. Written
//! here is only what the world around them is: hosts with processors and queues, the ways between them, and what is
//! measured.

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
