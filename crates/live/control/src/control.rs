//! The control plane: one input, one bounded step, effects in their order.

mod failures;
mod operator;
mod stopping;
mod traffic;

pub use operator::{LISTED_MOST, ListedMember};

use crate::log::LogEntry;
use crate::membership::{Membership, MembershipEvent, ReachableMember, SlotRecord, Tenure};
use crate::messages::{ControlEffect, ControlInput};
use crate::names::{DnsQuestion, FoundAddresses, MemberName, Names};
use crate::pools::PoolNumbers;
use crate::probe::{ProbeMessages, ProbeSettings};
use crate::process::ProcessId;
use crate::questions::{QuestionId, QuestionPurpose, Questions, next_hop_answer};
use crate::settings::{ControlSettings, Egress, PoolSettings};
use balance::{HealthSettings, Load, Members, Node, NodeId, PoolId, Slot};
use base::{Flow, Instant, Outbox, Peer};
use core::time::Duration;
use failures::Failures;
use node::{AddressTable, PoolSetup, Ports, Setup, node_id};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use stopping::Stopping;

/// Interval of checks for lost calls of silent members. If no probe fails regularly, nothing else shows how long a
/// member has been silent.
const LOOK_AROUND: Duration = Duration::from_secs(10);
/// Interval of look-ups of names that were not found completely. The file or the DNS has an error, which may be
/// corrected.
const RETRY: Duration = Duration::from_secs(3);
/// Longest interval of checks for unused slots. Each check walks the session tables.
const SWEEP: Duration = Duration::from_mins(1);

/// Next times of periodic work.
#[derive(Clone, Copy, Debug)]
struct Timers {
    refresh: Instant,
    retry: Instant,
    sweep: Instant,
    look_around: Instant,
}

/// Decides apart from the traffic: membership, health, the assignment of slots, and the resulting setup of the shards.
///
/// - Setting up: [`new`](Self::new). While it [is starting](Self::is_starting), answers to its questions come first.
/// - Running: [`handle`](Self::handle), [`deadline`](Self::deadline).
/// - Reading: [`setup`](Self::setup), [`nodes`](Self::nodes), [`listed`](Self::listed), [`names`](Self::names),
///   [`meant`](Self::meant), [`is_stopping`](Self::is_stopping), [`pools`](Self::pools).
pub struct Control<E> {
    /// Settings in which members and routes name pools by their permanent numbers.
    settings: ControlSettings,
    numbers: PoolNumbers,
    egress: E,
    ports: Ports,
    probes: ProbeMessages,
    members: Membership<Flow>,
    names: Names,
    questions: Questions,
    /// Members that no listener can reach.
    left_out: BTreeSet<Peer>,
    failures: Failures,
    stopping: Stopping,
    /// Other processes with calls at the nodes, and their load there.
    processes: BTreeMap<ProcessId, Vec<(NodeId, Load)>>,
    timers: Timers,
    /// Whether the first look-ups of names are under way. There are no members before they have ended.
    is_starting: bool,
    /// Whether the shards have been asked which slots are in use.
    is_sweeping: bool,
    setup: Arc<Setup>,
    /// Version of the members in the shards' setup.
    sent_version: (u64, u64),
    /// Whether another part of the setup may have changed.
    is_changed: bool,
}

