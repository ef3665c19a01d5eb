//! Members, their health, and the reuse of slots.
//!
//! Sessions contain slots, and tokens and source addresses lead to slots, so a slot is reused in steps. First its node
//! must have left for as long as a token of an old call may be valid. No shard may have a session or lease there. Then
//! tokens and the node's address no longer lead to the slot. When after that no shard uses the slot, no reference to it
//! can be left, and it is vacant.

use crate::probe::{Probe, ProbeOutcome, ProbeResult, ProbeSchedule, ProbeSettings};
use balance::{
    Cluster, ClusterMember, HealthCause, HealthEffect, HealthNews, HealthSettings, Node, NodeId, Outlier,
    PoolId, Sign, Slot,
};
use base::Instant;
use core::time::Duration;
use node::Pause;

/// A member with its address. The caller chooses the type of the address: a flow in the server, a host's number in the
/// simulator's model.
#[derive(Clone, PartialEq, Debug)]
pub struct ReachableMember<A> {
    /// Name of the member in the configuration.
    pub name: String,
    /// Name for display; `None`: its name in the configuration.
    pub label: Option<String>,
    /// Identity of the node.
    pub id: NodeId,
    /// Address of the node.
    pub address: A,
    /// Relative capacity, above 0.
    pub capacity: f64,
    /// Limit of calls in progress; 0 for no limit.
    pub max_calls: u32,
    /// Limit of new calls a second; 0 for no limit.
    pub max_rate: u32,
    /// Pools of the member, at least one. Its health is judged by the settings of the first.
    pub pools: Vec<PoolId>,
}

/// Source of a drain. Each source ends only its own drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drainer {
    /// An operator.
    Operator,
    /// The scaler of the member's pool: the server should take no calls.
    Scaler,
}

/// Drains of a member. It gets no new calls while any drain is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drains {
    /// Drained by an operator.
    pub operator: bool,
    /// Drained by the scaler of its pool.
    pub scaler: bool,
}

impl Drains {
    /// Returns whether any drain is set.
    pub fn is_any(self) -> bool {
        self.operator || self.scaler
    }

    fn set(&mut self, by: Drainer, draining: bool) {
        match by {
            Drainer::Operator => self.operator = draining,
            Drainer::Scaler => self.scaler = draining,
        }
    }
}

/// State of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tenure {
    /// Used by a member.
    Member,
    /// Used by a former member that left at this time.
    Left(Instant),
    /// Used by a former member to which neither tokens nor source addresses lead any more.
    Hidden,
    /// Vacant. The next member that joins gets it.
    Vacant,
}

/// Facts about a slot that the shards do not need.
#[derive(Clone, PartialEq, Debug)]
pub struct SlotRecord<A> {
    /// Name of its node in the configuration, present or former.
    pub name: String,
    /// Name for display; `None`: its name in the configuration.
    pub label: Option<String>,
    /// Address of the node.
    pub address: A,
    /// Present or former pools of the node, by their current numbers.
    pub pools: Vec<PoolId>,
    /// Drains of the node.
    pub drains: Drains,
    /// Result of the last probe.
    pub last_probe: Option<ProbeResult>,
    /// When the node was last found dead or alive.
    pub last_change: Instant,
    /// State of the slot.
    pub tenure: Tenure,
}

impl<A> SlotRecord<A> {
    /// Returns the name for display.
    pub fn label(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.name)
    }
}

/// An event of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberEvent {
    /// The member joins.
    Joins,
    /// A former member joins again.
    JoinsAgain,
    /// The member leaves. Its calls continue.
    Leaves,
    /// A former member is forgotten: nothing refers to it any more.
    Forgotten,
    /// The member answered with 503 and pauses.
    Pauses {
        /// Duration of the pause.
        length: Duration,
        /// Whether the 503 answered a probe.
        to_probe: bool,
    },
    /// The network reported that a request did not arrive. The member is tried last for a time.
    Unreachable {
        /// Duration of that time.
        length: Duration,
    },
    /// The pause ended early. During it the member answered a call; or it answered probes after it had refused some, or
    /// after an ICMP error.
    Recovered,
    /// A request to the member got no answer.
    NoAnswer,
    /// The member counts as dead.
    Lost(HealthCause),
    /// The member is alive again.
    Back(HealthCause),
    /// The member is alive again, without the calls that it had.
    CallsLost,
    /// The member answers requests but not probes.
    IgnoresProbes,
    /// The member is ejected as an outlier.
    Ejected {
        /// Cause of the ejection.
        outlier: Outlier,
        /// Duration of the ejection.
        length: Duration,
    },
}

