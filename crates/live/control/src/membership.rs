//! Who is a member, whether it is alive, and when the slot of one that left goes to another.
//!
//! Sessions carry slots, tokens and source addresses lead to them, so a slot changes hands in steps: its node has
//! left and been silent for as long as a token of an old call might still name it; no shard has a session or lease
//! there; tokens and its address lead there no more; and then, once again, no shard has anything there. From then on
//! nothing can.

use crate::probe::{Probe, ProbeOutcome, ProbeResult, ProbeSchedule, ProbeSettings};
use balance::{
    Cluster, ClusterMember, HealthCause, HealthEffect, HealthNews, HealthSettings, Node, NodeId, Outlier,
    PoolId, Sign, Slot,
};
use base::Instant;
use core::time::Duration;
use node::Pause;

/// A member, and how it is reached; what that is is the user's: a flow live, a host's number in the simulator's
/// model.
#[derive(Clone, PartialEq, Debug)]
pub struct ReachableMember<A> {
    /// As the configuration names it.
    pub name: String,
    /// Who it is.
    pub id: NodeId,
    /// How it is reached.
    pub address: A,
    /// Relative capacity, above 0.
    pub capacity: f64,
    /// Most calls at a time; 0 for no limit.
    pub max_calls: u32,
    /// Most new calls a second; 0 for no limit.
    pub max_rate: u32,
    /// The pools that it is in, at least one. Its health is judged in the first.
    pub pools: Vec<PoolId>,
}

/// Who takes a member out of service. Each takes back its own drain, and no other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drainer {
    /// An operator.
    Operator,
    /// The scaler of its pool: it is no server that is to take calls.
    Scaler,
}

/// Who drains a member. It gets no new calls as long as anybody does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drains {
    /// An operator.
    pub operator: bool,
    /// The scaler of its pool.
    pub scaler: bool,
}

impl Drains {
    /// Whether anybody does.
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

/// To whom a slot belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tenure {
    /// A member.
    Member,
    /// One that left then.
    Left(Instant),
    /// One that left; neither token nor source address leads there any more.
    Hidden,
    /// Nobody: the next that joins gets it.
    Vacant,
}

/// What is known of a slot beyond what the shards need.
#[derive(Clone, PartialEq, Debug)]
pub struct SlotRecord<A> {
    /// Its node, as the configuration names or named it.
    pub name: String,
    /// How that is reached.
    pub address: A,
    /// The pools that it is in, or was, as they are numbered now.
    pub pools: Vec<PoolId>,
    /// Who drains its node.
    pub drains: Drains,
    /// What came of the last probe.
    pub last_probe: Option<ProbeResult>,
    /// When its node was last found dead or back.
    pub last_change: Instant,
    /// To whom it belongs.
    pub tenure: Tenure,
}

/// What happened to a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberEvent {
    /// It joins.
    Joins,
    /// It left, and is a member again.
    JoinsAgain,
    /// It leaves: its calls go on.
    Leaves,
    /// It left, and nothing of it is left.
    Forgotten,
    /// It answered with 503: it pauses.
    Pauses {
        /// For how long.
        length: Duration,
        /// Whether the answer was one to a probe.
        to_probe: bool,
    },
    /// The network said that a request did not arrive: it is the last to be asked.
    Unreachable {
        /// For how long.
        length: Duration,
    },
    /// It has answered a call in its pause, or probes after it had refused some: the pause is over.
    Recovered,
    /// A request got no answer.
    NoAnswer,
    /// It counts as dead.
    Lost(HealthCause),
    /// It is back.
    Back(HealthCause),
    /// It is back without the calls that it had.
    CallsLost,
    /// It answers requests and leaves probes unanswered.
    IgnoresProbes,
    /// It is ejected.
    Ejected {
        /// Why.
        outlier: Outlier,
        /// For how long.
        length: Duration,
    },
}

/// What happened to the members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MembershipEvent {
    /// To one of them.
    Member(Slot, MemberEvent),
    /// None of a pool is alive. `silent`: some are dead for silence alone, and get the calls all the same.
    NoneAlive {
        /// The pool.
        pool: PoolId,
        /// Whether calls still go to some.
        silent: bool,
    },
}

/// The members of a process, and those that were: their slots, their health and their probes.
///
/// - Setting up: [`new`](Self::new), [`keep_pools`](Self::keep_pools),
///   [`set_settings`](Self::set_settings), [`set_members`](Self::set_members).
/// - What is heard: [`sign`](Self::sign), [`suspect`](Self::suspect), [`none_took`](Self::none_took),
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
    /// By the number of the pool.
    probes: Vec<ProbeSettings>,
    /// By slot.
    records: Vec<SlotRecord<A>>,
    /// Moves on when a slot is hidden: nothing else of what the shards have tells that.
    hidden: u64,
    events: Vec<MembershipEvent>,
}

impl<A: Copy + Eq> Membership<A> {
    /// Nobody is a member yet. Of each pool, when its nodes count as dead and as back, and when they are asked.
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

