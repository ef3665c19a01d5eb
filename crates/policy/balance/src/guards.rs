//! Limits of each member: the configured rate of new calls, and the limit measured from its responses.

use crate::{Node, NodeRefusal, Slot};
use base::Instant;
use core::time::Duration;
use overload::member::{MemberLaw, MemberLimit, RateCap, RequestKind};
use std::sync::Arc;
use wire::Method;

/// State of a member's limits in one shard: the measured limit, and `max_rate`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MemberRoom {
    /// Law of the measured limit; `None` if there is no such limit.
    pub law: Option<MemberLaw>,
    /// Unanswered new requests; 0 without a measured limit.
    pub open: u32,
    /// Most unanswered new requests; `None` while nothing shows that the member is overloaded.
    pub limit: Option<u32>,
    /// Time since this limit is in force.
    pub limited_for: Option<Duration>,
    /// Most responses a second that the member has sent lately, which is its capacity if it was overloaded.
    pub pace: Option<f64>,
    /// Limit that refuses a new call without priority now; `None` if there is room.
    pub refusal: Option<NodeRefusal>,
}

/// Limits of one member.
#[derive(Debug, Default)]
struct Guard {
    limit: Option<Box<MemberLimit>>,
    /// Most new calls a second, and the bucket that counts them for all shards.
    rate: Option<(u32, Arc<RateCap>)>,
}

/// Limits of all members.
#[derive(Debug, Default)]
pub(crate) struct Guards {
    /// Limits of the members, by slot.
    slots: Vec<Guard>,
    /// Unix time of [`Instant::ZERO`].
    epoch: Duration,
    /// Whether any member has a limit.
    is_any: bool,
    /// Time since the present message arrived at this process.
    waited: Duration,
}

fn work(method: Method) -> RequestKind {
    match method {
        Method::Invite => RequestKind::Invite,
        Method::Register => RequestKind::Register,
        Method::Bye => RequestKind::Bye,
        _ => RequestKind::Other,
    }
}

impl Guards {
    /// Sets the epoch. Call it before the first node.
    pub(crate) fn set_epoch(&mut self, epoch: Duration) {
        self.epoch = epoch;
    }

    pub(crate) fn set_waited(&mut self, waited: Duration) {
        self.waited = waited;
    }

    /// Time at which the present message arrived. Otherwise members would seem slow when this process is.
    fn arrival(&self, now: Instant) -> Instant {
        Instant::from_nanos(now.as_nanos().saturating_sub(self.waited.as_nanos() as u64))
    }

    pub(crate) fn grow(&mut self, count: usize) {
        self.slots.resize_with(count.max(self.slots.len()), Guard::default);
    }

    /// Sets the limits of a member. Its measurements stay, unless the law changes.
    pub(crate) fn configure(&mut self, slot: Slot, law: Option<MemberLaw>, node: &Node) {
        let guard = &mut self.slots[slot.index()];
        if guard.limit.as_ref().map(|limit| limit.law()) != law {
            guard.limit = law.map(|law| Box::new(MemberLimit::new(law).with_epoch(self.epoch)));
        }
        guard.rate = (node.max_rate > 0).then(|| (node.max_rate, Arc::clone(&node.rate_cap)));
        self.is_any |= guard.limit.is_some() || guard.rate.is_some();
    }

    /// Resets a slot that goes to another node.
    pub(crate) fn forget(&mut self, slot: Slot) {
        self.slots[slot.index()] = Guard::default();
    }

    /// Drops the open requests of a member that died, since it will not answer them.
    pub(crate) fn dies(&mut self, slot: Slot) {
        if let Some(limit) = &mut self.slots[slot.index()].limit {
            limit.forget_open();
        }
    }

    /// Restarts the limit of a member that is back, or may be back, since `since`. The limit starts low.
    pub(crate) fn returns(&mut self, slot: Slot, since: Instant) {
        if let Some(limit) = &mut self.slots[slot.index()].limit {
            limit.restart(since);
        }
    }

