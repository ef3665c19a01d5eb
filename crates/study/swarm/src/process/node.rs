//! A process of a site: its shards and its control plane.

use super::scaling::Scaling;
use super::settings::settings;
use super::{Shown, ports};
use crate::plan::{OverloadPlan, SiteRole, probe_address};
use crate::{Sent, SitePlan};
use ::node::{ProxyReport, Setup, Shard, ShardEvent, ShardIdentity, ShardInput, StoreAnswer, StoreQuestion};
use balance::{Health, Load, Node, Slot, TableCounts};
use base::{Flow, Instant, Outbox, Peer, Transport};
use control::{Control, ControlEffect, ControlInput, Drainer, Drains};
use core::time::Duration;
use dialog::CallRecord;
use overload::MessageClass;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Multiplier that spreads neighbouring numbers over 64 bits: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// State of a balancer's process, all shards together.
#[derive(Clone, Debug)]
pub struct BalancerState {
    /// Whether each load is the sum of its leases, as the shards' own audit finds.
    pub audit: Result<(), String>,
    /// Load of each node, by slot.
    pub loads: Vec<Load>,
    /// Sessions of calls of each node, by slot.
    pub calls: Vec<u32>,
    /// Number of sessions.
    pub sessions: usize,
    /// Counts of the session table.
    pub counts: TableCounts,
    /// Open transactions.
    pub transactions: usize,
    /// Calls that wait in queues.
    pub waiting: usize,
    /// Memory and counts of requests forwarded with a transaction.
    pub report: ProxyReport,
    /// Members, each with its drains.
    pub drains: Vec<(SocketAddr, Drains)>,
    /// Number of members whose limit refuses a new call now.
    pub limits: usize,
}

pub(crate) struct Process {
    pub(super) shards: Vec<Shard>,
    is_proxy: bool,
    pub(super) control: Control<fn(Peer) -> Option<Flow>>,
    /// Scaling, if the balancer starts and stops its servers.
    pub(super) scaling: Option<Scaling>,
    events: Outbox<ShardEvent>,
    effects: Outbox<ControlEffect>,
    /// Questions to stores that have not been taken. Only a registrar has questions, and it has one shard.
    questions: Vec<StoreQuestion>,
    /// Transport of all messages.
    transport: Transport,
    /// Records that have not been taken.
    written: Vec<CallRecord>,
    /// Time of the last input.
    now: Instant,
    /// When its threads are overloaded.
    overload: OverloadPlan,
    /// Total busy time of a thread, and the time up to which it was counted.
    busy: (Duration, Instant),
}

