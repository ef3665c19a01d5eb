//! What must hold for any sequence of messages and events, as functions that fuzzers and property tests call: they
//! panic when it does not.
//!
//! The bytes given are read as a list of operations: user agents and nodes send, answer, repeat, alter and lose
//! messages; time passes, nodes die, the configuration and the key change, the process restarts. A watch beside the
//! element checks each datagram that it sends, from the messages alone.

mod balancer;
mod messages;
mod proxy;
mod traffic;

use crate::Sent;
use node::ShardCounters;

/// Runs the operations that `data` stands for.
///
/// # Panics
/// When an invariant does not hold.
pub fn element(data: &[u8]) {
    run(data, |_| {});
}

/// The same, with someone between the element and the watch who may change what was sent: for tests of the watch.
/// Returns what was done, so that a test can tell whether its operations reach what they should.
///
/// # Panics
/// When an invariant does not hold, or seems not to.
pub fn run(data: &[u8], tamper: impl FnMut(&mut Vec<Sent>)) -> ShardCounters {
    let mut world = balancer::World::new(data, tamper);
    while world.step() {}
    world.finish()
}

/// Runs the operations that `data` stands for against a stateful proxy.
///
/// # Panics
/// When an invariant does not hold.
pub fn proxy(data: &[u8]) {
    run_proxy(data, |_| {});
}

/// The same, with someone between the proxy and the watch, as in [`run`].
///
/// # Panics
/// When an invariant does not hold, or seems not to.
pub fn run_proxy(data: &[u8], tamper: impl FnMut(&mut Vec<Sent>)) -> ShardCounters {
    let mut world = proxy::World::new(data, tamper);
    while world.step() {}
    world.finish()
}