/// An event of the membership.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MembershipEvent {
    /// An event of one member.
    Member(Slot, MemberEvent),
    /// No member of a pool is alive.
    NoneAlive {
        /// The pool.
        pool: PoolId,
        /// Whether calls still go to members that are dead only because of silence.
        silent: bool,
    },
}

/// Present and former members of a process: slots, health and probes.
///
/// - Setting up: [`new`](Self::new), [`keep_pools`](Self::keep_pools),
///   [`set_settings`](Self::set_settings), [`set_members`](Self::set_members).
/// - Input: [`sign`](Self::sign), [`suspect`](Self::suspect), [`none_took`](Self::none_took),
///   [`drain`](Self::drain), [`raise`](Self::raise), [`answered`](Self::answered),
///   [`unreachable`](Self::unreachable).
/// - Time: [`tick`](Self::tick), [`deadline`](Self::deadline), [`forget_silent`](Self::forget_silent).
/// - Tenure: [`is_any_leaving`](Self::is_any_leaving), [`slots_in_use`](Self::slots_in_use).
/// - Reading: [`nodes`](Self::nodes), [`records`](Self::records), [`version`](Self::version),
///   [`drain_events`](Self::drain_events).
#[derive(Debug)]
pub struct Membership<A> {
    cluster: Cluster,
    schedule: ProbeSchedule<A>,
    /// Probe settings by the number of the pool.
    probes: Vec<ProbeSettings>,
    records: Vec<SlotRecord<A>>,
    /// Counts hidden slots, which no other part of the shards' setup shows.
    hidden: u64,
    events: Vec<MembershipEvent>,
}

impl<A: Copy + Eq> Membership<A> {
    /// Creates a membership without members. `pools` has the health and probe settings of each pool.
    pub fn new(pools: &[(HealthSettings, ProbeSettings)]) -> Self {
        let mut members = Self {
            cluster: Cluster::new(HealthSettings::default()),
            schedule: ProbeSchedule::default(),
            probes: Vec::new(),
            records: Vec::new(),
            hidden: 0,
            events: Vec::new(),
        };
        members.set_settings(pools);
        members
    }

    /// Changes the health and probe settings of the pools. [`set_members`](Self::set_members) must follow.
    pub fn set_settings(&mut self, pools: &[(HealthSettings, ProbeSettings)]) {
        self.cluster.set_pools(&pools.iter().map(|pool| pool.0).collect::<Vec<_>>());
        self.probes = pools.iter().map(|pool| pool.1).collect();
    }

    /// Removes all pools but these from the records. [`set_settings`](Self::set_settings) must follow.
    pub fn keep_pools(&mut self, live: &[PoolId]) {
        for record in &mut self.records {
            record.pools.retain(|pool| live.contains(pool));
        }
    }

    /// Returns the nodes by slot, including former members, whose calls continue.
    pub fn nodes(&self) -> &[Node] {
        self.cluster.nodes()
    }

    /// Returns the facts about each slot beside its node.
    pub fn records(&self) -> &[SlotRecord<A>] {
        &self.records
    }

    /// Returns the slot of a present or former member; `None` if another member may have it now.
    pub fn slot(&self, id: NodeId) -> Option<Slot> {
        self.cluster.slot(id)
    }

    /// Returns a version that changes with every change that the shards must know.
    pub fn version(&self) -> (u64, u64) {
        (self.cluster.version(), self.hidden)
    }

