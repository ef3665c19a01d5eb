//! Forwarding without transactions: the stateless proxy of RFC 3261 §16.11, and in front of a pool the one with session-aware
//! request assignment.

mod failed;
mod memory;
mod response;
mod search;
mod searches;
mod send;

pub(crate) use memory::Stateless;
pub(crate) use send::send_to;
