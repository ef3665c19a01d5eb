//! Which pool a request goes to, and whether it may go anywhere: rules, targets, failover, access lists, rate limits.
//!
//! Pure: no sockets, no clock, no randomness. What a request says comes in as a [`Query`], time as an argument.
//!
//! - [`Table`] holds [`Rule`]s in order; the first whose [`Conditions`] hold wins. Its cost grows with the rules that
//!   a request has something in common with, not with all.
//! - A rule's [`Actions`] say what is done to the request, its [`Target`] where it goes: to [`Pools`] with priority
//!   and weight, where its Request-URI leads, or back with an [`Answer`].
//! - [`Failover`] says when a target's next pool is tried, and a [`Budget`] keeps retries a share of what is tried
//!   first.
//! - [`Access`] says who may use a listener or a rule; [`RateLimits`] how much each source may begin.
#![forbid(unsafe_code)]

mod access;
mod actions;
mod budget;
mod cover;
mod failover;
mod field;
mod header_names;
mod index;
mod network;
mod pattern;
mod pool;
mod query;
mod rates;
mod regex;
mod rule;
mod steps;
mod table;
mod target;
mod tel;

pub use access::{Access, Refusal};
pub use actions::{Actions, VALUE_MAX};
pub use budget::{Budget, BudgetSettings};
pub use cover::Reason;
pub use failover::{Failover, Outcome};
pub use field::{Field, Part, Place};
pub use network::Network;
pub use pattern::{PATTERN_MAX, Pattern};
pub use pool::{Dialogs, Fork, Forward, INVITE_TIMEOUT, NoService, RING_TIME, Service, Spread};
pub use query::Query;
pub use rates::{Exceeded, RateLimits, RateSettings, SourceLimit};
pub use regex::Regex;
pub use rule::{Conditions, MethodName, Origin, Rule};
pub use steps::Step;
pub use table::Table;
pub use target::{Answer, Choice, Pools, Target};
