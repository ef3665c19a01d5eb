//! Random traffic against the product, and the observers that see from outside whether it holds its rules.
//!
//! Two ways to make such traffic:
//!
//! - [`fuzz`]: bytes are a list of operations on one shard. Fuzzers and property tests choose them.
//! - [`draw()`] and [`run()`]: whole nodes on real bytes in virtual time, in a network with faults. A seed chooses.
//!
//! In both, [`BalancerWatch`] and [`ProxyWatch`] check every datagram of a process against the rules in
//! [`ProcessRule`]. A run of whole nodes has more to check: [`RunRule`].
//!
//! Hosts run what the server runs: [`node::Shard`] and [`control::Control`] as one balancer's process,
//! [`node::Shard`] as a stateful proxy's, [`load::Caller`] and [`load::Answerer`] as the parties of the calls.
//! Between them are [`sim::engine`]'s links. A [`Plan`] says who there is, who sends calls to whom, and what goes
//! wrong; it is drawn from a seed ([`draw()`]) or made from a scenario ([`scenario`]).
//!
//! A run has two phases, as a plan is laid out: one with faults, in which no rule of safety may be broken, and
//! one without, in which calls must succeed besides. Then the traffic ends, and nothing may be left of it.

#![forbid(unsafe_code)]

mod call;
mod checkers;
mod credentials;
mod draw;
pub mod fuzz;
mod phone;
mod plan;
mod process;
mod rule;
mod run;
pub mod scenario;
mod watch;
mod world;

pub use draw::draw;
pub use plan::{
    AnswererPlan, Callee, CallerPlan, Destination, DriverPlan, FeedbackPlan, FilePlan, HomePlan,
    OverloadPlan, PhonePlan, PhoneStep, Plan, PlannedAction, PlannedMember, PoolPlan, Refuses, RoutePlan,
    ScalePlan, Severity, SitePlan, SiteRole, StorePlan, StoreState, When, answerer_address, site_address,
};
pub use process::{BalancerState, Shown};
pub use rule::RunRule;
pub use run::{Replay, SeedVerdict, replay, run, run_with, total};
pub use watch::{BalancerWatch, ProcessInput, ProcessRule, ProxyWatch, Sent};
pub use world::{Counts, Honest, ProcessId, Summary, World, Wrapper};
