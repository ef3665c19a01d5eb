//! What keeps each member from more than it can do: the most calls a second, and the limit that is found from its
//! answers.

use crate::{Node, NodeRefusal, Slot};
use base::Instant;
use core::time::Duration;
use overload::member::{MemberLaw, MemberLimit, RateCap, Work};
use std::sync::Arc;
use wire::Method;

/// How the limits of a member stand in one shard: the limit that is found from its answers, and `max_rate`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberRoom {
    /// The law of the limit that is found; `None`: no such limit is looked for.
    pub law: Option<MemberLaw>,
    /// New requests without any answer; 0 where no limit is looked for.
    pub open: u32,
    /// How many there may be; `None` while nothing shows that the member has too much to do.
    pub limit: Option<u32>,
    /// The limit that keeps a new call without priority from it now, if one does.
    pub refusal: Option<NodeRefusal>,
}

/// Of one member.
#[derive(Debug, Default)]
struct Guard {
    limit: Option<Box<MemberLimit>>,
    /// The most new calls a second, and the bucket that counts them for all shards.
    rate: Option<(u32, Arc<RateCap>)>,
}

/// Those of all members.
#[derive(Debug, Default)]
pub(crate) struct Guards {
    /// By slot.
    slots: Vec<Guard>,
    /// Unix time of [`Instant::ZERO`].
    epoch: Duration,
    /// Whether any member has a limit.
    is_any: bool,
}

fn work(method: Method) -> Work {
    match method {
        Method::Invite => Work::Invite,
        Method::Register => Work::Register,
        Method::Bye => Work::Bye,
        _ => Work::Other,
    }
}

impl Guards {
    /// Only while there is no node.
    pub(crate) fn set_epoch(&mut self, epoch: Duration) {
        self.epoch = epoch;
    }

    pub(crate) fn grow(&mut self, count: usize) {
        self.slots.resize_with(count.max(self.slots.len()), Guard::default);
    }

    /// Takes over what keeps a member; what it has shown stays, unless the law is another one.
    pub(crate) fn configure(&mut self, slot: Slot, law: Option<MemberLaw>, node: &Node) {
        let guard = &mut self.slots[slot.index()];
        if guard.limit.as_ref().map(|limit| limit.law()) != law {
            guard.limit = law.map(|law| Box::new(MemberLimit::new(law).with_epoch(self.epoch)));
        }
        guard.rate = (node.max_rate > 0).then(|| (node.max_rate, Arc::clone(&node.rate_cap)));
        self.is_any |= guard.limit.is_some() || guard.rate.is_some();
    }

    /// Another node has the slot.
    pub(crate) fn forget(&mut self, slot: Slot) {
        self.slots[slot.index()] = Guard::default();
    }

    /// The member has died: it answers nothing of what it had.
    pub(crate) fn dies(&mut self, slot: Slot) {
        if let Some(limit) = &mut self.slots[slot.index()].limit {
            limit.forget_open();
        }
    }

    /// The member is back since then, or may be: it begins with little.
    pub(crate) fn returns(&mut self, slot: Slot, since: Instant) {
        if let Some(limit) = &mut self.slots[slot.index()].limit {
            limit.restart(since);
        }
    }

    /// Why a member gets no new request of this method for now, if it does not. `is_limited`: the limit that was
    /// found holds.
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

    /// A new request goes to a member.
    pub(crate) fn sent(&mut self, now: Instant, slot: Slot, method: Method) {
        let guard = &mut self.slots[slot.index()];
        if let Some((rate, cap)) = guard.rate.as_ref().filter(|_| method == Method::Invite) {
            cap.take(now, *rate);
        }
        if let Some(limit) = &mut guard.limit {
            limit.sent(now);
        }
    }

    /// A member has answered a new request that was sent then. Only its first answer tells of the member: a 503 after
    /// a provisional answer is about one call, such as a dead trunk or a busy callee. Refusals other than 503 may be
    /// the callers' fault and say nothing.
    pub(crate) fn answered(
        &mut self,
        now: Instant,
        slot: Slot,
        (method, sent): (Method, Instant),
        status: u16,
        is_first: bool,
    ) {
        let Some(limit) = self.slots[slot.index()].limit.as_mut().filter(|_| is_first) else { return };
        if status == 503 {
            limit.lost(now, sent);
        } else {
            let works = status < 400 || matches!(status, 401 | 407);
            limit.answered(now, work(method), sent, works);
        }
    }

    /// A member has answered a request within a dialog that was sent then. What others answer within dialogs passes
    /// through it; a BYE it answers itself, or at once.
    pub(crate) fn noted(&mut self, now: Instant, slot: Slot, (method, sent): (Method, Instant)) {
        if let Some(limit) = self.slots[slot.index()].limit.as_mut().filter(|_| method == Method::Bye) {
            limit.noted(now, Work::Bye, sent);
        }
    }

    /// A new request that was sent then is over without any answer. `timed_out`: it had its time.
    pub(crate) fn left(&mut self, now: Instant, slot: Slot, sent: Instant, timed_out: bool) {
        match &mut self.slots[slot.index()].limit {
            Some(limit) if timed_out => limit.lost(now, sent),
            Some(limit) => limit.left(sent),
            None => {}
        }
    }

    /// Whether any member has, or had, a limit.
    pub(crate) fn is_any(&self) -> bool {
        self.is_any
    }

    /// How the limits of a member stand, where it has any.
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
            refusal: self.refusal(now, slot, Method::Invite, (true, false)),
        })
    }
}
