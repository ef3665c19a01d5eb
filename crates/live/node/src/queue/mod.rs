//! The front-end queue of a pool (Cloud paper, sections IV-C and V-B): a new call waits here until a member has room
//! for it.
//!
//! Requests of a session never wait. A waiting call is stored as received. When a member has pulled it, it is processed
//! again from the beginning, with this member. Its copies are absorbed, and a CANCEL removes it.
//!
//! - `queues.rs`: the queues of all pools,
//! - `pool.rs`: the queue of one pool, its members and their capacities,
//! - `measured.rs`: capacities from the members' response times.

mod measured;
mod pool;
mod queues;

pub use pool::{CapacitySource, QueueMember, QueueReport, QueueSetup, QueueTurn};
pub(crate) use queues::{CALL_WAITS_TOO_LONG, Queues, Served, Turn};