impl<E: Egress> Control<E> {
    /// Creates the control plane of a process with these ports. Probes leave from `local` (IPv4, IPv6). `secret` must
    /// be unique to this process.
    pub fn new(
        now: Instant,
        settings: ControlSettings,
        ports: Ports,
        egress: E,
        (secret, local): ([u8; 16], [Option<SocketAddr>; 2]),
        out: &mut Outbox<ControlEffect>,
    ) -> Self {
        let (mut settings, mut numbers) = (settings, PoolNumbers::default());
        numbers.give(&mut settings);
        let members = Membership::new(&judgement(&settings, &numbers));
        let setup = Setup::new(AddressTable::default(), settings.shards.clone());
        let timers = Timers {
            refresh: now + settings.refresh,
            retry: now,
            sweep: now,
            look_around: now + LOOK_AROUND,
        };
        let mut control = Self {
            settings,
            numbers,
            egress,
            ports,
            probes: ProbeMessages::new(secret, local),
            sent_version: members.version(),
            members,
            names: Names::default(),
            questions: Questions::default(),
            left_out: BTreeSet::new(),
            failures: Failures::default(),
            stopping: Stopping::default(),
            processes: BTreeMap::new(),
            timers,
            is_starting: true,
            is_sweeping: false,
            setup: Arc::new(setup),
            is_changed: true,
        };
        control.ask_names(out);
        control.update_members(now, out);
        control.settle(out);
        control
    }

    /// Returns whether the first look-up of a member's name is still under way. There are no members before it ends.
    pub fn is_starting(&self) -> bool {
        self.is_starting
    }

    /// Returns the current setup of the shards.
    pub fn setup(&self) -> &Arc<Setup> {
        &self.setup
    }

    /// Returns the nodes by slot, former members included.
    pub fn nodes(&self) -> &[Node] {
        self.members.nodes()
    }

    /// Returns the state of the names among the members.
    pub fn names(&self) -> Vec<MemberName> {
        self.names.view(&self.settings.members)
    }

    /// Returns the number of names from shards that were not looked up because too many look-ups were under way.
    pub fn look_ups_forgotten(&self) -> u64 {
        self.questions.forgotten()
    }

    /// Processes an input.
    pub fn handle(&mut self, now: Instant, input: ControlInput<'_>, out: &mut Outbox<ControlEffect>) {
        match input {
            ControlInput::Timer => self.tick(now, out),
            ControlInput::Settings { settings, is_other_resolver } => {
                self.take_over(now, *settings, is_other_resolver, out);
            }
            ControlInput::ClockSet { epoch_unix } => {
                self.settings.shards.epoch_unix = epoch_unix;
                self.is_changed = true;
            }
            ControlInput::ResolverRead { is_other } => {
                if is_other {
                    self.start_over(out);
                }
                self.ask_names(out);
            }
            ControlInput::Answer { id, answer } => self.answer(now, id, answer, out),
            ControlInput::ProbeMessage { from, bytes } => self.probe_message(now, from, bytes, out),
            ControlInput::ProbeRefused { by, quoted } => {
                let is_it = self.probes.quoted_by(by, quoted);
                self.members.unreachable(now, is_it, |flow| flow.remote() == by);
            }
            ControlInput::Unreachable(peer) => self.unreachable(now, peer, out),
            ControlInput::Shard(event) => self.shard(now, event, out),
            ControlInput::SlotsInUse(used) => self.slots_in_use(now, used.as_deref()),
            ControlInput::Drain { slot, by, draining } => self.drain(slot, by, draining, out),
            ControlInput::Doubt(slot) => self.members.suspect(now, slot),
            ControlInput::Up(slot) => self.members.raise(now, slot),
            ControlInput::Stop => self.stop(now, out),
            ControlInput::Succeeded => self.succeeded(now, out),
            ControlInput::GivenBack => self.given_back(),
            ControlInput::SuccessionOver => self.stopping.is_over = true,
            ControlInput::Joins { process, drained, dead } => self.joins(now, process, (drained, dead), out),
            ControlInput::OtherLoads { process, loads } => self.other_loads(process, loads, out),
            ControlInput::Gone(process) => self.gone(process, out),
            ControlInput::WorkLeft(left) => self.work_left(now, &left, out),
            ControlInput::Capacity { member, capacity } => self.capacity(member, capacity, out),
        }
        self.settle(out);
    }

