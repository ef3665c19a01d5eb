//! A balancer's process: its shards, and beside them what the server's control task does with membership and health.

use super::super::plan::{BalancerPlan, probe_address};
use super::{EPOCH_UNIX, taken, tokens, topology};
use balance::policy::by_name;
use balance::{Balancer, Cluster, Health, Load, Member, Node, Policy, Slot, TableCounts};
use base::{Flow, Instant, Outbox, Transport};
use node::fuzz::Sent;
use node::{Event, Input, Orphans, Outcome, Prober, Settings, Shard, Topology, node_id};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A multiplier that spreads neighbouring numbers over 64 bits: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

fn policy(config: &BalancerPlan, shard: u16) -> Box<dyn Policy> {
    by_name(config.policy, usize::from(shard)).expect("a plan names policies that there are")
}

/// What a balancer's process shows of its books, all shards together.
#[derive(Clone, Debug)]
pub struct Books {
    /// Whether each load is the sum of its leases, as the shards themselves find.
    pub audit: Result<(), String>,
    /// What each node is counted to have, by slot.
    pub loads: Vec<Load>,
    /// How many sessions that are calls each node has.
    pub calls: Vec<u32>,
    /// How many sessions there are.
    pub sessions: usize,
    /// How many are counted.
    pub counts: TableCounts,
    /// Open transactions.
    pub transactions: usize,
}

