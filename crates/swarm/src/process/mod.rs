//! A process of a site, from its start to its end: what the server runs, without its sockets and threads.

mod balancer;
mod proxy;

use super::plan::{SitePlan, SiteRole, site_address};
use crate::Sent;
use base::{Instant, Outbox};
use core::time::Duration;
use node::{Listener, ProxyReport, TokenKey, Tokens, Topology};
use std::net::SocketAddr;
use std::sync::Arc;

pub(super) use balancer::BalancerProcess;
pub use balancer::BalancerState;
pub(super) use proxy::ProxyProcess;

/// Unix time at which every run starts; tokens carry it.
const EPOCH_UNIX: u64 = 1_800_000_000;
/// Long over any run.
pub(super) const TOKEN_LIFETIME: Duration = Duration::from_hours(12);

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

/// One process.
pub(super) enum Process {
    Balancer(Box<BalancerProcess>),
    Proxy(Box<ProxyProcess>),
}

/// The tokens of all sites while new ones are made with this key. Those before it and the one after it are accepted:
/// whoever changes the key of several processes has to announce it first.
fn tokens(key: u8) -> Tokens {
    let key_of = |number: u8| TokenKey([number; 16]);
    let accepted: Vec<_> = (0..=key.saturating_add(1)).filter(|&other| other != key).map(key_of).collect();
    Tokens::new(key_of(key), &accepted, TOKEN_LIFETIME)
}

fn listeners(site: u16) -> Vec<Listener> {
    vec![Listener::udp(site_address(site))]
}

fn topology(site: u16) -> Arc<Topology> {
    Arc::new(Topology::new(listeners(site), Vec::new()))
}

impl Process {
    /// The process of this number, of this site, with the configuration and the key of the moment. `life` counts its
    /// starts.
    pub(super) fn start(
        now: Instant,
        plan: &SitePlan,
        site: u16,
        key: u8,
        (process, life): (u16, u64),
    ) -> Self {
        match &plan.role {
            SiteRole::Balancer(plan) => {
                let id = u64::from(process) << 32 | life;
                Self::Balancer(Box::new(BalancerProcess::start(now, plan, site, key, (process, id))))
            }
            SiteRole::Proxy(plan) => Self::Proxy(Box::new(ProxyProcess::start(plan, site, key, life))),
        }
    }

    /// Reads another configuration, as the server does on reload.
    pub(super) fn reload(&mut self, now: Instant, role: &SiteRole, key: u8) {
        match (self, role) {
            (Self::Balancer(balancer), SiteRole::Balancer(plan)) => balancer.reload(now, plan, key),
            (Self::Proxy(proxy), SiteRole::Proxy(plan)) => proxy.reload(plan, key),
            _ => unreachable!("a site keeps its role"),
        }
    }

    /// The shard that gets a datagram from this address, and that which has to handle it.
    pub(super) fn shards(&self, from: SocketAddr, bytes: &[u8]) -> (usize, usize) {
        match self {
            Self::Balancer(balancer) => balancer.shards(from, bytes),
            Self::Proxy(_) => (0, 0),
        }
    }

    /// This shard handles a datagram that came in at the address of the site.
    pub(super) fn datagram(
        &mut self,
        now: Instant,
        shard: usize,
        from: SocketAddr,
        bytes: &[u8],
    ) -> Vec<Sent> {
        match self {
            Self::Balancer(balancer) => balancer.datagram(now, shard, from, bytes),
            Self::Proxy(proxy) => proxy.datagram(now, from, bytes),
        }
    }

    /// Does what is due. Returns what it sends as an element, and its probes.
    pub(super) fn tick(&mut self, now: Instant) -> (Vec<Sent>, Vec<Sent>) {
        match self {
            Self::Balancer(balancer) => balancer.tick(now),
            Self::Proxy(proxy) => (proxy.tick(now), Vec::new()),
        }
    }

    /// The network said that what began with `quoted` did not arrive at this address.
    pub(super) fn unreachable(
        &mut self,
        now: Instant,
        address: SocketAddr,
        was_probe: bool,
        quoted: &[u8],
    ) -> Vec<Sent> {
        match self {
            Self::Balancer(balancer) => {
                balancer.unreachable(now, address, was_probe, quoted);
                Vec::new()
            }
            Self::Proxy(proxy) => proxy.unreachable(now, address, quoted),
        }
    }

    /// What it shows of itself.
    pub(super) fn shown(&self) -> Shown {
        match self {
            Self::Balancer(balancer) => Shown::Balancer(balancer.state()),
            Self::Proxy(proxy) => Shown::Proxy { report: proxy.report(), deadline: proxy.deadline() },
        }
    }

    /// When [`tick`](Self::tick) is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Balancer(balancer) => balancer.deadline(),
            Self::Proxy(proxy) => proxy.deadline(),
        }
    }
}

fn taken<E>(out: &Outbox<E>) -> Vec<Sent> {
    let sent = |transmit: &base::Transmit| Sent {
        listener: transmit.flow.listener,
        to: transmit.flow.peer,
        bytes: out.message(transmit).to_vec(),
    };
    out.transmits().iter().map(sent).collect()
}