    /// Returns when [`ControlInput::Timer`] is due.
    pub fn deadline(&self) -> Instant {
        let Timers { refresh, retry, sweep, look_around } = self.timers;
        let optional = [
            self.names.lacks_any(&self.settings.members).then_some(retry),
            (self.members.has_former() && !self.is_sweeping).then_some(sweep),
            self.members.is_any_silent().then_some(look_around),
            self.stopping.deadline(),
            self.members.deadline(),
        ];
        optional.into_iter().flatten().fold(refresh, Instant::min)
    }

    fn tick(&mut self, now: Instant, out: &mut Outbox<ControlEffect>) {
        let (members, probes, ports) = (&mut self.members, &self.probes, &self.ports);
        members.tick(now, |probe| probes.write(&probe, ports, out));
        if self.timers.refresh <= now {
            self.timers.refresh = now + self.settings.refresh;
            out.event(ControlEffect::ReadResolver);
        }
        if self.timers.retry <= now {
            self.timers.retry = now + RETRY;
            for asked in self.names.ask_again(&self.settings.members) {
                look_up(self.questions.member(asked), out);
            }
        }
        if self.timers.sweep <= now && !self.is_sweeping {
            self.timers.sweep = now + self.quiet().min(SWEEP);
            self.is_sweeping = self.members.is_any_leaving(now, self.quiet());
            if self.is_sweeping {
                out.event(ControlEffect::AskSlotsInUse);
            }
        }
        if self.timers.look_around <= now {
            self.timers.look_around = now + LOOK_AROUND;
            self.members.forget_silent(now);
        }
        if self.stopping.ask(now) {
            out.event(ControlEffect::AskWorkLeft);
        }
    }

    /// Tells the shards a member's capacity. It is ignored for an address that is no member, since a monitor may run
    /// beside a former or future member.
    fn capacity(&self, member: SocketAddr, capacity: f64, out: &mut Outbox<ControlEffect>) {
        let is_it =
            |record: &SlotRecord<Flow>| record.tenure == Tenure::Member && record.address.peer == member;
        for (slot, _) in (0..).map(Slot).zip(self.members.records()).filter(|(_, record)| is_it(record)) {
            out.event(ControlEffect::Capacity { slot, capacity });
        }
    }

    /// Returns the time after which the slot of a former member may be reused. A call that is silent for longer is
    /// over, and an older token is refused.
    fn quiet(&self) -> Duration {
        let lifetime = self.settings.token_lifetime;
        let keeps_sessions = self.setup.pools.iter().any(|pool| pool.service.counts_calls());
        if keeps_sessions { self.settings.shards.sessions.call_lifetime.min(lifetime) } else { lifetime }
    }

    fn slots_in_use(&mut self, now: Instant, used: Option<&[bool]>) {
        self.is_sweeping = false;
        self.members.slots_in_use(now, self.quiet(), used.unwrap_or_default());
    }

    /// Takes over settings that can change while calls are in progress.
    fn take_over(
        &mut self,
        now: Instant,
        mut settings: ControlSettings,
        is_other_resolver: bool,
        out: &mut Outbox<ControlEffect>,
    ) {
        self.numbers.give(&mut settings);
        self.settings = settings;
        self.members.keep_pools(self.numbers.live());
        self.members.set_settings(&judgement(&self.settings, &self.numbers));
        if is_other_resolver {
            self.start_over(out);
        }
        self.names.keep_only(&self.settings.members);
        self.update_members(now, out);
        // Names and periods may have changed.
        self.ask_names(out);
        (self.timers.refresh, self.timers.sweep) = (now + self.settings.refresh, now);
        self.is_changed = true;
    }

    /// Starts all look-ups again, with another resolver.
    fn start_over(&mut self, out: &mut Outbox<ControlEffect>) {
        self.names.start_over();
        for question in self.questions.start_over() {
            look_up(question, out);
        }
    }

    /// Looks up the members that are names, except those with a look-up under way.
    fn ask_names(&mut self, out: &mut Outbox<ControlEffect>) {
        for asked in self.names.ask(&self.settings.members) {
            look_up(self.questions.member(asked), out);
        }
    }

