//! Feedback between neighbours (RFC 6357, 7339, 7415; Overload paper, VII): an overloaded server tells those who send
//! to it how much to send, and they reject the rest before it costs the server anything.
//!
//! A server keeps one [`Receiver`]; a client keeps a [`Sender`] for each server that it sends to.

mod bucket;
mod rate;
mod receiver;
mod refusals;
mod sender;
mod share;
mod silence;
mod via;
mod window;

pub use receiver::{Law, Receiver};
pub use sender::{RequestOutcome, Sender};

use core::time::Duration;

/// How much a client may send to a server.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Limit {
    /// This fraction, 0 to 1, of what it would send: f of the paper; 100 less `oc` with `oc-algo=loss`.
    Loss(f64),
    /// So many a second, at least 0: `oc` with `oc-algo=rate`.
    Rate(f64),
    /// So many new requests whose processing the server has not confirmed yet (RFC 6357 §9.3). No RFC has a
    /// name for it on the wire.
    Window(f64),
}

/// What a server tells a client in the topmost Via of its responses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Feedback {
    /// The limit, or none: then `oc-validity` is 0, which ends the control (RFC 7339 §5.7).
    pub limit: Option<Limit>,
    /// How long the limit holds unless renewed: `oc-validity`.
    pub validity: Duration,
    /// Grows with each value: `oc-seq`, in units of its fifth decimal, that is 10 microseconds where it is a time.
    pub sequence: u64,
}
