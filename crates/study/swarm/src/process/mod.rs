//! A process of a site: the code of the server, without its sockets and threads.

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

/// Unix time at which every run starts. Tokens contain it.
pub(super) const EPOCH_UNIX: u64 = 1_800_000_000;
/// Longer than any run.
pub(super) const TOKEN_LIFETIME: Duration = Duration::from_hours(12);

/// Time without messages after which a call is given up. Longer than the calls of a run.
pub(super) const SILENCE: Duration = Duration::from_mins(10);

/// State that a process reports.
#[derive(Clone, Debug)]
pub enum Shown {
    /// A balancer.
    Balancer(BalancerState),
    /// A stateful proxy.
    Proxy {
        /// Open transactions and calls.
        report: ProxyReport,
        /// Next timer.
        deadline: Option<Instant>,
    },
}

/// Returns the tokens of the sites of this group, made with `key`. All earlier keys and the next one are accepted too,
/// since a new key of several processes must be announced before it is used.
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
