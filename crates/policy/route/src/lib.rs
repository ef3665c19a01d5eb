//! Routing: chooses the pool of a request, or refuses the request. Contains rules, targets, failover, access lists and
//! rate limits.
//!
//! The crate uses no sockets, no clock and no randomness. A [`Query`] gives access to the request; time is an argument.
//!
//! - [`Table`] contains [`Rule`]s in order. The first rule whose [`Conditions`] are true is used. The cost of a lookup
//!   grows with the number of rules that share a text or network with the request, not with the number of all rules.
//! - The [`Actions`] of a rule edit the request. Its [`Target`] is the destination: [`Pools`] with priority and weight,
//!   the Request-URI, or an [`Answer`].
//! - [`Failover`] decides whether the next pool of a target is tried. A [`Budget`] limits retries to a share of first
//!   attempts.
//! - [`Access`] limits who may use a listener or a rule; [`RateLimits`] limit the new requests of each source.
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

pub use access::{Access, AccessRefusal};
pub use actions::{Actions, VALUE_MAX};
pub use budget::{Budget, BudgetSettings};
pub use cover::Reason;
pub use failover::{Failover, FailoverCause};
pub use field::{Field, Part, UriPlace};
pub use network::Network;
pub use pattern::{PATTERN_MAX, Pattern};
pub use pool::{Dialogs, Fork, Forward, INVITE_TIMEOUT, NoService, RING_TIME, Service, Spread};
pub use query::Query;
pub use rates::{Exceeded, RateLimits, RateSettings, SourceLimit};
pub use regex::Regex;
pub use rule::{Conditions, MethodName, Origin, Rule};
pub use steps::EditStep;
pub use table::Table;
pub use target::{Answer, Pools, Target, TargetPool};
