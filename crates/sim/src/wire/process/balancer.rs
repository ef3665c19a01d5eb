//! A balancer's process: a shard, and beside it what the server's control task does with membership and health.

use super::super::plan::{BalancerPlan, probe_address};
use super::{EPOCH_UNIX, taken, tokens, topology};
use balance::policy::by_name;
use balance::{Balancer, Cluster, Member, Sign, Slot};
use base::{Instant, Outbox};
use node::fuzz::Sent;
use node::{Event, Input, NodeAddress, Orphans, Outcome, Prober, Reason, Settings, Shard, Topology, node_id};
use std::net::SocketAddr;
use std::sync::Arc;

pub(in super::super) struct BalancerProcess {
    config: BalancerPlan,
    key: u8,
    pub(in super::super) shard: Shard,
    cluster: Cluster,
    prober: Prober,
    topology: Arc<Topology>,
    /// Version of the cluster that the shard has.
    told: u64,
    events: Outbox<Event>,
    outcomes: Outbox<Outcome>,
}

impl BalancerProcess {
    /// `id` differs from process to process and from start to start.
    pub(super) fn start(
        now: Instant,
        config: BalancerPlan,
        site: u16,
        key: u8,
        (process, id): (u16, u64),
    ) -> Self {
        let topology = topology(site);
        let policy = by_name(config.policy, 0).expect("a plan names policies that there are");
        let settings = Settings { orphans: Orphans::Reject, epoch_unix: EPOCH_UNIX, stopping: false };
        let books = Balancer::new(config.books.clone(), policy);
        let mut process = Self {
            shard: Shard::new(books, Arc::clone(&topology), tokens(key), settings),
            cluster: Cluster::new(config.health),
            prober: Prober::new(config.probes, id, [Some(probe_address(process)), None]),
            config,
            key,
            topology,
            told: 0,
            events: Outbox::default(),
            outcomes: Outbox::default(),
        };
        process.set_members(now);
        process.tell();
        process
    }

    pub(super) fn reload(&mut self, now: Instant, config: &BalancerPlan, key: u8) {
        let before = core::mem::replace(&mut self.config, config.clone());
        self.cluster.set_settings(config.health);
        self.prober.set_settings(config.probes);
        self.shard.balancer_mut().set_settings(config.books.clone());
        if before.policy != config.policy {
            let policy = by_name(config.policy, 0).expect("a plan names policies that there are");
            self.shard.balancer_mut().set_policy(policy);
        }
        if core::mem::replace(&mut self.key, key) != key {
            self.shard.set_tokens(&tokens(key));
        }
        self.set_members(now);
        self.tell();
    }

    fn set_members(&mut self, now: Instant) {
        let member = |member: &super::super::Member| Member {
            id: node_id(member.party.address()),
            capacity: member.capacity,
            max_calls: 0,
        };
        let members: Vec<_> = self.config.members.iter().map(member).collect();
        self.cluster.set_members(now, &members);
        let mut topology = Topology::clone(&self.topology);
        for member in &self.config.members {
            let address = member.party.address();
            if topology.slot_at(address).is_none() {
                topology.push_node(NodeAddress { address, listener: 0 });
            }
        }
        self.topology = Arc::new(topology);
        let all = (0..).map(Slot).zip(self.cluster.nodes().iter().zip(self.topology.nodes()));
        let asked = all.filter(|(_, (node, _))| node.member);
        let targets: Vec<_> = asked.map(|(slot, (_, node))| (slot, node.address)).collect();
        self.prober.set_targets(now, &targets);
    }

    /// The shard gets the nodes and their addresses as one value, whenever anything about them changed.
    fn tell(&mut self) {
        if self.told != self.cluster.version() {
            self.told = self.cluster.version();
            self.shard.set_topology(Arc::clone(&self.topology));
            self.shard.balancer_mut().set_nodes(self.cluster.nodes());
        }
    }

    /// Takes a member out of service, or back.
    pub(in super::super) fn drain(&mut self, address: SocketAddr, draining: bool) {
        if let Some(slot) = self.topology.slot_at(address) {
            self.cluster.drain(slot, draining);
            self.tell();
        }
    }

    /// A datagram came in at the address that callers know.
    pub(super) fn datagram(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) -> Vec<Sent> {
        self.shard.handle(now, Input::Datagram { listener: 0, from, bytes }, &mut self.events);
        let sent = taken(&self.events);
        self.heed(now);
        sent
    }

    /// Does what is due. Returns what it sends as an element, and its probes.
    pub(super) fn tick(&mut self, now: Instant) -> (Vec<Sent>, Vec<Sent>) {
        self.shard.handle(now, Input::Timer, &mut self.events);
        let sent = taken(&self.events);
        self.heed(now);
        self.prober.tick(now, &mut self.outcomes);
        let probes = taken(&self.outcomes);
        self.judge(now);
        (sent, probes)
    }

    /// A datagram came in at the address that probes leave from.
    pub(in super::super) fn probe_answer(&mut self, now: Instant, bytes: &[u8]) {
        self.prober.receive(bytes, &mut self.outcomes);
        self.judge(now);
    }

    /// The network said that nobody listens at this address.
    pub(super) fn unreachable(&mut self, now: Instant, address: SocketAddr, was_probe: bool) {
        if was_probe {
            self.prober.unreachable(address, &mut self.outcomes);
            self.judge(now);
        } else if let Some(slot) = self.topology.slot_at(address) {
            self.prober.hurry(now, slot);
        }
    }

    /// What the traffic says about the health of nodes.
    fn heed(&mut self, now: Instant) {
        for event in self.events.drain_events() {
            match event {
                Event::Sign(Sign::NoAnswer { slot }) => self.prober.hurry(now, slot),
                Event::Sign(Sign::Pause { slot, until, asked }) => self.cluster.pause(slot, until, asked),
                // Probes are regular and see for themselves.
                Event::Sign(Sign::Answer { .. }) => {}
                Event::LookUp(name) => unreachable!("everybody in here is known by address, not as {name}"),
            }
        }
        self.events.clear();
        self.tell();
    }

    /// What probes say.
    fn judge(&mut self, now: Instant) {
        for Outcome { slot, alive, reason, rest } in self.outcomes.drain_events() {
            match (reason, rest) {
                (Reason::Unreachable, _) => self.cluster.unreachable(now, slot),
                (_, Some(rest)) => self.cluster.refused(now, slot, now + rest.length, rest.asked),
                (Reason::Status(_) | Reason::Timeout, None) => self.cluster.probed(now, slot, alive),
            }
        }
        self.outcomes.clear();
        self.tell();
    }

    /// When [`tick`](Self::tick) is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        [self.shard.deadline(), self.prober.deadline()].into_iter().flatten().min()
    }

    /// Addresses by slot, those of former members included.
    pub(in super::super) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.topology.nodes().iter().map(|node| node.address)
    }

    /// The slot of the node at an address.
    pub(in super::super) fn slot_at(&self, address: SocketAddr) -> Option<Slot> {
        self.topology.slot_at(address)
    }

    /// Whether a node may be given a new call; a node that rests may, if all do.
    pub(in super::super) fn may_take_calls(&self, slot: Slot) -> bool {
        let node = &self.cluster.nodes()[slot.index()];
        node.member && node.reachable && !node.draining
    }

    /// Whether probes reach a node, as far as this process knows.
    pub(in super::super) fn is_reachable(&self, slot: Slot) -> bool {
        self.cluster.nodes()[slot.index()].reachable
    }
}
