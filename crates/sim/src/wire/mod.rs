//! The whole node on real bytes in virtual time, in a network with faults, with checkers watching from outside.
//!
//! Hosts run what the server runs: [`node::Shard`], [`node::Prober`] and [`balance::Cluster`] as one balancer's process,
//! [`node::ProxyShard`] as a stateful proxy's, [`load::Caller`] and [`load::Answerer`] as the parties of the calls. Between
//! them are [`crate::engine`]'s links. A [`Plan`] says who there is, who sends calls to whom, and what goes wrong; it is
//! drawn from a seed ([`swarm`]) or made from a scenario ([`scenario`]).
//!
//! A run has two phases, as a plan is laid out: one with faults, in which no rule of safety may be broken, and
//! one without, in which calls must succeed besides. Then the traffic ends, and nothing may be left of it.

mod checkers;
mod plan;
mod process;
mod rule;
pub mod scenario;
pub mod swarm;
mod world;

pub use plan::{
    Action, AnswererPlan, BalancerPlan, CallerPlan, Care, Member, Party, Plan, ProxyPlan, Role, SitePlan,
    answerer_address, site_address,
};
pub use process::{Books, Shown};
pub use rule::Rule;
pub use world::{Counts, Honest, Place, Summary, World, Wrapper};
