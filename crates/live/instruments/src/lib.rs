//! What measures a server from outside, on real sockets and by the real clock: the agents of `sarabande load` and of
//! the demonstrations, and the monitor of `sarabande monitor`.
//!
//! - [`agents`]: callers and answerers on threads of their own,
//! - [`latency`]: the latency of a server of this host, from its packets or by HEP,
//! - [`sender`]: tells balancers what the server can take.
#![forbid(unsafe_code)]

pub mod agents;
mod capture;
mod clock;
pub mod latency;
pub mod sender;
