//! A balancer's process: its shards, and beside them the control plane, which the server runs as well.

use super::{EPOCH_UNIX, TOKEN_LIFETIME, listeners, taken, tokens};
use crate::Sent;
use crate::plan::{BalancerPlan, probe_address};
use balance::{Balancer, Health, Load, Node, Policy, PoolId, Slot, TableCounts};
use base::{Flow, Instant, Outbox};
use control::{Address, Control, ControlEffect, ControlInput, ControlSettings, MemberSettings, PoolSettings};
use core::time::Duration;
use node::{Orphans, PoolMode, ProxyLimits, Routes, Setup, Shard, ShardEvent, ShardInput};
use route::{Choice, Failover, Pools, RateSettings, Rule, Table, Target};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A multiplier that spreads neighbouring numbers over 64 bits: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

fn policy(setup: &Setup, (shard, shards): (usize, usize)) -> Box<dyn Policy> {
    let pool = setup.pools.first().expect("a balancer has a pool");
    pool.policy.make(pool.first_turn(shard, shards))
}

/// What a balancer's process shows of its state, all shards together.
#[derive(Clone, Debug)]
pub struct BalancerState {
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

pub(crate) struct BalancerProcess {
    shards: Vec<Shard>,
    control: Control<fn(SocketAddr) -> Option<Flow>>,
    events: Outbox<ShardEvent>,
    effects: Outbox<ControlEffect>,
    /// When it last did anything.
    now: Instant,
}

/// One pool needs no routes; to several, one leads.
fn routes(pools: u16) -> Routes {
    let choice = |pool| Choice { pool, priority: 1, weight: 1.0 };
    let pools = Pools { choices: (0..pools).map(choice).collect(), failover: Failover::default() };
    let rule = Rule { name: "spread".to_owned(), target: Target::Pools(pools.clone()), ..Rule::default() };
    let rules = if pools.choices.len() > 1 { vec![rule] } else { Vec::new() };
    Routes { table: Table::new(rules, &[]), access: Vec::new() }
}

/// What the configuration of a balancer says to its control plane.
fn settings(config: &BalancerPlan, key: u8) -> ControlSettings {
    let member = |(index, member): (usize, &crate::PlannedMember)| MemberSettings {
        address: Address::Socket(member.destination.address()),
        capacity: member.capacity,
        max_calls: 0,
        pool: PoolId(index as u16 % config.pools),
    };
    let pool = |number: u16| PoolSettings {
        name: format!("pool-{number}"),
        mode: PoolMode::default(),
        policy: config.policy,
        health: config.health,
        probes: config.probes,
    };
    // Each shard keeps as many sessions as the plan says.
    let max_sessions = config.sessions.max_sessions.saturating_mul(config.shards.into());
    ControlSettings {
        pools: (0..config.pools).map(pool).collect(),
        members: config.members.iter().enumerate().map(member).collect(),
        sessions: balance::SessionSettings { max_sessions, ..config.sessions.clone() },
        routes: Arc::new(routes(config.pools)),
        rates: RateSettings::default(),
        orphans: Orphans::Reject,
        limits: ProxyLimits::default(),
        own_names: Vec::new(),
        tokens: Arc::new(tokens(key)),
        token_lifetime: TOKEN_LIFETIME,
        epoch_unix: EPOCH_UNIX,
        tell_failures: false,
        // Everybody in here is known by address.
        refresh: Duration::MAX,
        stop_wait: Duration::MAX,
    }
}

impl BalancerProcess {
    /// `id` differs from process to process and from start to start.
    pub(super) fn start(
        now: Instant,
        config: &BalancerPlan,
        site: u16,
        key: u8,
        (process, id): (u16, u64),
    ) -> Self {
        let mut effects = Outbox::default();
        let egress: fn(SocketAddr) -> Option<Flow> = |peer| Some(Flow::udp(0, peer));
        let probes = (u128::from(id).to_be_bytes(), [Some(probe_address(process)), None]);
        let control = Control::new(now, settings(config, key), listeners(site), egress, probes, &mut effects);
        effects.clear();
        let setup = Arc::clone(control.setup());
        let count = usize::from(config.shards);
        let shard = |number| {
            let mut balancer = Balancer::new(config.sessions.clone(), policy(&setup, (number, count)));
            balancer.set_peers(u32::from(config.shards) - 1);
            let tokens = setup.tokens.as_ref().clone();
            let mut shard = Shard::pool(balancer, Arc::clone(&setup.topology), tokens, setup.settings);
            shard.set_up(&setup, (number, count));
            shard
        };
        let shards = (0..count).map(shard).collect();
        Self { shards, control, events: Outbox::default(), effects, now }
    }

    pub(super) fn reload(&mut self, now: Instant, config: &BalancerPlan, key: u8) {
        let settings = Box::new(settings(config, key));
        self.tell(now, ControlInput::Settings { settings, is_other_resolver: false });
    }

    /// The control plane hears of something, and what it decides is done.
    fn tell(&mut self, now: Instant, input: ControlInput<'_>) {
        self.control.handle(now, input, &mut self.effects);
        self.carry_out(now);
    }

