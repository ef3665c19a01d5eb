//! Feedback between neighbours (RFC 6357, 7339, 7415; Overload paper, VII): an overloaded server limits the traffic of
//! its upstream neighbours. The neighbours reject all further requests before these cause work at the server.
//!
//! A server has one [`HopReceiver`]; a client has a [`HopSender`] for each downstream server.

mod bucket;
mod rate;
mod receiver;
mod refusals;
mod sender;
mod share;
mod silence;
mod via;
mod window;

pub use receiver::{HopReceiver, ReceiverLaw};
pub use sender::{HopSender, RequestOutcome};

use core::time::Duration;

/// Limit of a client's requests to a server.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ClientLimit {
    /// Fraction of requests to send, 0 to 1. It is f of the paper, and with `oc-algo=loss` it is 100 % less `oc`.
    Loss(f64),
    /// Requests per second, at least 0: `oc` with `oc-algo=rate`.
    Rate(f64),
    /// Most new requests whose processing the server has not confirmed (RFC 6357 §9.3). No RFC defines it on the wire.
    Window(f64),
}

/// Feedback of a server to a client, in the topmost Via of its responses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Feedback {
    /// The limit. `None` ends the control: the server then sends `oc-validity` 0 (RFC 7339 §5.7).
    pub limit: Option<ClientLimit>,
    /// Lifetime of the limit unless renewed: `oc-validity`.
    pub validity: Duration,
    /// Sequence number `oc-seq`, in units of its fifth decimal. It increases with each value. If it is a time, the unit
    /// is 10 microseconds.
    pub sequence: u64,
}
