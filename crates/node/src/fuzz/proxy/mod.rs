//! The stateful proxy under any sequence of datagrams, ICMP errors, reloads and time.

mod transactions;
mod watch;
mod world;

pub use watch::{Cause, ProxyWatch};
pub(super) use world::World;
