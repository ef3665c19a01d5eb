//! Measures a server from outside, on real sockets and with the real clock: the agents of `sarabande load` and of the
//! demonstrations, and the monitor of `sarabande monitor`.
//!
//! - [`agents`]: callers and answerers on threads of their own,
//! - [`latency`]: the latency of a server of this host, from its packets or by HEP,
//! - [`sender`]: reports the capacity of the server to balancers.
#![forbid(unsafe_code)]

pub mod agents;
mod capture;
mod clock;
pub mod latency;
pub mod sender;