    /// Changes when the nodes of each pool count as dead and as back, and when they are asked.
    /// [`set_members`](Self::set_members) is to follow.
    pub fn set_settings(&mut self, pools: &[(HealthSettings, ProbeSettings)]) {
        self.cluster.set_pools(&pools.iter().map(|pool| pool.0).collect::<Vec<_>>());
        self.probes = pools.iter().map(|pool| pool.1).collect();
    }

    /// These pools are left from now on. To be followed by [`set_settings`](Self::set_settings).
    pub fn keep_pools(&mut self, live: &[PoolId]) {
        for record in &mut self.records {
            record.pools.retain(|pool| live.contains(pool));
        }
    }

    /// The nodes by slot, also those that left: their calls go on.
    pub fn nodes(&self) -> &[Node] {
        self.cluster.nodes()
    }

    /// What is known of each slot beside its node.
    pub fn records(&self) -> &[SlotRecord<A>] {
        &self.records
    }

    /// The slot of a node that is or was a member, unless another one may have it by now.
    pub fn slot(&self, id: NodeId) -> Option<Slot> {
        self.cluster.slot(id)
    }

    /// Moves on with every change that the shards are to know of.
    pub fn version(&self) -> (u64, u64) {
        (self.cluster.version(), self.hidden)
    }

    /// Takes what happened since the last time.
    pub fn drain_events(&mut self) -> impl Iterator<Item = MembershipEvent> + '_ {
        self.events.drain(..)
    }

    /// Sets who is a member. `nobody_leaves`: those that are members and not among these stay.
    pub fn set_members(&mut self, now: Instant, members: &[ReachableMember<A>], nobody_leaves: bool) {
        let of = |member: &ReachableMember<A>| ClusterMember {
            id: member.id,
            capacity: member.capacity,
            max_calls: member.max_calls,
            max_rate: member.max_rate,
            pool: member.pools[0],
        };
        let mut all: Vec<_> = members.iter().map(of).collect();
        if nobody_leaves {
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

    /// Notes to whom the slot of a member belongs.
    fn seat(&mut self, now: Instant, member: &ReachableMember<A>) {
        // One too many has none.
        let Some(slot) = self.cluster.slot(member.id) else { return };
        let fresh = || SlotRecord {
            name: member.name.clone(),
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

    /// What the traffic says.
    pub fn sign(&mut self, now: Instant, sign: Sign) {
        let event = match sign {
            // Others follow as long as it is asked all the same.
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

    /// The network reported an error about a request to a node.
    pub fn suspect(&mut self, now: Instant, slot: Slot) {
        self.cluster.suspect(now, slot);
        self.carry_out(now);
    }

    /// The process that this one has taken over from held a node for dead.
    pub fn was_dead(&mut self, now: Instant, slot: Slot) {
        self.cluster.was_dead(now, slot);
        self.carry_out(now);
    }

    /// New calls were refused since no member takes any.
    pub fn none_took(&mut self, now: Instant) {
        self.cluster.none_took(now);
        self.carry_out(now);
    }

    /// Starts or ends the draining of a node by one of those who may.
    pub fn drain(&mut self, slot: Slot, by: Drainer, draining: bool) {
        let drains = &mut self.records[slot.index()].drains;
        drains.set(by, draining);
        self.cluster.drain(slot, drains.is_any());
    }

    /// The operator knows that a node is back, and takes calls.
    pub fn raise(&mut self, now: Instant, slot: Slot) {
        self.cluster.raise(now, slot);
        self.carry_out(now);
    }

    /// Gives up the calls of those that have been silent for long. To be called now and then.
    pub fn forget_silent(&mut self, now: Instant) {
        self.cluster.forget_silent(now);
    }

    /// Sends the probes that are due, and judges those that have waited too long.
    pub fn tick(&mut self, now: Instant, send: impl FnMut(Probe<A>)) {
        let mut failed = Vec::new();
        self.schedule.tick(now, send, |outcome| failed.push(outcome));
        for outcome in failed {
            self.judge(now, outcome);
        }
    }

    /// When [`tick`](Self::tick) is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.schedule.deadline()
    }

    /// A final response came to the probe that `is_it` recognises, and asks for this pause.
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

    /// The network reported (ICMP) that something sent from where probes leave did not arrive. If it is the probe
    /// that `is_it` recognises, its node is dead; if not, this is a reason to ask whoever `is_there` again, no more.
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

    /// Does what the cluster has decided and nobody has done yet.
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

    /// Whether a slot waits to be given away, and it is time to ask the shards which are in use. A member is to have
    /// left `quiet` ago.
    pub fn is_any_leaving(&self, now: Instant, quiet: Duration) -> bool {
        self.records.iter().any(|record| is_leaving(record.tenure, now, quiet))
    }

    /// Whether a slot belongs to one that left.
    pub fn has_former(&self) -> bool {
        self.records.iter().any(|record| matches!(record.tenure, Tenure::Left(_) | Tenure::Hidden))
    }

    /// Whether a node counts as dead for silence.
    pub fn is_any_silent(&self) -> bool {
        self.nodes().iter().any(|node| node.health == balance::Health::Silent)
    }

    /// The shards have said which slots are in use: those that nobody uses move one step on. What was hidden when
    /// they were asked had been hidden to them before.
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
