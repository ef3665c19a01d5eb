//! Late binding after the fact: a call that its first member leaves quite unanswered goes to a second one of the pool as well, where
//! that has room in the queue. The proxy's core has them race ([`Router::patience`](::proxy::Router::patience)); here is who the
//! second one is, and with whom of the two the balancer counts the call.

use super::attempts::{Assigned, Assigner};
use super::editor::{Received, Way};
use ::proxy::Attempt;
use balance::{Decision, Request, Slot};
use base::Instant;

/// The attempt that a request moves by.
pub(super) const SECOND: Attempt = Attempt { branch: 1, alternate: 0 };

/// A request that a second member has got because the first one was silent. The balancer counts it with the second one, and those
/// that are tried after that, unless the first one answers first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    /// When the first one got it.
    since: Instant,
    /// How many had got it when the first one was the first to answer after all, if it was.
    back: Option<usize>,
}

impl Assigned {
    /// The place of an attempt among those tried. A request that forks has no alternates, one that does not has one branch, and of
    /// one that has moved no more than one of the two branches goes on to alternates.
    pub(super) fn place_of(&self, attempt: Attempt) -> usize {
        let (branch, alternate) = (usize::from(attempt.branch), usize::from(attempt.alternate));
        match &self.moved {
            Some(moved) if branch == 0 && alternate > 0 => {
                moved.back.unwrap_or(self.tried.len()) + alternate - 1
            }
            Some(_) | None => branch + alternate,
        }
    }

    /// Whether the balancer counts it with this member.
    pub(super) fn counts_with(&self, slot: Slot) -> bool {
        match &self.moved {
            Some(moved) if moved.back == Some(self.tried.len()) => self.tried.first() == Some(&slot),
            Some(_) => self.tried.last() == Some(&slot),
            None => true,
        }
    }

    /// When it went to this member, which is the present one or the first.
    pub(super) fn since_of(&self, slot: Slot) -> Instant {
        let is_first = self.tried.first() == Some(&slot);
        self.moved.filter(|_| is_first).map_or(self.since, |moved| moved.since)
    }
}

impl Received {
    /// Whether what this member says of it is the balancer's affair.
    pub(super) fn counts_with(&self, slot: Option<Slot>) -> bool {
        match (&self.way, slot) {
            (Way::Pool(assigned), Some(slot)) => assigned.counts_with(slot),
            _ => true,
        }
    }
}

impl Assigner<'_> {
    /// The second member for a request that only the first one has got: once, and with a retry of the budget, so that moving never
    /// multiplies load.
    pub(super) fn second(&mut self, assigned: &mut Assigned, is_noted: bool, call_id: &[u8]) -> Option<Slot> {
        let [first] = assigned.tried[..] else { return None };
        let (rule, pool) = (assigned.rule.as_ref().map(|(_, rule)| *rule), assigned.request.pool);
        if !is_noted || !self.budgets.of(rule).may_retry(self.now) {
            return None;
        }
        let with_room = self.queues.as_deref_mut()?.another(self.now, pool, first, self.balancer)?;
        let request = Request { call_id, ..assigned.request };
        let decision = match self.balancer.move_to(self.now, &request, with_room) {
            // Its last place has gone to somebody else meanwhile.
            Decision::NoServer => self.balancer.again(self.now, &request, &assigned.tried),
            decision => decision,
        };
        let Decision::Forward { slot, .. } = decision else { return None };
        self.budgets.of(rule).retry(self.now);
        assigned.moved = Some(Moved { since: assigned.since, back: None });
        assigned.tried.push(slot);
        assigned.since = self.now;
        Some(slot)
    }

    /// One of two members has answered first: if it is the one that the request has moved from, it counts there again.
    pub(super) fn answers_first(&mut self, assigned: &mut Assigned, attempt: Attempt, call_id: &[u8]) {
        let place = assigned.place_of(attempt);
        let (Some(&slot), Some(moved)) = (assigned.tried.get(place), assigned.moved) else { return };
        let request = Request { call_id, ..assigned.request };
        if !assigned.counts_with(slot)
            && let Decision::Forward { .. } = self.balancer.move_back(self.now, &request, slot, moved.since)
        {
            assigned.moved = Some(Moved { back: Some(assigned.tried.len()), ..moved });
        }
    }
}
