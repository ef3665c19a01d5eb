//! A test bed: one shard with its listeners and nodes, and the messages of the parties around it, as bytes.
#![allow(dead_code, reason = "each test file uses its part of it")]

pub(crate) mod dialog;
pub(crate) mod proxy;
pub(crate) mod text;

use balance::policy::RoundRobin;
use balance::{Balancer, Cluster, ClusterMember, HealthSettings, Load, PoolId, Slot, TableCounts};
use base::{Flow, Instant, Outbox, Transport};
use node::{
    Listener, Orphans, PipelineSettings, Shard, ShardEvent, ShardInput, TokenKey, Tokens, Topology, node_id,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const KEY: TokenKey = TokenKey([7; 16]);
/// Tokens live this long in the tests.
pub(crate) const LIFETIME: Duration = Duration::from_hours(1);

pub(crate) fn addr(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// What a balancer is set up with.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) listeners: Vec<&'static str>,
    /// Address and listener of each node.
    pub(crate) nodes: Vec<(&'static str, u16)>,
    pub(crate) key: TokenKey,
    pub(crate) previous: Vec<TokenKey>,
    pub(crate) orphans: Orphans,
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
            orphans: Orphans::Reject,
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

/// A datagram that the shard sent.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) listener: u16,
    pub(crate) to: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

impl std::fmt::Debug for Sent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "by {} to {}:\n{}", self.listener, self.to, String::from_utf8_lossy(&self.bytes))
    }
}

impl Sent {
    pub(crate) fn message(&self) -> wire::Message<'_> {
        text::scanned(&self.bytes)
    }

    pub(crate) fn status(&self) -> u16 {
        self.message().status().expect("a response")
    }

    pub(crate) fn branch(&self) -> Vec<u8> {
        self.message().top_via().branch.expect("a branch").to_vec()
    }
}

pub(crate) struct Bed {
    pub(crate) site: Site,
    pub(crate) shard: Shard,
    pub(crate) cluster: Cluster,
    pub(crate) now: Instant,
    pub(crate) events: Vec<ShardEvent>,
}

impl Bed {
    pub(crate) fn new(site: Site) -> Self {
        let mut topology = Topology::default();
        topology.listeners = site.listeners.iter().map(|text| Listener::udp(addr(text))).collect();
        topology.names = vec![("pool.example".to_owned(), None)];
        for &(address, listener) in &site.nodes {
            topology.push_node(Flow::udp(listener, addr(address)));
        }
        let slow_start = Duration::ZERO;
        let cluster = Cluster::new(HealthSettings { fall: 1, slow_start, ..HealthSettings::default() });
        let balancer = Balancer::new(balance::SessionSettings::default(), Box::new(RoundRobin::new(0)));
        let tokens = Tokens::new(site.key, &site.previous, LIFETIME);
        let settings = PipelineSettings {
            orphans: site.orphans,
            epoch_unix: site.epoch_unix,
            stopping: None,
            tell_failures: false,
        };
        let shard = Shard::pool(balancer, Arc::new(topology), tokens, settings);
        let all: Vec<_> = (0..site.nodes.len()).collect();
        let mut bed = Self { site, shard, cluster, now: Instant::from_millis(1_000), events: Vec::new() };
        bed.set_members(&all);
        bed
    }

    /// The process dies and comes back: everything but configuration and key is lost.
    pub(crate) fn restarted(self) -> Self {
        let now = self.now;
        Self { now, ..Self::new(self.site) }
    }

    /// A datagram comes in; what goes out, in order.
    pub(crate) fn receive(&mut self, listener: u16, from: SocketAddr, bytes: &[u8]) -> Vec<Sent> {
        let mut out = Outbox::default();
        self.shard.handle(self.now, ShardInput::Message { flow: Flow::udp(listener, from), bytes }, &mut out);
        self.done(out)
    }

    /// What a step has sent.
    pub(crate) fn done(&mut self, mut out: Outbox<ShardEvent>) -> Vec<Sent> {
        assert_eq!(self.shard.balancer().audit(), Ok(()));
        self.events.extend(out.drain_events());
        let sent = |t: &base::Transmit| Sent {
            listener: t.flow.listener,
            to: t.flow.peer,
            bytes: out.message(t).to_vec(),
        };
        out.transmits().iter().map(sent).collect()
    }

    /// The same, for a datagram that has exactly one consequence.
    pub(crate) fn one(&mut self, listener: u16, from: SocketAddr, bytes: &[u8]) -> Sent {
        let mut sent = self.receive(listener, from, bytes);
        assert_eq!(sent.len(), 1, "{sent:#?}");
        sent.remove(0)
    }

    /// The same, for a datagram that is dropped for this reason.
    pub(crate) fn dropped(&mut self, listener: u16, from: SocketAddr, bytes: &[u8], reason: &str) {
        let before = self.drops(reason);
        assert_eq!(self.receive(listener, from, bytes), []);
        assert_eq!(self.drops(reason), before + 1, "{:?}", self.shard.counters().drops);
    }

    pub(crate) fn explain(&mut self, from: SocketAddr, bytes: &[u8]) -> Result<node::Explanation, String> {
        self.shard.explain(self.now, Flow::udp(0, from), bytes, &mut Outbox::default())
    }

    pub(crate) fn drops(&self, reason: &str) -> u64 {
        self.shard.counters().drops.get(reason).copied().unwrap_or_default()
    }

    /// Time passes, and every timer goes off when it is due; what is sent meanwhile.
    pub(crate) fn wait(&mut self, time: Duration) -> Vec<Sent> {
        let end = self.now + time;
        let mut sent = Vec::new();
        while let Some(deadline) = self.shard.deadline().filter(|&deadline| deadline <= end) {
            self.now = self.now.max(deadline);
            let mut out = Outbox::default();
            self.shard.handle(self.now, ShardInput::Timer, &mut out);
            sent.extend(self.done(out));
        }
        self.now = end;
        sent
    }

    pub(crate) fn probed(&mut self, slot: u16, alive: bool) {
        self.cluster.probed(self.now, Slot(slot), alive);
        self.shard.balancer_mut().set_nodes(self.cluster.nodes());
    }

    /// A probe has found that nobody listens at the node.
    pub(crate) fn port_closed(&mut self, slot: u16) {
        self.cluster.unreachable(self.now, Slot(slot));
        self.shard.balancer_mut().set_nodes(self.cluster.nodes());
    }

    /// Sets which of the nodes are members.
    pub(crate) fn set_members(&mut self, slots: &[usize]) {
        let id = |slot: &usize| node_id(Transport::Udp, addr(self.site.nodes[*slot].0));
        let members: Vec<_> = slots
            .iter()
            .map(|slot| ClusterMember { id: id(slot), capacity: 1.0, max_calls: 0, pool: PoolId::default() })
            .collect();
        self.cluster.set_members(self.now, &members);
        self.shard.balancer_mut().set_nodes(self.cluster.nodes());
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

    /// Nothing is owed to anyone: no lease is left.
    pub(crate) fn assert_idle(&self) {
        assert_eq!(self.load(), Load::default());
        assert_eq!(self.shard.balancer().open_transactions(), 0);
    }

    /// The session table is empty once everything has run out.
    pub(crate) fn assert_forgets(&mut self) {
        self.wait(Duration::from_hours(10));
        self.assert_idle();
        assert_eq!(self.shard.balancer().counts(), TableCounts::default());
    }
}