    fn answer(
        &mut self,
        now: Instant,
        id: QuestionId,
        answer: Result<FoundAddresses, String>,
        out: &mut Outbox<ControlEffect>,
    ) {
        match self.questions.answered(id) {
            Some(QuestionPurpose::Member(asked)) => {
                if let Some(entry) = self.names.learn(asked, answer) {
                    out.event(ControlEffect::Log(entry));
                }
                self.update_members(now, out);
            }
            Some(QuestionPurpose::NextHop(name)) => {
                let (resolved, error) = next_hop_answer(name.transport, answer, self.settings.refresh);
                if let Some(error) = error {
                    out.event(ControlEffect::Log(LogEntry::NextHopNameFailed { name: name.clone(), error }));
                }
                out.event(ControlEffect::Name(Arc::new((name, resolved))));
            }
            None => {}
        }
    }

    /// Updates the membership from configuration and DNS. A name that is new in the file may mean an existing member.
    /// No member leaves until the first look-up of such a name has ended, which takes seconds.
    fn update_members(&mut self, now: Instant, out: &mut Outbox<ControlEffect>) {
        let awaits = self.names.awaits(&self.settings.members);
        self.is_starting &= awaits;
        if self.is_starting {
            return;
        }
        let (mut members, mut left_out) = (Vec::new(), BTreeSet::new());
        for member in self.names.resolved(&self.settings.members) {
            let Some(address) = self.egress.toward(member.peer) else {
                left_out.insert(member.peer);
                continue;
            };
            members.push(ReachableMember {
                name: member.name,
                label: member.label,
                id: node_id(address.remote()),
                address,
                capacity: member.capacity,
                max_calls: member.max_calls,
                max_rate: member.max_rate,
                pools: member.pools,
            });
        }
        for peer in left_out.difference(&self.left_out) {
            out.event(ControlEffect::Log(LogEntry::LeftOut { member: *peer }));
        }
        self.left_out = left_out;
        self.members.set_members(now, &members, awaits);
        self.is_changed = true;
    }

    /// Reports events of the members, and a new setup of the shards if it has changed.
    fn settle(&mut self, out: &mut Outbox<ControlEffect>) {
        let events: Vec<_> = self.members.drain_events().collect();
        for event in events {
            out.event(ControlEffect::Log(self.entry(event)));
        }
        let version = self.members.version();
        if !self.is_changed && self.sent_version == version {
            return;
        }
        (self.sent_version, self.is_changed) = (version, false);
        let setup = self.make_setup();
        if setup != *self.setup {
            self.setup = Arc::new(setup);
            out.event(ControlEffect::SetUp(Arc::clone(&self.setup)));
        }
    }

    fn entry(&self, event: MembershipEvent) -> LogEntry {
        match event {
            MembershipEvent::Member(slot, event) => {
                let record = &self.members.records()[slot.index()];
                LogEntry::Member { member: record.address.remote(), name: record.label().to_owned(), event }
            }
            MembershipEvent::NoneAlive { pool, silent } => {
                LogEntry::NoneAlive { pool: self.pool_name(pool), silent }
            }
        }
    }

    fn pool_name(&self, pool: PoolId) -> String {
        self.pool(pool).map_or_else(String::new, |pool| pool.name.clone())
    }

    fn make_setup(&self) -> Setup {
        let topology = self.topology();
        let is_same = *self.setup.topology == topology;
        let topology = if is_same { Arc::clone(&self.setup.topology) } else { Arc::new(topology) };
        Setup {
            nodes: self.members.nodes().into(),
            topology,
            pools: self.pool_setups(),
            stopping: self.stopping.refuses_until(self.settings.stop_wait),
            settings: self.settings.shards.clone(),
        }
    }