    /// Returns the events since the last call.
    pub fn drain_events(&mut self) -> impl Iterator<Item = MembershipEvent> + '_ {
        self.events.drain(..)
    }

    /// Sets the members. With `keeps_members`, present members that are not in the list stay.
    pub fn set_members(&mut self, now: Instant, members: &[ReachableMember<A>], keeps_members: bool) {
        let of = |member: &ReachableMember<A>| ClusterMember {
            id: member.id,
            capacity: member.capacity,
            max_calls: member.max_calls,
            max_rate: member.max_rate,
            pool: member.pools[0],
        };
        let mut all: Vec<_> = members.iter().map(of).collect();
        if keeps_members {
            for (node, record) in
                self.cluster.nodes().iter().zip(&self.records).filter(|(node, _)| node.member)
            {
                if all.iter().all(|member| member.id != node.id) {
                    let Node { id, capacity, max_calls, max_rate, .. } = *node;
                    let pool = record.pools.first().copied().unwrap_or_default();
                    all.push(ClusterMember { id, capacity, max_calls, max_rate, pool });
                }
            }
        }
        self.cluster.set_members(now, &all);
        for member in members {
            self.seat(now, member);
        }
        for (slot, (node, record)) in (0..).map(Slot).zip(self.cluster.nodes().iter().zip(&mut self.records))
        {
            if !node.member && record.tenure == Tenure::Member {
                record.tenure = Tenure::Left(now);
                self.events.push(MembershipEvent::Member(slot, MemberEvent::Leaves));
            }
        }
        let all = (0..).map(Slot).zip(self.cluster.nodes().iter().zip(&self.records));
        let asked = all.filter(|(_, (node, _))| node.member);
        let settings = |node: &Node| self.probes.get(node.pool.index()).copied().unwrap_or_default();
        let targets: Vec<_> =
            asked.map(|(slot, (node, record))| (slot, record.address, settings(node))).collect();
        self.schedule.set_targets(now, &targets);
        self.carry_out(now);
    }

    /// Updates the record of a member's slot.
    fn seat(&mut self, now: Instant, member: &ReachableMember<A>) {
        // A member beyond the last slot has none.
        let Some(slot) = self.cluster.slot(member.id) else { return };
        let fresh = || SlotRecord {
            name: member.name.clone(),
            label: member.label.clone(),
            address: member.address,
            pools: member.pools.clone(),
            drains: Drains::default(),
            last_probe: None,
            last_change: now,
            tenure: Tenure::Member,
        };
        let event = match self.records.get_mut(slot.index()) {
            None => {
                self.records.push(fresh());
                MemberEvent::Joins
            }
            Some(record) => {
                record.name.clone_from(&member.name);
                record.label.clone_from(&member.label);
                record.pools.clone_from(&member.pools);
                match core::mem::replace(&mut record.tenure, Tenure::Member) {
                    Tenure::Member => return,
                    Tenure::Left(_) | Tenure::Hidden => MemberEvent::JoinsAgain,
                    Tenure::Vacant => {
                        *record = fresh();
                        MemberEvent::Joins
                    }
                }
            }
        };
        self.events.push(MembershipEvent::Member(slot, event));
    }

    /// Processes a sign of a member's health from the traffic.
    pub fn sign(&mut self, now: Instant, sign: Sign) {
        let event = match sign {
            // Only the first sign of a pause is reported. Further ones follow if the member is still tried.
            Sign::Pause { slot, until, .. } if self.nodes()[slot.index()].paused_until <= now => {
                let length = until.saturating_since(now);
                Some((slot, MemberEvent::Pauses { length, to_probe: false }))
            }
            Sign::Unreachable { slot, until } if self.nodes()[slot.index()].paused_until <= now => {
                Some((slot, MemberEvent::Unreachable { length: until.saturating_since(now) }))
            }
            Sign::NoAnswer { slot, .. } => Some((slot, MemberEvent::NoAnswer)),
            Sign::Recovered { slot } => Some((slot, MemberEvent::Recovered)),
            Sign::Pause { .. }
            | Sign::Unreachable { .. }
            | Sign::Answer { .. }
            | Sign::Tally { .. }
            | Sign::Memory { .. } => None,
        };
        self.events.extend(event.map(|(slot, event)| MembershipEvent::Member(slot, event)));
        self.cluster.sign(now, sign);
        self.carry_out(now);
    }

    /// Processes a network error about a request to a node.
    pub fn suspect(&mut self, now: Instant, slot: Slot) {
        self.cluster.suspect(now, slot);
        self.carry_out(now);
    }

    /// Takes over from the predecessor that a node was dead.
    pub fn was_dead(&mut self, now: Instant, slot: Slot) {
        self.cluster.was_dead(now, slot);
        self.carry_out(now);
    }

    /// Handles the refusal of new calls because no member takes any.
    pub fn none_took(&mut self, now: Instant) {
        self.cluster.none_took(now);
        self.carry_out(now);
    }

    /// Starts or ends a drain of a node.
    pub fn drain(&mut self, slot: Slot, by: Drainer, draining: bool) {
        let drains = &mut self.records[slot.index()].drains;
        drains.set(by, draining);
        self.cluster.drain(slot, drains.is_any());
    }

    /// Takes an operator's word that a node is back and takes calls.
    pub fn raise(&mut self, now: Instant, slot: Slot) {
        self.cluster.raise(now, slot);
        self.carry_out(now);
    }

    /// Gives up the calls of members that have been silent for too long. Must be called from time to time.
    pub fn forget_silent(&mut self, now: Instant) {
        self.cluster.forget_silent(now);
    }

    /// Sends due probes, and judges probes that have timed out.
    pub fn tick(&mut self, now: Instant, send: impl FnMut(Probe<A>)) {
        let mut failed = Vec::new();
        self.schedule.tick(now, send, |outcome| failed.push(outcome));
        for outcome in failed {
            self.judge(now, outcome);
        }
    }

    /// Returns when [`tick`](Self::tick) is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.schedule.deadline()
    }

    /// Processes a final response to the probe that `is_it` recognises, with the pause that it asks for.
    pub fn answered(
        &mut self,
        now: Instant,
        status: u16,
        pause: Option<Pause>,
        is_it: impl FnMut(&Probe<A>) -> bool,
    ) {
        if let Some(outcome) = self.schedule.answered(status, pause, is_it) {
            self.judge(now, outcome);
        }
    }

    /// Processes an ICMP error about a message from a socket of probes. If the message is the probe that `is_it`
    /// recognises, its node is dead. Otherwise nodes whose address satisfies `is_there` are only probed again.
    pub fn unreachable(
        &mut self,
        now: Instant,
        is_it: impl Fn(&Probe<A>) -> bool,
        is_there: impl Fn(&A) -> bool,
    ) {
        match self.schedule.unreachable(is_it) {
            Some(outcome) => self.judge(now, outcome),
            None => self.schedule.suspect(now, is_there),
        }
    }

    fn judge(&mut self, now: Instant, outcome: ProbeOutcome) {
        let slot = outcome.slot;
        let paused = self.nodes()[slot.index()].paused_until;
        outcome.apply(now, &mut self.cluster);
        self.records[slot.index()].last_probe = Some(outcome.result);
        let node = &self.nodes()[slot.index()];
        if node.is_up() && paused <= now && now < node.paused_until {
            let length = node.paused_until.saturating_since(now);
            let event = MemberEvent::Pauses { length, to_probe: true };
            self.events.push(MembershipEvent::Member(slot, event));
        }
        self.carry_out(now);
    }

    fn carry_out(&mut self, now: Instant) {
        for effect in self.cluster.drain_effects() {
            self.schedule.carry_out(effect);
            let HealthEffect::Note(news) = effect else { continue };
            let (slot, event) = match news {
                HealthNews::Lost { slot, cause } => (slot, MemberEvent::Lost(cause)),
                HealthNews::Back { slot, cause } => (slot, MemberEvent::Back(cause)),
                HealthNews::Recovered { slot } => (slot, MemberEvent::Recovered),
                HealthNews::CallsLost { slot } => (slot, MemberEvent::CallsLost),
                HealthNews::IgnoresProbes { slot } => (slot, MemberEvent::IgnoresProbes),
                HealthNews::Ejected { slot, outlier, until } => {
                    (slot, MemberEvent::Ejected { outlier, length: until.saturating_since(now) })
                }
                HealthNews::NoneAlive { pool, silent } => {
                    self.events.push(MembershipEvent::NoneAlive { pool, silent });
                    continue;
                }
            };
            if let MemberEvent::Lost(_) | MemberEvent::Back(_) = event {
                self.records[slot.index()].last_change = now;
            }
            self.events.push(MembershipEvent::Member(slot, event));
        }
    }

    /// Returns whether a slot may be reusable, so that the shards should be asked which slots are in use. Its member
    /// must have left at least `quiet` ago.
    pub fn is_any_leaving(&self, now: Instant, quiet: Duration) -> bool {
        self.records.iter().any(|record| is_leaving(record.tenure, now, quiet))
    }

    /// Returns whether a slot belongs to a former member.
    pub fn has_former(&self) -> bool {
        self.records.iter().any(|record| matches!(record.tenure, Tenure::Left(_) | Tenure::Hidden))
    }

    /// Returns whether a node counts as dead because of silence.
    pub fn is_any_silent(&self) -> bool {
        self.nodes().iter().any(|node| node.health == balance::Health::Silent)
    }

    /// Takes the shards' list of slots in use. Unused slots of former members advance one step. If a slot was hidden
    /// when the shards were asked, the shards knew that before they answered.
    pub fn slots_in_use(&mut self, now: Instant, quiet: Duration, used: &[bool]) {
        for (slot, (record, used)) in (0..).map(Slot).zip(self.records.iter_mut().zip(used)) {
            if *used || !is_leaving(record.tenure, now, quiet) {
                continue;
            }
            if record.tenure == Tenure::Hidden {
                self.cluster.release(slot);
                record.tenure = Tenure::Vacant;
                self.events.push(MembershipEvent::Member(slot, MemberEvent::Forgotten));
            } else {
                record.tenure = Tenure::Hidden;
                self.hidden += 1;
            }
        }
    }
}

fn is_leaving(tenure: Tenure, now: Instant, quiet: Duration) -> bool {
    match tenure {
        Tenure::Member | Tenure::Vacant => false,
        Tenure::Left(since) => now.saturating_since(since) >= quiet,
        Tenure::Hidden => true,
    }
}
