//! Forwarding without transactions: the stateless proxy of RFC 3261 §16.11 in front of next hops (`hop.rs`), and in front of a
//! pool with session-aware request assignment (all else).

mod hop;
mod removed;
mod response;
mod search;
mod send;

pub(crate) use removed::Unacknowledged;
pub(crate) use search::{SearchLimits, Searches};
