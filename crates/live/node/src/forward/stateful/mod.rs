//! Forwarding with a transaction for each request: the transaction-stateful proxy of RFC 3261 §16, [`proxy::Proxy`] on
//! live bytes.
//!
//! - `transactions.rs`: what comes to them and from them; `begin.rs` and `within.rs` begin one, for a request to a pool or user, or
//!   within a dialog; `room.rs` says whether there is room,
//! - `received.rs`, `targets.rs`: what is kept of a request, and who gets it,
//! - `form.rs` with `editor.rs` and `attempts.rs`: how the proxy's core reads, makes and sends messages,
//! - `dialogs.rs`: the calls whose dialogs are kept.

mod attempts;
mod begin;
mod budgets;
mod dialogs;
mod editor;
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
