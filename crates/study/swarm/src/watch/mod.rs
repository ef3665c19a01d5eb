//! Observers of one process: they see which datagrams go in and which come out, know the configuration, and panic when
//! something leaves that should not.

mod balancer;
mod calls;
mod dialogs;
mod home;
mod passing;
mod proxy;
mod rule;
mod transactions;

pub use balancer::BalancerWatch;
pub(crate) use home::HomeWatch;
pub use proxy::{ProcessInput, ProxyWatch};
pub use rule::ProcessRule;
pub(crate) use rule::rules;

use std::net::SocketAddr;

/// A datagram that a process sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sent {
    /// The listener that it left from.
    pub listener: u16,
    /// Where it went.
    pub to: SocketAddr,
    /// Its bytes.
    pub bytes: Vec<u8>,
}
