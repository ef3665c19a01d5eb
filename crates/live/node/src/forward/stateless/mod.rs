//! Forwarding without transactions: the stateless proxy of RFC 3261 §16.11 in front of next hops (`hop.rs`), and in
//! front of a pool with session-aware request assignment (all else).

mod failed;
mod hop;
mod memory;
mod recent_copies;
mod removed;
mod response;
mod search;
mod searches;
mod send;

pub(crate) use hop::{pass, relay};
pub(crate) use memory::Stateless;
pub(crate) use send::send_to;
