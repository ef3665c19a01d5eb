//! A process of a site, from its start to its end: what the server runs, without its sockets and threads.

mod node;
mod scaling;
mod settings;

use super::plan::site_address;
use ::node::{Port, Ports, ProxyReport, TokenKey, Tokens};
use base::{Instant, Transport};
use core::time::Duration;

pub use node::BalancerState;
pub(super) use node::Process;
pub(super) use scaling::DriverAnswer;

/// Unix time at which every run starts; tokens carry it.
pub(super) const EPOCH_UNIX: u64 = 1_800_000_000;
/// Long over any run.
pub(super) const TOKEN_LIFETIME: Duration = Duration::from_hours(12);

/// Longer than the calls of a run last: after that one that nobody ends is given up.
pub(super) const SILENCE: Duration = Duration::from_mins(10);

/// What a process shows of itself.
#[derive(Clone, Debug)]
pub enum Shown {
    /// A balancer.
    Balancer(BalancerState),
    /// A stateful proxy.
    Proxy {
        /// What there is to do.
        report: ProxyReport,
        /// When something is due.
        deadline: Option<Instant>,
    },
}

/// The tokens of the sites of this group while new ones are made with this key. Those before it and the one after it
/// are accepted: whoever changes the key of several processes has to announce it first.
fn tokens(key: u8, group: u16) -> Tokens {
    let [high, low] = group.to_be_bytes();
    let key_of = |number: u8| {
        let mut bytes = [number; 16];
        (bytes[0], bytes[1]) = (high, low);
        TokenKey(bytes)
    };
    let accepted: Vec<_> = (0..=key.saturating_add(1)).filter(|&other| other != key).map(key_of).collect();
    Tokens::new(key_of(key), &accepted, TOKEN_LIFETIME)
}

fn ports(site: u16, transport: Transport) -> Ports {
    let address = site_address(site);
    vec![Port::new(transport, address, address)].into()
}
