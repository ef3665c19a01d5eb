//! Members of a queue: announced capacity, credit and load of each.

use super::credit::Credit;
use super::unanswered::Unanswered;
use super::{Accrual, MemberChoice, QueueSettings};
use crate::estimate::Announced;
use base::Instant;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
struct Member {
    announced: Announced,
    /// Capacity by another estimate, in calls a second; 0 if there is none. Used while updates are missing.
    estimated: f64,
    credit: Credit,
    /// Load as set by the caller, plus the load of the calls delivered since.
    load: f64,
    unanswered: Unanswered,
    /// Whether it takes new calls now.
    open: bool,
    /// Turn of the last call that it got. Of two equal members, the one with the earlier turn is next.
    turn: u64,
}

/// A member as the queue knows it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemberView {
    /// Present effective capacity, in calls a second.
    pub capacity: f64,
    /// Calls that it may get at once.
    pub credit: f64,
    /// Unanswered calls. Counted only with [`QueueSettings::threshold`].
    pub unanswered: usize,
    /// Number of unanswered calls from which the member gets no other call; infinite without a threshold.
    pub unanswered_most: f64,
    /// Whether its updates are missing.
    pub silent: bool,
    /// Whether it takes calls now, as set by the caller.
    pub open: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Members<M> {
    all: BTreeMap<M, Member>,
    turn: u64,
}

impl<M: Ord + Copy> Members<M> {
    pub(super) fn new() -> Self {
        Self { all: BTreeMap::new(), turn: 0 }
    }

    pub(super) fn announce(&mut self, now: Instant, member: M, capacity: f64, settings: &QueueSettings) {
        let announced = Announced::new(now, capacity);
        let held = announced.capacity(now, settings.validity);
        if let Some(known) = self.all.get_mut(&member) {
            // Credit up to now accrues at the old capacity.
            known.accrue(now, settings);
            known.announced = announced;
            known.credit.accrue(now, held, settings.accrual);
        } else {
            let credit = Credit::new(now, held, settings.accrual);
            let (estimated, load, open, turn) = (0.0, 0.0, true, 0);
            let unanswered = Unanswered::default();
            let new = Member { announced, estimated, credit, load, unanswered, open, turn };
            self.all.insert(member, new);
        }
    }

    pub(super) fn estimate(&mut self, now: Instant, member: M, capacity: f64, settings: &QueueSettings) {
        if let Some(known) = self.all.get_mut(&member) {
            known.accrue(now, settings);
            known.estimated = capacity;
        }
    }

    pub(super) fn set_load(&mut self, member: M, load: f64) {
        if let Some(member) = self.all.get_mut(&member) {
            member.load = load;
        }
    }

    pub(super) fn set_loads(&mut self, mut load: impl FnMut(M) -> Option<f64>) {
        for (name, member) in &mut self.all {
            let load = load(*name);
            member.open = load.is_some();
            member.load = load.unwrap_or(member.load);
        }
    }

    pub(super) fn has(&self, member: M) -> bool {
        self.all.contains_key(&member)
    }

    pub(super) fn remove(&mut self, member: M) {
        self.all.remove(&member);
    }

    /// Records that another member got a call as well, which this member got at `sent`.
    pub(super) fn moved(&mut self, member: M, sent: Instant) {
        if let Some(member) = self.all.get_mut(&member) {
            member.unanswered.moves(sent);
        }
    }

    /// Records any response of a member. Returns whether the member had stopped.
    pub(super) fn answers(&mut self, member: M) -> bool {
        self.all.get_mut(&member).is_some_and(|member| member.unanswered.record_response())
    }

    /// Records a member's first response to a call that the member got at `sent`.
    pub(super) fn answered(&mut self, now: Instant, member: M, sent: Instant, settings: &QueueSettings) {
        if let (Some(member), Some(threshold)) = (self.all.get_mut(&member), settings.threshold) {
            member.unanswered.answer(now, sent, threshold);
        }
    }

    /// Stops counting a call that the member got at `sent` as unanswered. Returns whether it did count.
    pub(super) fn taken_back(&mut self, now: Instant, member: M, sent: Instant) -> bool {
        self.all.get_mut(&member).is_some_and(|member| member.unanswered.take_back(now, sent))
    }

    /// Calls a second of all members that take calls.
    pub(super) fn total(&self, now: Instant, settings: &QueueSettings) -> f64 {
        let open = self.all.values().filter(|member| member.open);
        open.map(|member| member.rate(now, settings)).sum()
    }

    pub(super) fn accrue(&mut self, now: Instant, settings: &QueueSettings) {
        self.all.values_mut().for_each(|member| member.accrue(now, settings));
    }

