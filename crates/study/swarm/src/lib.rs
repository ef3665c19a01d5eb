//! Random traffic against the product, and observers that check its rules from outside.
//!
//! Traffic comes from two sources:
//!
//! - [`fuzz`]: the input bytes are a list of operations on one shard. Fuzzers and property tests choose them.
//! - [`draw()`] and [`run()`]: whole nodes exchange real bytes in virtual time over a faulty network. A seed decides.
//!
//! In both, [`BalancerWatch`] and [`ProxyWatch`] check every datagram of a process against the rules in
//! [`ProcessRule`]. A run of whole nodes is also checked against [`RunRule`].
//!
//! Hosts run the code of the server: each process of a site has its [`node::Shard`]s and a [`control::Control`].
//! [`load::Caller`] and [`load::Answerer`] are the parties of the calls. [`sim::engine`]'s links connect them. A
//! [`Plan`] lists the hosts, the traffic and the faults. It is drawn from a seed ([`draw()`]) or made from a scenario
//! ([`scenario`]).
//!
//! A run has two phases. The first phase has faults, and no safety rule may be broken. The second phase has no faults,
//! and calls must also succeed. Then the traffic ends, and no state may be left.

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
pub use world::{Counts, Honest, SiteProcess, Summary, World, Wrapper};
