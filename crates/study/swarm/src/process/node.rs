//! A process of a site: its shards, and beside them the control plane, which the server runs as well.

use super::scaling::Scaling;
use super::settings::settings;
use super::{Shown, ports};
use crate::plan::{OverloadPlan, SiteRole, probe_address};
use crate::{Sent, SitePlan};
use ::node::{ProxyReport, Question, Setup, Shard, ShardEvent, ShardIdentity, ShardInput, StoreAnswer};
use balance::{Health, Load, Node, Slot, TableCounts};
use base::{Flow, Instant, Outbox, Peer, Transport};
use control::{Control, ControlEffect, ControlInput, Drainer, Drains};
use core::time::Duration;
use dialog::CallRecord;
use overload::MessageClass;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A multiplier that spreads neighbouring numbers over 64 bits: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// What the process of a balancer shows of its state, all shards together.
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
    /// Calls that wait in queues.
    pub waiting: usize,
    /// What is held by those that are forwarded with a transaction.
    pub report: ProxyReport,
    /// Members, and who drains them.
    pub drains: Vec<(SocketAddr, Drains)>,
    /// How many limits of members keep a new call from them now.
    pub limits: usize,
}

pub(crate) struct Process {
    pub(super) shards: Vec<Shard>,
    is_proxy: bool,
    pub(super) control: Control<fn(Peer) -> Option<Flow>>,
    /// Of a balancer that starts and stops its servers.
    pub(super) scaling: Option<Scaling>,
    events: Outbox<ShardEvent>,
    effects: Outbox<ControlEffect>,
    /// Questions to stores that nobody has taken; of a registrar, which has one shard.
    asked: Vec<Question>,
    /// What carries all messages.
    transport: Transport,
    /// Records that nobody has taken.
    written: Vec<CallRecord>,
    /// When it last did anything.
    now: Instant,
    /// When its threads have more work than time.
    overload: OverloadPlan,
    /// How long a thread has been busy in all, and up to when that was counted.
    busy: (Duration, Instant),
}

impl Process {
    /// The process of this number, of this site, with the configuration and the key of the moment. `life` counts its
    /// starts.
    pub(crate) fn start(
        now: Instant,
        plan: &SitePlan,
        site: u16,
        (key, transport): (u8, Transport),
        (process, life): (u16, u64),
    ) -> Self {
        let id = u64::from(process) << 32 | life;
        let mut effects = Outbox::default();
        let egress: fn(Peer) -> Option<Flow> =
            |Peer { transport, address }| Some(Flow { transport, ..Flow::udp(0, address) });
        let probes = (u128::from(id).to_be_bytes(), [Some(probe_address(process)), None]);
        let settings = settings(&plan.role, site, key, transport);
        let own = ports(site, transport);
        let control = Control::new(now, settings, own, egress, probes, &mut effects);
        effects.clear();
        let setup = Arc::clone(control.setup());
        let (count, timers) = match &plan.role {
            SiteRole::Home(plan) => (1, plan.timers),
            SiteRole::Balancer(file) | SiteRole::Proxy(file) | SiteRole::Mixed(file) => {
                (usize::from(file.shards), file.timers)
            }
        };
        let shard = |number: usize| {
            // What the server draws at random differs from process to process: branches of another one mean nothing
            // to it.
            let mut secret = [0; 16];
            secret[..2].copy_from_slice(&site.to_be_bytes());
            secret[2..4].copy_from_slice(&(number as u16).to_be_bytes());
            secret[8..].copy_from_slice(&id.to_be_bytes());
            let serial = u64::from(process) << 48 | life << 40 | (number as u64) << 32;
            let only = ShardIdentity::only(secret, serial);
            let identity = ShardIdentity { shard: number, shards: count, timers, ..only };
            Shard::new(identity, &setup)
        };
        let shards = (0..count).map(shard).collect();
        let is_proxy = matches!(plan.role, SiteRole::Proxy(_) | SiteRole::Home(_));
        let (events, asked, written) = (Outbox::default(), Vec::new(), Vec::new());
        let scaling = plan.role.file().and_then(|file| Scaling::renewed(None, now, file));
        let overload = plan.role.file().map(|file| file.overload.clone()).unwrap_or_default();
        let busy = (Duration::ZERO, now);
        Self {
            shards,
            is_proxy,
            control,
            scaling,
            events,
            effects,
            asked,
            transport,
            written,
            now,
            overload,
            busy,
        }
    }

