//! What must hold for any sequence of messages and events, as functions that fuzzers and property tests call: they
//! panic when it does not.
//!
//! The bytes given are read as a list of operations: user agents and nodes send, answer, repeat, alter and lose
//! messages; time passes, nodes die, the configuration and the key change, the process restarts. A watch beside the
//! element checks each datagram that it sends, from the messages alone.

mod balancer;
mod bed;
mod messages;
mod proxy;
mod traffic;

use crate::Sent;
use node::ShardCounters;

/// Runs the operations that `data` stands for against a balancer. Someone between it and the watch may change what was
/// sent. Returns what was done, so that a test can tell whether its operations reach what they should.
pub fn element(data: &[u8], tamper: impl FnMut(&mut Vec<Sent>)) -> ShardCounters {
    let mut world = balancer::World::new(data, tamper);
    while world.step() {}
    world.finish()
}

/// The same against a stateful proxy.
pub fn proxy(data: &[u8], tamper: impl FnMut(&mut Vec<Sent>)) -> ShardCounters {
    let mut world = proxy::World::new(data, tamper);
    while world.step() {}
    world.finish()
}
