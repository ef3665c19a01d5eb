//! A test bed: one shard with its listeners and nodes, and the messages of the parties around it, as bytes.

mod dialog;
mod proxy;
mod setup;
mod text;

use balance::{Cluster, ClusterMember, HealthSettings, PolicyKind, TableCounts};
pub(crate) use balance::{Load, Members, PoolId, Slot};
use base::Peer;
pub(crate) use base::{Flow, Rate, Transport};
pub(crate) use core::time::Duration;
pub(crate) use dialog::{Dialog, End};
pub(crate) use elastic::queue::QueueSettings;
pub(crate) use location::Reach;
use node::{AddressTable, Setup, ShardSettings, node_id};
pub(crate) use node::{
    CapacitySource, DialogSettings, HopName, PoolSetup, Port, ProxyLimits, QueueSetup, Resolved, Routes,
    ShardEvent, ShardInput, TokenKey, Tokens,
};
pub(crate) use proxy::{HOPS, LIMITS, PROXY, ProxyBed, STATELESS, client, hops, record, records};
pub(crate) use route::{
    AccessRefusal, Conditions, Failover, Field, Forward, Origin, Part, Pattern, Pools, RateSettings, Rule,
    Service, SourceLimit, Spread, Table, Target, TargetPool, UriPlace,
};
pub(crate) use setup::{
    NEW_KEY, answered, asked, both, change_key, found, invited, keep_dialogs, queue, queue_report, rate,
    requests, respond, set_rules, statuses, stop, to_pool, transactions, users, via, waited,
};
pub(crate) use std::net::SocketAddr;
pub(crate) use std::sync::Arc;
pub(crate) use testbed::Sent;
pub(crate) use text::{Req, Resp, answer, answer_with, record_routes, replaced, string};
pub(crate) use wire::Method;

pub(crate) const KEY: TokenKey = TokenKey([7; 16]);
/// Lifetime of tokens in the tests.
pub(crate) const LIFETIME: Duration = Duration::from_hours(1);

pub(crate) fn addr(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// A pool of these members with round robin.
pub(crate) fn pool(mode: Service, members: Members) -> PoolSetup {
    PoolSetup::new(mode, PolicyKind::RoundRobin, members)
}

/// The same with the members in these slots.
pub(crate) fn pool_of(mode: Service, slots: impl IntoIterator<Item = u16>) -> PoolSetup {
    pool(mode, Members::of(slots.into_iter().map(Slot)))
}

/// Set-up of a balancer.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) listeners: Vec<&'static str>,
    /// Address and listener of each node.
    pub(crate) nodes: Vec<(&'static str, u16)>,
    pub(crate) key: TokenKey,
    pub(crate) previous: Vec<TokenKey>,
    pub(crate) forwards_orphans: bool,
    pub(crate) epoch_unix: u64,
}

impl Site {
    /// One IPv4 listener, three nodes.
    pub(crate) fn plain() -> Self {
        Self {
            listeners: vec!["127.0.0.1:5060"],
            nodes: vec![("127.0.1.1:5060", 0), ("127.0.1.2:5060", 0), ("127.0.1.3:5070", 0)],
            key: KEY,
            previous: Vec::new(),
            forwards_orphans: false,
            epoch_unix: 1_800_000_000,
        }
    }

    /// One listener for the clients and one for the nodes, of the same family.
    pub(crate) fn two_sided() -> Self {
        Self {
            listeners: vec!["127.0.0.1:5060", "127.0.0.2:5060"],
            nodes: vec![("127.0.1.1:5060", 1), ("127.0.1.2:5060", 1)],
            ..Self::plain()
        }
    }

    /// Clients speak IPv4, the nodes IPv6.
    pub(crate) fn mixed() -> Self {
        Self {
            listeners: vec!["127.0.0.1:5060", "[::1]:5060"],
            nodes: vec![("[::1]:5081", 1), ("[::1]:5082", 1)],
            ..Self::plain()
        }
    }
}

/// Forwards all other methods of a test bed to the inner bed.
macro_rules! derefs_to_inner {
    ($bed:ty) => {
        impl std::ops::Deref for $bed {
            type Target = testbed::Bed;

            fn deref(&self) -> &Self::Target {
                &self.inner
            }
        }

        impl std::ops::DerefMut for $bed {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.inner
            }
        }
    };
}
pub(crate) use derefs_to_inner;