pub(in super::super) struct BalancerProcess {
    config: BalancerPlan,
    key: u8,
    shards: Vec<Shard>,
    cluster: Cluster,
    prober: Prober,
    topology: Arc<Topology>,
    /// Version of the cluster that the shard has.
    told: u64,
    events: Outbox<Event>,
    outcomes: Outbox<Outcome>,
    /// When it last did anything.
    now: Instant,
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
        let settings = Settings {
            orphans: Orphans::Reject,
            epoch_unix: EPOCH_UNIX,
            stopping: None,
            tell_failures: false,
        };
        let shard = |number| {
            let mut books = Balancer::new(config.books.clone(), policy(&config, number));
            books.set_peers(u32::from(config.shards) - 1);
            Shard::new(books, Arc::clone(&topology), tokens(key), settings)
        };
        let mut process = Self {
            shards: (0..config.shards).map(shard).collect(),
            cluster: Cluster::new(config.health),
            prober: Prober::new(
                config.probes,
                u128::from(id).to_be_bytes(),
                [Some(probe_address(process)), None],
            ),
            config,
            key,
            topology,
            told: 0,
            events: Outbox::default(),
            outcomes: Outbox::default(),
            now,
        };
        process.set_members(now);
        process.tell();
        process
    }

    pub(super) fn reload(&mut self, now: Instant, config: &BalancerPlan, key: u8) {
        let before = core::mem::replace(&mut self.config, config.clone());
        self.cluster.set_settings(config.health);
        self.prober.set_settings(config.probes);
        let is_rekeyed = core::mem::replace(&mut self.key, key) != key;
        for (number, shard) in (0..).zip(&mut self.shards) {
            shard.balancer_mut().set_settings(config.books.clone());
            if before.policy != config.policy {
                shard.balancer_mut().set_policy(policy(config, number));
            }
            if is_rekeyed {
                shard.set_tokens(&tokens(key));
            }
        }
        self.set_members(now);
        self.tell();
    }

    fn set_members(&mut self, now: Instant) {
        let member = |member: &super::super::Member| Member {
            id: node_id(Transport::Udp, member.party.address()),
            capacity: member.capacity,
            max_calls: 0,
        };
        let members: Vec<_> = self.config.members.iter().map(member).collect();
        self.cluster.set_members(now, &members);
        let mut topology = Topology::clone(&self.topology);
        for member in &self.config.members {
            let address = member.party.address();
            if topology.slot_at(address).is_none() {
                topology.push_node(Flow::udp(0, address));
            }
        }
        self.topology = Arc::new(topology);
        let all = (0..).map(Slot).zip(self.cluster.nodes().iter().zip(self.topology.nodes()));
        let asked = all.filter(|(_, (node, _))| node.member);
        let targets: Vec<_> = asked.map(|(slot, (_, node))| (slot, node.peer)).collect();
        self.prober.set_targets(now, &targets);
    }

    /// Carries out what the cluster has decided: probes, and the nodes and their addresses as one value for the shards,
    /// whenever anything about them changed.
    fn tell(&mut self) {
        self.cluster.drain_effects().for_each(|effect| self.prober.carry_out(effect));
        if self.told != self.cluster.version() {
            self.told = self.cluster.version();
            for shard in &mut self.shards {
                shard.set_topology(Arc::clone(&self.topology));
                shard.balancer_mut().set_nodes(self.cluster.nodes());
            }
        }
    }

    /// Takes a member out of service, or back.
    pub(in super::super) fn drain(&mut self, address: SocketAddr, draining: bool) {
        if let Some(slot) = self.topology.slot_at(address) {
            self.cluster.drain(slot, draining);
            self.tell();
        }
    }

    /// The shard whose socket gets a datagram from this address, as the kernel spreads them, and that which owns its call.
    pub(super) fn shards(&self, from: SocketAddr, bytes: &[u8]) -> (usize, usize) {
        let count = self.shards.len();
        let host = if let IpAddr::V4(ip) = from.ip() { u64::from(ip.to_bits()) } else { 0 };
        let hash = (host << 16 | u64::from(from.port())).wrapping_mul(SPREAD) >> 32;
        let gets = hash as usize % count;
        (gets, self.owner(bytes).unwrap_or(gets))
    }

    /// The shard that owns the call of a datagram, if it has one.
    pub(in super::super) fn owner(&self, datagram: &[u8]) -> Option<usize> {
        self.shards[0].tokens().shard_of(datagram, self.shards.len())
    }

    /// The shards that have this call in their tables.
    pub(in super::super) fn shards_with(&self, call_id: &[u8]) -> impl Iterator<Item = usize> {
        let call = self.shards[0].tokens().call_key(call_id);
        let there = move |shard: &Shard| {
            let mut there = false;
            shard
                .balancer()
                .sessions(0, usize::MAX, |session| there |= session.key.call_id() == call.call_id());
            there
        };
        self.shards.iter().enumerate().filter(move |(_, shard)| there(shard)).map(|(number, _)| number)
    }

    /// The shards read each other's loads before they work, as they do live from their common board.
    fn run(&mut self, now: Instant, number: usize, input: Input<'_>) {
        self.now = now;
        for slot in (0..self.cluster.nodes().len() as u16).map(Slot) {
            let load = |other: usize| self.shards[other].balancer().load(slot).own;
            let others = (0..self.shards.len()).filter(|&other| other != number).map(load);
            let sum = others.fold(Load::default(), |sum, load| sum + load);
            self.shards[number].balancer_mut().set_others(slot, sum);
        }
        self.shards[number].handle(now, input, &mut self.events);
    }

    /// A datagram came in at the address that callers know, and has come to this shard.
    pub(super) fn datagram(
        &mut self,
        now: Instant,
        shard: usize,
        from: SocketAddr,
        bytes: &[u8],
    ) -> Vec<Sent> {
        self.run(now, shard, Input::Message { flow: Flow::udp(0, from), bytes });
        let sent = taken(&self.events);
        self.heed(now);
        sent
    }

    /// Does what is due. Returns what it sends as an element, and its probes.
    pub(super) fn tick(&mut self, now: Instant) -> (Vec<Sent>, Vec<Sent>) {
        for shard in 0..self.shards.len() {
            self.run(now, shard, Input::Timer);
        }
        let sent = taken(&self.events);
        self.heed(now);
        self.prober.tick(now, &mut self.outcomes);
        let probes = taken(&self.outcomes);
        self.judge(now);
        (sent, probes)
    }

    /// A datagram came in at the address that probes leave from.
    pub(in super::super) fn probe_answer(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        self.prober.receive(from, bytes, &mut self.outcomes);
        self.judge(now);
    }

    /// The network said that nobody listens at this address, to which what began with `quoted` was sent.
    pub(super) fn unreachable(&mut self, now: Instant, address: SocketAddr, was_probe: bool, quoted: &[u8]) {
        if was_probe {
            self.prober.unreachable(now, address, quoted, &mut self.outcomes);
            self.judge(now);
        } else if let Some(slot) = self.topology.slot_at(address) {
            self.cluster.suspect(now, slot);
            self.tell();
        }
    }

    /// What the traffic says about the health of nodes.
    fn heed(&mut self, now: Instant) {
        for event in self.events.drain_events() {
            match event {
                Event::Sign(sign) => self.cluster.sign(now, sign),
                Event::NoServer(_) => self.cluster.none_took(now),
                Event::Failed(_) | Event::NoRoom(_) | Event::HopFailed(_) => {}
                Event::LookUp(name) => unreachable!("everybody in here is known by address, not as {name}"),
            }
        }
        self.events.clear();
        self.tell();
    }

    /// What probes say.
    fn judge(&mut self, now: Instant) {
        for outcome in self.outcomes.drain_events() {
            outcome.apply(now, &mut self.cluster);
        }
        self.outcomes.clear();
        self.tell();
    }

    /// When [`tick`](Self::tick) is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.shards.iter().map(Shard::deadline).chain([self.prober.deadline()]).flatten().min()
    }

    /// What it shows of its books.
    pub(super) fn books(&self) -> Books {
        let nodes = self.cluster.nodes().len();
        let mut books = Books {
            audit: Ok(()),
            loads: vec![Load::default(); nodes],
            calls: vec![0; nodes],
            sessions: 0,
            counts: TableCounts::default(),
            transactions: 0,
        };
        for balancer in self.shards.iter().map(Shard::balancer) {
            books.audit = books.audit.and(balancer.audit());
            for (slot, load) in (0..).map(Slot).zip(&mut books.loads) {
                *load += balancer.load(slot).own;
            }
            balancer.sessions(0, usize::MAX, |session| {
                books.calls[session.slot.index()] += u32::from(session.is_call);
                books.sessions += 1;
            });
            let TableCounts { active, expired } = balancer.counts();
            books.counts.active += active;
            books.counts.expired += expired;
            books.transactions += balancer.open_transactions();
        }
        books
    }

    /// Addresses by slot, and whether each is a member's or a former one's.
    pub(in super::super) fn addresses(&self) -> impl Iterator<Item = (SocketAddr, bool)> {
        let nodes = self.topology.nodes().iter().zip(self.cluster.nodes());
        nodes.map(|(node, state)| (node.peer, state.member))
    }

    /// The slot of the node at an address.
    pub(in super::super) fn slot_at(&self, address: SocketAddr) -> Option<Slot> {
        self.topology.slot_at(address)
    }

    /// Whether a node may be given a new call; a node that rests may, if all do. One that is dead for silence alone may if
    /// none lives, and now and then if it never answered a probe.
    pub(in super::super) fn may_take_calls(&self, slot: Slot) -> bool {
        let nodes = self.cluster.nodes();
        let (node, serves) = (&nodes[slot.index()], |node: &Node| node.member && !node.draining);
        let none_lives = || !nodes.iter().any(|node| serves(node) && node.is_up());
        serves(node)
            && match node.health {
                Health::Up => true,
                Health::Silent => node.is_on_trial() || node.is_expected(self.now) || none_lives(),
                Health::Closed => false,
            }
    }

    /// Whether a node lives, as far as this process knows.
    pub(in super::super) fn is_up(&self, slot: Slot) -> bool {
        self.cluster.nodes()[slot.index()].is_up()
    }
}
