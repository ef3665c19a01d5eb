//! Forwarding with a transaction for each request: the transaction-stateful proxy of RFC 3261 §16, [`proxy::Proxy`] on
//! live bytes.
//!
//! - `transactions.rs`: messages to and from transactions; `begin.rs` and `within.rs` begin a transaction, for a
//!   request to a pool or user, or within a dialog; `room.rs` checks for room,
//! - `received.rs`, `targets.rs`: the record of a request, and its target set,
//! - `form.rs` with `editor.rs` and `attempts.rs`: how the proxy's core reads, writes and sends messages,
//! - `failure.rs`: records of failed requests,
//! - `dialogs.rs`: calls with kept dialogs.

mod attempts;
mod begin;
mod budgets;
mod dialogs;
mod editor;
mod failure;
mod form;
mod limits;
mod received;
mod report;
mod room;
mod targets;
mod transactions;
mod within;

pub use dialogs::DialogSettings;
pub use limits::{ProxyLimits, ProxySettings};
pub use report::ProxyReport;
pub(crate) use targets::{PoolTargets, Source, Targets};
pub(crate) use transactions::Stateful;
pub(crate) use within::DialogHop;