    /// Reads another configuration, as the server does on reload.
    pub(crate) fn reload(&mut self, now: Instant, role: &SiteRole, site: u16, key: u8) {
        let settings = Box::new(settings(role, site, key, self.transport));
        self.tell(now, ControlInput::Settings { settings, is_other_resolver: false });
        let file = role.file();
        self.scaling = file.and_then(|file| Scaling::renewed(self.scaling.take(), now, file));
        self.overload = file.map(|file| file.overload.clone()).unwrap_or_default();
    }

    /// The control plane hears of something, and what it decides is done.
    pub(super) fn tell(&mut self, now: Instant, input: ControlInput<'_>) {
        self.control.handle(now, input, &mut self.effects);
        self.carry_out(now);
    }

    fn carry_out(&mut self, now: Instant) {
        let effects: Vec<_> = self.effects.drain_events().collect();
        self.effects.clear();
        for effect in effects {
            match effect {
                ControlEffect::SetUp(setup) => self.set_up(now, &setup),
                ControlEffect::AskSlotsInUse => {
                    let used = self.slots_in_use();
                    self.tell(now, ControlInput::SlotsInUse(Some(used)));
                }
                // Nobody reads a log here, and there is one process at a time that a site's calls are shown to.
                _ => {}
            }
        }
    }