    fn carry_out(&mut self, now: Instant) {
        let effects: Vec<_> = self.effects.drain_events().collect();
        self.effects.clear();
        for effect in effects {
            match effect {
                ControlEffect::SetUp(setup) => self.set_up(&setup),
                ControlEffect::AskSlotsInUse => {
                    let used = self.slots_in_use();
                    self.tell(now, ControlInput::SlotsInUse(Some(used)));
                }
                // Nobody reads a log here, and there is one process at a time that a site's calls are shown to.
                _ => {}
            }
        }
    }

    fn set_up(&mut self, setup: &Arc<Setup>) {
        let count = self.shards.len();
        for (number, shard) in self.shards.iter_mut().enumerate() {
            shard.set_up(setup, (number, count));
        }
    }

    /// Of each slot, whether a shard has a session or a lease there.
    fn slots_in_use(&self) -> Vec<bool> {
        let state = self.state();
        let mut used: Vec<_> = state.loads.iter().map(|load| *load != Load::default()).collect();
        for shard in &self.shards {
            shard.balancer().sessions(0, usize::MAX, |session| used[session.slot.index()] = true);
        }
        used
    }

    /// Takes a member out of service, or back.
    pub(crate) fn drain(&mut self, address: SocketAddr, draining: bool) {
        if let Some(slot) = self.slot_at(address) {
            self.tell(self.now, ControlInput::Drain { slot, draining });
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
    pub(crate) fn owner(&self, datagram: &[u8]) -> Option<usize> {
        self.shards[0].tokens().shard_of(datagram, self.shards.len())
    }

    /// The shards that have this call in their tables.
    pub(crate) fn shards_with(&self, call_id: &[u8]) -> impl Iterator<Item = usize> {
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
    fn run(&mut self, now: Instant, number: usize, input: ShardInput<'_>) {
        self.now = now;
        for slot in (0..self.control.nodes().len() as u16).map(Slot) {
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
        self.run(now, shard, ShardInput::Message { flow: Flow::udp(0, from), bytes });
        let sent = taken(&self.events);
        self.heed(now);
        sent
    }

    /// Does what is due. Returns what it sends as an element, and its probes.
    pub(super) fn tick(&mut self, now: Instant) -> (Vec<Sent>, Vec<Sent>) {
        for shard in 0..self.shards.len() {
            self.run(now, shard, ShardInput::Timer);
        }
        let sent = taken(&self.events);
        self.heed(now);
        self.control.handle(now, ControlInput::Timer, &mut self.effects);
        let probes = taken(&self.effects);
        self.carry_out(now);
        (sent, probes)
    }

    /// A datagram came in at the address that probes leave from.
    pub(crate) fn probe_answer(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        self.tell(now, ControlInput::ProbeDatagram { from, bytes });
    }

    /// The network said that nobody listens at this address, to which what began with `quoted` was sent.
    pub(super) fn unreachable(&mut self, now: Instant, address: SocketAddr, was_probe: bool, quoted: &[u8]) {
        self.tell(
            now,
            if was_probe {
                ControlInput::ProbeRefused { address, quoted }
            } else {
                ControlInput::Unreachable(address)
            },
        );
    }

    /// What the shards tell the control plane.
    fn heed(&mut self, now: Instant) {
        let events: Vec<_> = self.events.drain_events().collect();
        self.events.clear();
        for event in events {
            if let ShardEvent::LookUp(name) = &event {
                unreachable!("everybody in here is known by address, not as {name}");
            }
            self.tell(now, ControlInput::Shard(event));
        }
    }

    /// When [`tick`](Self::tick) is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let shards = self.shards.iter().filter_map(Shard::deadline);
        shards.chain([self.control.deadline()]).min()
    }

    /// What it shows of its state.
    pub(super) fn state(&self) -> BalancerState {
        let nodes = self.control.nodes().len();
        let mut state = BalancerState {
            audit: Ok(()),
            loads: vec![Load::default(); nodes],
            calls: vec![0; nodes],
            sessions: 0,
            counts: TableCounts::default(),
            transactions: 0,
        };
        for balancer in self.shards.iter().map(Shard::balancer) {
            state.audit = state.audit.and(balancer.audit());
            for (slot, load) in (0..).map(Slot).zip(&mut state.loads) {
                *load += balancer.load(slot).own;
            }
            balancer.sessions(0, usize::MAX, |session| {
                state.calls[session.slot.index()] += u32::from(session.is_call);
                state.sessions += 1;
            });
            let TableCounts { active, expired } = balancer.counts();
            state.counts.active += active;
            state.counts.expired += expired;
            state.transactions += balancer.open_transactions();
        }
        state
    }

    /// Addresses by slot, and whether each is a member's or a former one's.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (SocketAddr, bool)> {
        let nodes = self.control.setup().topology.nodes().iter().zip(self.control.nodes());
        nodes.map(|(node, state)| (node.peer, state.member))
    }

    /// The slot of the node at an address.
    pub(crate) fn slot_at(&self, address: SocketAddr) -> Option<Slot> {
        self.control.setup().topology.slot_at(address)
    }

    /// Whether a node may be given a new call; a node that pauses may, if all do. One that is dead for silence alone may if
    /// none lives, and now and then if it never answered a probe.
    pub(crate) fn may_take_calls(&self, slot: Slot) -> bool {
        let nodes = self.control.nodes();
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
    pub(crate) fn is_up(&self, slot: Slot) -> bool {
        self.control.nodes()[slot.index()].is_up()
    }
}