    /// Member that gets a call; `None` if none has room. Credit must be up to date.
    pub(super) fn choose(&self, now: Instant, settings: &QueueSettings) -> Option<M> {
        let candidates = self.all.iter().filter(|(_, member)| member.has_room(now, settings));
        // The smallest value wins. Of equal ones the first in order wins, as index packing requires.
        let value = |member: &Member| match settings.choice {
            MemberChoice::MostRoom => (-member.room(now, settings), member.turn),
            MemberChoice::Tlwl => {
                let capacity = member.rate(now, settings);
                let lost = base::INVITE_WORK * member.unanswered.lost(now) as f64;
                let load = (member.load - lost).max(0.0);
                (load / capacity.max(f64::MIN_POSITIVE), member.turn)
            }
            MemberChoice::IndexPacking => (0.0, 0),
        };
        let order = |one: (f64, u64), other: (f64, u64)| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1));
        candidates.min_by(|one, other| order(value(one.1), value(other.1))).map(|(name, _)| *name)
    }

    /// Charges a call to a member's credit.
    pub(super) fn charge(&mut self, now: Instant, member: M, settings: &QueueSettings) {
        self.turn += 1;
        if let Some(member) = self.all.get_mut(&member) {
            if let Some(bound) = member.bound(now, settings) {
                member.unanswered.send(now, bound);
            }
            member.credit.take_call();
            member.load += base::INVITE_WORK;
            member.turn = self.turn;
        }
    }

    /// Time at which a member without room will have some, if it answers nothing until then.
    pub(super) fn next_credit(&self, now: Instant, settings: &QueueSettings) -> Option<Instant> {
        let next = |member: &Member| {
            let capacity = member.capacity(now, settings);
            let next = member.open.then(|| member.credit.next_call(now, capacity, settings.accrual))??;
            let is_full =
                member.bound(now, settings).is_some_and(|bound| !member.unanswered.has_room(now, bound));
            let probe = member.unanswered.probe_at().filter(|_| is_full);
            Some(probe.map_or(next, |probe| next.max(probe)))
        };
        self.all.values().filter_map(next).min()
    }

    pub(super) fn views(
        &self,
        now: Instant,
        settings: &QueueSettings,
    ) -> impl Iterator<Item = (M, MemberView)> {
        self.all.iter().map(move |(name, member)| {
            let capacity = member.capacity(now, settings);
            let mut credit = member.credit;
            credit.accrue(now, capacity, settings.accrual);
            let view = MemberView {
                capacity,
                credit: credit.left(),
                unanswered: member.unanswered.count(),
                unanswered_most: member.bound(now, settings).unwrap_or(f64::INFINITY),
                silent: member.announced.is_silent(now, settings.validity),
                open: member.open,
            };
            (*name, view)
        })
    }
}

impl Member {
    /// Capacity that counts. While updates are missing, it is unknown whether the server is slow or the updates are
    /// lost. The decayed capacity is too little for a healthy server, so a larger estimate is used if there is one.
    fn capacity(&self, now: Instant, settings: &QueueSettings) -> f64 {
        let held = self.announced.capacity(now, settings.validity);
        if self.announced.is_silent(now, settings.validity) { held.max(self.estimated) } else { held }
    }

    /// Rate at which the member may get calls: its capacity, or its present pace of responses if accrual uses
    /// responses. A capacity of zero gives zero.
    fn rate(&self, now: Instant, settings: &QueueSettings) -> f64 {
        let capacity = self.capacity(now, settings);
        match (settings.accrual, self.unanswered.pace(now)) {
            (Accrual::Answers { most }, Some(pace)) if capacity > 0.0 => capacity.max(pace.min(most)),
            _ => capacity,
        }
    }

    /// Uses the present value of a decaying capacity, so that credit never exceeds the income at the announced
    /// capacity.
    fn accrue(&mut self, now: Instant, settings: &QueueSettings) {
        self.unanswered.expire(now);
        self.credit.accrue(now, self.capacity(now, settings), settings.accrual);
    }

    /// Most unanswered calls; `None` without a threshold.
    fn bound(&self, now: Instant, settings: &QueueSettings) -> Option<f64> {
        let capacity = self.capacity(now, settings);
        let by_pace = matches!(settings.accrual, Accrual::Answers { .. });
        settings.threshold.map(|threshold| self.unanswered.bound(now, capacity, threshold, by_pace))
    }

    /// Free part of its bound or credit.
    fn room(&self, now: Instant, settings: &QueueSettings) -> f64 {
        match (settings.accrual, self.bound(now, settings)) {
            (Accrual::Answers { .. }, Some(bound)) => 1.0 - self.unanswered.count() as f64 / bound,
            _ => self.credit.part(self.capacity(now, settings), settings.accrual),
        }
    }

    fn has_room(&self, now: Instant, settings: &QueueSettings) -> bool {
        self.open
            && self.credit.has_call()
            && self.bound(now, settings).is_none_or(|bound| self.unanswered.has_room(now, bound))
    }
}
