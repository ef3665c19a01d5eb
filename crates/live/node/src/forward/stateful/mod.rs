//! Forwarding with a transaction for each request: the transaction-stateful proxy of RFC 3261 §16, [`proxy::Proxy`] on
//! live bytes.
//!
//! - `transactions.rs`: what comes to them and from them; `begin.rs` and `within.rs` begin one, for a request to a pool or user, or
//!   within a dialog; `room.rs` says whether there is room,
//! - `received.rs`, `assigned.rs`, `located.rs`: what is kept of a request, and who gets it,
//! - `form.rs` with `editor.rs`, `attempts.rs` and `moves.rs`: how the proxy's core reads, makes and sends messages,
//! - `dialogs.rs`: the calls whose dialogs are kept.

mod assigned;
mod attempts;
mod begin;
mod budgets;
mod dialogs;
mod editor;
mod first_copies;
mod form;
mod limits;
mod located;
mod moves;
mod received;
mod report;
mod room;
mod transactions;
mod within;

pub(crate) use assigned::Assigned;
pub use dialogs::DialogSettings;
pub use limits::{ProxyLimits, ProxySettings};
pub(crate) use located::Located;
pub use report::ProxyReport;
pub(crate) use transactions::Stateful;