    fn pool_setups(&self) -> Arc<[PoolSetup]> {
        let pools = self.numbers.live().iter().copied().zip(&self.settings.pools);
        // A member that is in no pool stays a member until all names of the new file are resolved.
        let is_in_none =
            |record: &SlotRecord<Flow>| record.tenure == Tenure::Member && record.pools.is_empty();
        let is_only = self.settings.pools.len() == 1 && !self.members.records().iter().any(is_in_none);
        let pool = |(id, pool): (PoolId, &PoolSettings)| {
            let slots = (0..).map(Slot).zip(self.members.records());
            let those = slots.filter(|(_, record)| record.pools.contains(&id)).map(|(slot, _)| slot);
            let mut members = self.settings.members.iter().filter(|member| member.pool == id);
            let has_limit = members.any(|member| member.max_calls > 0 || member.max_rate > 0);
            // A call that rings at several members belongs to none yet. A queue must know the members of its calls.
            let finds_again = pool.policy.is_by_call() && !has_limit && pool.queue.is_none();
            let service = if finds_again { pool.service.found_again() } else { pool.service.counted() };
            PoolSetup {
                service,
                policy: pool.policy,
                members: self.settings.members.iter().filter(|member| member.pool == id).count(),
                nodes: if is_only { Members::All } else { Members::of(those) },
                queue: pool.queue.clone(),
                member_law: pool.member_law,
                invite_timeout: pool.invite_timeout,
            }
        };
        let mut setups = vec![PoolSetup::GONE; self.numbers.len()];
        for (id, settings) in pools {
            setups[id.index()] = pool((id, settings));
        }
        self.count_together(&mut setups);
        setups.into()
    }

    /// Makes all pools of a rule count calls if one of them does. A call that moves from pool to pool must be
    /// remembered in all of them or in none.
    fn count_together(&self, pools: &mut [PoolSetup]) {
        let rules = self.settings.shards.routes.table.rules();
        let of_rule = |rule: &route::Rule| match &rule.target {
            route::Target::Pools(pools) => {
                pools.choices.iter().map(|choice| usize::from(choice.pool)).collect()
            }
            route::Target::RequestUri
            | route::Target::Location
            | route::Target::Answer(_)
            | route::Target::Silence => Vec::new(),
        };
        let groups: Vec<Vec<usize>> = rules.iter().map(of_rule).collect();
        // A pool may be in several rules, so this repeats until nothing changes.
        for _ in 0..pools.len() {
            for group in &groups {
                let is_counted =
                    |index: &usize| pools.get(*index).is_some_and(|pool| pool.service.counts_calls());
                if group.iter().any(is_counted) {
                    for &index in group {
                        if let Some(pool) = pools.get_mut(index) {
                            pool.service = pool.service.counted();
                        }
                    }
                }
            }
        }
    }

    /// Returns the addresses of all slots. Tokens and source addresses lead to members and to former members that are
    /// not hidden.
    fn topology(&self) -> AddressTable {
        let mut topology = AddressTable::new(self.ports.clone(), self.settings.own_names.clone());
        let mut leads = Vec::new();
        for (slot, record) in (0..).map(Slot).zip(self.members.records()) {
            topology.push_node(record.address);
            match record.tenure {
                Tenure::Member | Tenure::Left(_) => leads.push(slot),
                Tenure::Hidden | Tenure::Vacant => topology.forget(slot),
            }
        }
        // An address may have had another slot before.
        for slot in leads {
            topology.find_again(slot);
        }
        topology
    }
}

/// Returns the health and probe settings of each pool by its number. Without any pool, as in a process that is only a
/// registrar, there is one entry.
fn judgement(settings: &ControlSettings, numbers: &PoolNumbers) -> Vec<(HealthSettings, ProbeSettings)> {
    let mut judgement = vec![Default::default(); numbers.len().max(1)];
    for (id, pool) in numbers.live().iter().zip(&settings.pools) {
        judgement[id.index()] = (pool.health, pool.probes);
    }
    judgement
}

fn look_up((id, question): (QuestionId, DnsQuestion), out: &mut Outbox<ControlEffect>) {
    out.event(ControlEffect::LookUp { id, question });
}