    fn set_up(&mut self, now: Instant, setup: &Arc<Setup>) {
        for shard in &mut self.shards {
            shard.handle(now, ShardInput::SetUp(setup), &mut self.events);
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

    /// Takes a member of a balancer out of service, or back. Returns whether there is such a member.
    pub(crate) fn drain(&mut self, address: SocketAddr, draining: bool) -> bool {
        let slot = self.slot_at(address).filter(|_| !self.is_proxy);
        if let Some(slot) = slot {
            self.tell(self.now, ControlInput::Drain { slot, by: Drainer::Operator, draining });
        }
        slot.is_some()
    }

    /// The shard whose socket gets a datagram from this address, as the kernel spreads them, and that which owns its
    /// call.
    pub(crate) fn shards(&self, from: SocketAddr, bytes: &[u8]) -> (usize, usize) {
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
        let of_others = |slot: Slot| {
            let load = |other: usize| self.shards[other].balancer().load(slot).own;
            let others = (0..self.shards.len()).filter(|&other| other != number).map(load);
            others.fold(Load::default(), |sum, load| sum + load)
        };
        let others: Vec<_> = (0..self.control.nodes().len() as u16).map(Slot).map(of_others).collect();
        self.shards[number].handle(now, ShardInput::OtherLoads(&others), &mut self.events);
        self.shards[number].handle(now, input, &mut self.events);
    }

    /// A message came in at the address that callers know, and has come to this shard.
    pub(crate) fn datagram(&mut self, now: Instant, shard: usize, flow: Flow, bytes: &[u8]) -> Vec<Sent> {
        let waited = self.overload.wait(now);
        let class = MessageClass::NewInvite;
        self.run(now, shard, ShardInput::Waited { waited, queue: 0, class });
        self.run(now, shard, ShardInput::Message { flow, bytes });
        let sent = Sent::all(&self.events);
        self.heed(now);
        sent
    }

    /// Does what is due. Returns what it sends as an element, and its probes.
    pub(crate) fn tick(&mut self, now: Instant) -> (Vec<Sent>, Vec<Sent>) {
        let (busy, since) = &mut self.busy;
        // A thread that has time is busy for a tenth of it.
        let rests = if self.overload.wait(now).is_zero() { 10 } else { 1 };
        (*busy, *since) = (*busy + now.saturating_since(*since) / rests, now);
        let busy = *busy;
        for shard in 0..self.shards.len() {
            if self.shards[shard].busy_deadline().is_some_and(|due| due <= now) {
                self.run(now, shard, ShardInput::Busy(busy));
            }
            self.run(now, shard, ShardInput::Timer);
        }
        let sent = Sent::all(&self.events);
        self.heed(now);
        self.control.handle(now, ControlInput::Timer, &mut self.effects);
        let probes = Sent::all(&self.effects);
        self.carry_out(now);
        (sent, probes)
    }

    /// The records that the last step has brought.
    pub(crate) fn written(&mut self) -> Vec<CallRecord> {
        core::mem::take(&mut self.written)
    }

    /// What stores are asked.
    pub(crate) fn questions(&mut self) -> Vec<Question> {
        core::mem::take(&mut self.asked)
    }

    /// A store has answered the question of this number.
    pub(crate) fn answered(&mut self, now: Instant, number: u64, answer: StoreAnswer) -> Vec<Sent> {
        self.now = now;
        let input = ShardInput::Answer { number, answer: Box::new(answer) };
        self.shards[0].handle(now, input, &mut self.events);
        let sent = Sent::all(&self.events);
        self.heed(now);
        sent
    }

    /// A period of this length is over, for which part of it the process was busy; of one that shares out the state
    /// of calls.
    pub(crate) fn period(&mut self, now: Instant, length: Duration, utilisation: f64) {
        for number in 0..self.shards.len() {
            self.run(now, number, ShardInput::Period { length, utilisation });
        }
        self.heed(now);
    }

    /// Monitors beside its nodes say what these can take, calls a second; some say nothing.
    pub(crate) fn announced(&mut self, now: Instant, mut says: impl FnMut() -> Option<f64>) {
        for slot in (0..self.control.nodes().len() as u16).map(Slot) {
            let Some(capacity) = says() else { continue };
            for number in 0..self.shards.len() {
                self.run(now, number, ShardInput::Capacity { slot, capacity });
            }
        }
        self.heed(now);
    }

    /// A datagram came in at the address that probes leave from.
    pub(crate) fn probe_answer(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        self.tell(now, ControlInput::ProbeMessage { from: Peer::new(self.transport, from), bytes });
    }

    /// The network said that what began with `quoted` did not arrive there; `says_of_peer`: because nobody is there.
    pub(crate) fn unreachable(
        &mut self,
        now: Instant,
        (to, says_of_peer): (Flow, bool),
        was_probe: bool,
        quoted: &[u8],
    ) -> Vec<Sent> {
        if was_probe {
            if says_of_peer {
                self.tell(now, ControlInput::ProbeRefused { by: to.remote(), quoted });
            }
            return Vec::new();
        }
        for shard in &mut self.shards {
            shard.handle(now, ShardInput::Unreachable { to, quoted }, &mut self.events);
        }
        let sent = Sent::all(&self.events);
        self.heed(now);
        if says_of_peer {
            self.tell(now, ControlInput::Unreachable(to.remote()));
        }
        sent
    }

    /// What the shards tell the control plane.
    fn heed(&mut self, now: Instant) {
        let events: Vec<_> = self.events.drain_events().collect();
        self.events.clear();
        for event in events {
            match event {
                ShardEvent::LookUp(name) => {
                    unreachable!("everybody in here is known by address, not as {name}")
                }
                ShardEvent::Ask(question) => self.asked.push(*question),
                ShardEvent::Record(record) => self.written.push(*record),
                event => self.tell(now, ControlInput::Shard(event)),
            }
        }
    }

    /// When [`tick`](Self::tick) is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let shards = self.shards.iter().filter_map(Shard::deadline);
        let busy = self.shards.iter().filter_map(Shard::busy_deadline);
        shards.chain(busy).chain([self.control.deadline()]).min()
    }

    /// What it shows of itself.
    pub(crate) fn shown(&self) -> Shown {
        if self.is_proxy {
            let deadline = self.shards.iter().filter_map(Shard::deadline).min();
            Shown::Proxy { report: self.report(), deadline }
        } else {
            Shown::Balancer(self.state())
        }
    }

    /// What there is to do with transactions.
    fn report(&self) -> ProxyReport {
        let mut report = ProxyReport::default();
        self.shards.iter().filter_map(Shard::proxy_report).for_each(|shard| report.merge(&shard));
        report
    }

    fn drains(&self) -> Vec<(SocketAddr, Drains)> {
        let members = self.control.listed().into_iter().filter(|member| member.node.member);
        members.map(|member| (member.peer.address, member.drains)).collect()
    }

    fn state(&self) -> BalancerState {
        let nodes = self.control.nodes().len();
        let mut state = BalancerState {
            audit: Ok(()),
            loads: vec![Load::default(); nodes],
            calls: vec![0; nodes],
            sessions: 0,
            counts: TableCounts::default(),
            transactions: 0,
            waiting: self
                .shards
                .iter()
                .flat_map(Shard::queue_reports)
                .flatten()
                .map(|queue| queue.waiting)
                .sum(),
            report: self.report(),
            drains: self.drains(),
            limits: 0,
        };
        for shard in &self.shards {
            let balancer = shard.balancer();
            state.audit = state.audit.and(shard.audit());
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
            let rooms = (0..nodes as u16).filter_map(|slot| balancer.room(self.now, Slot(slot)));
            state.limits += rooms.filter(|room| room.refusal.is_some()).count();
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
        self.control.setup().topology.slot_at(Peer::new(self.transport, address))
    }

    /// Whether a node may be given a new call; a node that pauses may, if all do. One that is dead for silence alone
    /// may if none lives, and now and then if it never answered a probe.
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
