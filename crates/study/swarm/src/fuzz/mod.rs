//! Properties of any sequence of messages and events, as functions for fuzzers and property tests. They panic on a
//! violation.
//!
//! The bytes are a list of operations. User agents and nodes send, answer, repeat, alter and lose messages. Time
//! passes, nodes die, configuration and key change, the process restarts. A watch checks each datagram of the element,
//! from the messages alone.

mod balancer;
mod bed;
mod messages;
mod proxy;
mod traffic;

use crate::Sent;
use node::ShardCounters;

/// Runs the operations in `data` against a balancer. `tamper` may change sent messages before the watch sees them.
/// Returns the counters, so that a test can check that the operations reach enough code.
pub fn element(data: &[u8], tamper: impl FnMut(&mut Vec<Sent>)) -> ShardCounters {
    let mut world = balancer::World::new(data, tamper);
    while world.step() {}
    world.finish()
}

/// Runs the operations in `data` against a stateful proxy, like [`element`].
pub fn proxy(data: &[u8], tamper: impl FnMut(&mut Vec<Sent>)) -> ShardCounters {
    let mut world = proxy::World::new(data, tamper);
    while world.step() {}
    world.finish()
}