impl Process {
    /// Starts a process of this site with the current configuration and key. `life` counts its starts.
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
            // The random numbers of the server differ between processes. A process therefore ignores branches of
            // another one.
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
        let (events, questions, written) = (Outbox::default(), Vec::new(), Vec::new());
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
            questions,
            transport,
            written,
            now,
            overload,
            busy,
        }
    }

    /// Loads another configuration, as the server does on reload.
    pub(crate) fn reload(&mut self, now: Instant, role: &SiteRole, site: u16, key: u8) {
        let settings = Box::new(settings(role, site, key, self.transport));
        self.tell(now, ControlInput::Settings { settings, is_other_resolver: false });
        let file = role.file();
        self.scaling = file.and_then(|file| Scaling::renewed(self.scaling.take(), now, file));
        self.overload = file.map(|file| file.overload.clone()).unwrap_or_default();
    }

    /// Gives an input to the control plane and carries out its effects.
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
                // There is no log here, and only one process at a time gets a site's calls.
                _ => {}
            }
        }
    }

    fn set_up(&mut self, now: Instant, setup: &Arc<Setup>) {
        for shard in &mut self.shards {
            shard.handle(now, ShardInput::SetUp(setup), &mut self.events);
        }
    }

    /// Returns, for each slot, whether a shard has a session or a lease there.
    fn slots_in_use(&self) -> Vec<bool> {
        let state = self.state();
        let mut used: Vec<_> = state.loads.iter().map(|load| *load != Load::default()).collect();
        for shard in &self.shards {
            shard.balancer().sessions(0, usize::MAX, |session| used[session.slot.index()] = true);
        }
        used
    }

    /// Drains a member of a balancer, or ends its drain. Returns false if there is no such member.
    pub(crate) fn drain(&mut self, address: SocketAddr, draining: bool) -> bool {
        let slot = self.slot_at(address).filter(|_| !self.is_proxy);
        if let Some(slot) = slot {
            self.tell(self.now, ControlInput::Drain { slot, by: Drainer::Operator, draining });
        }
        slot.is_some()
    }

    /// Returns the shard whose socket gets a datagram from this address, as the kernel spreads them, and the shard that
    /// owns its call.
    pub(crate) fn shards(&self, from: SocketAddr, bytes: &[u8]) -> (usize, usize) {
        let count = self.shards.len();
        let host = if let IpAddr::V4(ip) = from.ip() { u64::from(ip.to_bits()) } else { 0 };
        let hash = (host << 16 | u64::from(from.port())).wrapping_mul(SPREAD) >> 32;
        let gets = hash as usize % count;
        (gets, self.owner(bytes).unwrap_or(gets))
    }

    /// Returns the shard that owns the call of a datagram, if it has a call.
    pub(crate) fn owner(&self, datagram: &[u8]) -> Option<usize> {
        self.shards[0].tokens().shard_of(datagram, self.shards.len())
    }

    /// Returns the shards that have this call in their tables.
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

    /// Runs one shard. The shard first reads the loads of the other shards, as it reads them from the common board in
    /// the server.
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

    /// Handles a message to the site's address on this shard.
    pub(crate) fn datagram(&mut self, now: Instant, shard: usize, flow: Flow, bytes: &[u8]) -> Vec<Sent> {
        let waited = self.overload.wait(now);
        let class = MessageClass::NewInvite;
        self.run(now, shard, ShardInput::Waited { waited, queue: 0, class });
        self.run(now, shard, ShardInput::Message { flow, bytes });
        let sent = Sent::all(&self.events);
        self.heed(now);
        sent
    }

    /// Runs due timers. Returns the messages of the element, and the probes.
    pub(crate) fn tick(&mut self, now: Instant) -> (Vec<Sent>, Vec<Sent>) {
        let (busy, since) = &mut self.busy;
        // A thread that is not overloaded is busy for a tenth of the time.
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

    /// Takes the records written since the last call.
    pub(crate) fn written(&mut self) -> Vec<CallRecord> {
        core::mem::take(&mut self.written)
    }

    /// Takes the questions to stores.
    pub(crate) fn questions(&mut self) -> Vec<StoreQuestion> {
        core::mem::take(&mut self.questions)
    }

    /// Handles a store's answer to the question of this number.
    pub(crate) fn answered(&mut self, now: Instant, number: u64, answer: StoreAnswer) -> Vec<Sent> {
        self.now = now;
        let input = ShardInput::Answer { number, answer: Box::new(answer) };
        self.shards[0].handle(now, input, &mut self.events);
        let sent = Sent::all(&self.events);
        self.heed(now);
        sent
    }

    /// Reports to a proxy that shares call state that a period of this length has ended, with its utilisation.
    pub(crate) fn period(&mut self, now: Instant, length: Duration, utilisation: f64) {
        for number in 0..self.shards.len() {
            self.run(now, number, ShardInput::Period { length, utilisation });
        }
        self.heed(now);
    }

    /// Feeds in the capacities that monitors announce for the nodes, in calls a second. `None`: no announcement.
    pub(crate) fn announced(&mut self, now: Instant, mut capacity_of_monitor: impl FnMut() -> Option<f64>) {
        for slot in (0..self.control.nodes().len() as u16).map(Slot) {
            let Some(capacity) = capacity_of_monitor() else { continue };
            for number in 0..self.shards.len() {
                self.run(now, number, ShardInput::Capacity { slot, capacity });
            }
        }
        self.heed(now);
    }

    /// Handles a datagram to the source address of the probes.
    pub(crate) fn probe_answer(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        self.tell(now, ControlInput::ProbeMessage { from: Peer::new(self.transport, from), bytes });
    }

    /// Handles an ICMP error about the datagram that starts with `quoted`. `says_of_peer`: port unreachable.
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

    /// Passes the events of the shards to the control plane.
    fn heed(&mut self, now: Instant) {
        let events: Vec<_> = self.events.drain_events().collect();
        self.events.clear();
        for event in events {
            match event {
                ShardEvent::LookUp(name) => {
                    unreachable!("hosts of a run are known by address, not as {name}")
                }
                ShardEvent::Ask(question) => self.questions.push(*question),
                ShardEvent::Record(record) => self.written.push(*record),
                event => self.tell(now, ControlInput::Shard(event)),
            }
        }
    }

    /// Returns when [`tick`](Self::tick) is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let shards = self.shards.iter().filter_map(Shard::deadline);
        let busy = self.shards.iter().filter_map(Shard::busy_deadline);
        shards.chain(busy).chain([self.control.deadline()]).min()
    }

    /// Returns the state that it reports.
    pub(crate) fn shown(&self) -> Shown {
        if self.is_proxy {
            let deadline = self.shards.iter().filter_map(Shard::deadline).min();
            Shown::Proxy { report: self.report(), deadline }
        } else {
            Shown::Balancer(self.state())
        }
    }

    /// Returns open transactions and calls of all shards.
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

    /// Addresses of all slots. The flag says whether the node is a member now.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (SocketAddr, bool)> {
        let nodes = self.control.setup().topology.nodes().iter().zip(self.control.nodes());
        nodes.map(|(node, state)| (node.peer, state.member))
    }

    /// Returns the slot of the node at an address.
    pub(crate) fn slot_at(&self, address: SocketAddr) -> Option<Slot> {
        self.control.setup().topology.slot_at(Peer::new(self.transport, address))
    }

    /// Returns true if a node may get a new call. Paused nodes may, since they get calls if all are paused. A silent
    /// node may if no member of a pool of it is alive, for a trial call, or after another member has shown that the pool
    /// is back.
    pub(crate) fn may_take_calls(&self, slot: Slot) -> bool {
        let nodes = self.control.nodes();
        let (node, serves) = (&nodes[slot.index()], |node: &Node| node.member && !node.draining);
        let pools = &self.control.setup().pools;
        let none_lives = || {
            let mut of_it = pools.iter().filter(|pool| pool.nodes.has(slot));
            of_it.any(|pool| {
                !(0..).zip(nodes).any(|(at, node)| pool.nodes.has(Slot(at)) && serves(node) && node.is_up())
            })
        };
        serves(node)
            && match node.health {
                Health::Up => true,
                Health::Silent => node.is_on_trial() || node.is_expected(self.now) || none_lives(),
                Health::Closed => false,
            }
    }

    /// Returns true if the process takes the node to be alive.
    pub(crate) fn is_up(&self, slot: Slot) -> bool {
        self.control.nodes()[slot.index()].is_up()
    }
}
