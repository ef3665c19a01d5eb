//! Forwarding without transactions: the stateless proxy of RFC 3261 §16.11, and session-aware request assignment in
//! front of a pool.

mod failed;
mod memory;
mod response;
mod search;
mod searches;
mod send;

pub(crate) use memory::Stateless;
pub(crate) use send::send_to;