/// A balancer: a shard with its members.
pub(crate) struct Bed {
    pub(crate) inner: testbed::Bed,
    pub(crate) site: Site,
    pub(crate) cluster: Cluster,
}

derefs_to_inner!(Bed);

impl Bed {
    pub(crate) fn new(site: Site) -> Self {
        let mut topology = AddressTable::default();
        topology.ports = site.listeners.iter().map(|text| Port::udp(addr(text))).collect::<Vec<_>>().into();
        topology.names = vec![("pool.example".to_owned(), None)];
        for &(address, listener) in &site.nodes {
            topology.push_node(Flow::udp(listener, addr(address)));
        }
        let slow_start = Duration::ZERO;
        let cluster = Cluster::new(HealthSettings { fall: 1, slow_start, ..HealthSettings::default() });
        let tokens = Tokens::new(site.key, &site.previous, LIFETIME);
        let settings = ShardSettings {
            forwards_orphans: site.forwards_orphans,
            limits: LIMITS,
            ..ShardSettings::new(tokens, site.epoch_unix)
        };
        let mut setup = Setup::new(topology, settings);
        setup.pools = [pool(Service::Balance, Members::All)].into();
        let all: Vec<_> = (0..site.nodes.len()).collect();
        let mut bed = Self { inner: testbed::Bed::new(setup), site, cluster };
        bed.set_members(&all);
        bed
    }

    /// The same with members that are forwarded to in this mode.
    pub(crate) fn with_mode(mut self, mode: Service) -> Self {
        self.set_services([mode]);
        self
    }

    /// The process dies and restarts: everything except configuration and key is lost.
    pub(crate) fn restarted(self) -> Self {
        let now = self.now;
        let mut bed = Self::new(self.site);
        bed.now = now;
        bed
    }

    /// Reports the state of the nodes to the shard.
    pub(crate) fn set_nodes(&mut self) -> Vec<Sent> {
        let Self { inner, cluster, .. } = self;
        inner.set(|setup| setup.nodes = cluster.nodes().into())
    }

    pub(crate) fn probed(&mut self, slot: u16, alive: bool) -> Vec<Sent> {
        self.cluster.probed(self.inner.now, Slot(slot), alive);
        self.set_nodes()
    }

    /// A probe has found the port of the node closed.
    pub(crate) fn port_closed(&mut self, slot: u16) {
        self.cluster.unreachable(self.inner.now, Slot(slot));
        self.set_nodes();
    }

    /// Sets which of the nodes are members.
    pub(crate) fn set_members(&mut self, slots: &[usize]) {
        self.limit_members(slots, 0);
    }

    /// The same with a limit of calls for each member; 0: no limit.
    pub(crate) fn limit_members(&mut self, slots: &[usize], max_calls: u32) {
        let member = |slot: &usize| ClusterMember {
            id: node_id(Peer::new(Transport::Udp, addr(self.site.nodes[*slot].0))),
            capacity: 1.0,
            max_calls,
            max_rate: 0,
            pool: PoolId::default(),
        };
        let members: Vec<_> = slots.iter().map(member).collect();
        self.cluster.set_members(self.inner.now, &members);
        self.set_nodes();
    }

    /// Slot of the node at this address.
    pub(crate) fn slot(&self, at: SocketAddr) -> u16 {
        self.site.nodes.iter().position(|&(address, _)| addr(address) == at).expect("a node") as u16
    }

    pub(crate) fn is_node(&self, at: SocketAddr) -> bool {
        self.site.nodes.iter().any(|&(address, _)| addr(address) == at)
    }

    pub(crate) fn load(&self) -> Load {
        let nodes = 0..self.site.nodes.len() as u16;
        nodes.fold(Load::default(), |sum, slot| sum + self.shard.balancer().load(Slot(slot)).own)
    }

    /// Asserts that no lease is left.
    pub(crate) fn assert_idle(&self) {
        assert_eq!(self.load(), Load::default());
        assert_eq!(self.shard.balancer().open_transactions(), 0);
    }

    /// Asserts that the session table is empty after all timeouts.
    pub(crate) fn assert_forgets(&mut self) {
        self.wait(Duration::from_hours(10));
        self.assert_idle();
        assert_eq!(self.shard.balancer().counts(), TableCounts::default());
    }
}