    /// Limit that refuses a new request of this method to a member; `None` if there is room. `is_limited`: the measured
    /// limit applies.
    pub(crate) fn refusal(
        &self,
        now: Instant,
        slot: Slot,
        method: Method,
        (is_limited, has_priority): (bool, bool),
    ) -> Option<NodeRefusal> {
        let guard = &self.slots[slot.index()];
        let rate = guard.rate.as_ref().filter(|_| method == Method::Invite);
        if rate.is_some_and(|(rate, cap)| !cap.has_room(now, *rate, has_priority)) {
            return Some(NodeRefusal::Rate);
        }
        let limit = guard.limit.as_ref().filter(|_| is_limited);
        limit.is_some_and(|limit| !limit.has_room(now, has_priority)).then_some(NodeRefusal::Limit)
    }

    /// Counts a new request to a member.
    pub(crate) fn sent(&mut self, now: Instant, slot: Slot, method: Method) {
        let guard = &mut self.slots[slot.index()];
        if let Some((rate, cap)) = guard.rate.as_ref().filter(|_| method == Method::Invite) {
            cap.take(now, *rate);
        }
        if let Some(limit) = &mut guard.limit {
            limit.sent(now);
        }
    }

    /// Measures a response to a new request that was sent at `sent`. Only the first response counts: a 503 after a
    /// provisional response concerns one call, such as a failed trunk or a busy callee. Error responses other than 503
    /// may be the caller's fault, so they do not count.
    pub(crate) fn answered(
        &mut self,
        now: Instant,
        slot: Slot,
        (method, sent): (Method, Instant),
        status: u16,
        is_first: bool,
    ) {
        let now = self.arrival(now);
        let Some(limit) = self.slots[slot.index()].limit.as_mut().filter(|_| is_first) else { return };
        if status == 503 {
            limit.lost(now, sent);
        } else {
            let works = status < 400 || matches!(status, 401 | 407);
            limit.answered(now, work(method), sent, works);
        }
    }

    /// Measures a response to a request within a dialog, sent at `sent`. Only BYE counts, since a member answers it
    /// itself, or the other side answers at once. The responses to other requests may come from the other side, through
    /// the member.
    pub(crate) fn noted(&mut self, now: Instant, slot: Slot, (method, sent): (Method, Instant)) {
        let now = self.arrival(now);
        if let Some(limit) = self.slots[slot.index()].limit.as_mut().filter(|_| method == Method::Bye) {
            limit.noted(now, RequestKind::Bye, sent);
        }
    }

    /// Counts a new request, sent at `sent`, that ended without any response. `timed_out`: its time was over.
    pub(crate) fn left(&mut self, now: Instant, slot: Slot, sent: Instant, timed_out: bool) {
        match &mut self.slots[slot.index()].limit {
            Some(limit) if timed_out => limit.lost(now, sent),
            Some(limit) => limit.left(sent),
            None => {}
        }
    }

    /// Whether any member has or had a limit.
    pub(crate) fn is_any(&self) -> bool {
        self.is_any
    }

    /// State of a member's limits; `None` if the member has no limits.
    pub(crate) fn room(&self, now: Instant, slot: Slot) -> Option<MemberRoom> {
        let guard = self.slots.get(slot.index())?;
        let limit = guard.limit.as_ref();
        if limit.is_none() && guard.rate.is_none() {
            return None;
        }
        Some(MemberRoom {
            law: limit.map(|limit| limit.law()),
            open: limit.map_or(0, |limit| limit.open(now)),
            limit: limit.and_then(|limit| limit.limit(now)),
            limited_for: limit.and_then(|limit| limit.limited_for(now)),
            pace: limit.and_then(|limit| limit.pace(now)),
            refusal: self.refusal(now, slot, Method::Invite, (true, false)),
        })
    }
}
