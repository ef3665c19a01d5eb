//! Late binding after the fact: a call that its first member leaves quite unanswered goes to a second one of the pool
//! as well, where that has room in the queue. The proxy's core has them race
//! ([`Router::patience`](::proxy::Router::patience)); here is who the second one is, and with whom of the two the
//! balancer counts the call: with the second one, and those that are tried after it, unless the first one is the
//! first to answer. In the end it counts with whoever has sent the first 2xx.

use super::assigned::{Assigned, Moved, SECOND};
use super::form::Assigner;
use ::proxy::Attempt;
use balance::{Decision, Request, Slot};

impl Assigner<'_> {
    /// The second member for a request that only the first one has got: once, and with a retry of the budget, so that
    /// moving never multiplies load.
    pub(super) fn second(&mut self, assigned: &mut Assigned, call_id: &[u8]) -> Option<Slot> {
        let [first] = assigned.tried[..] else { return None };
        let pool = assigned.request.pool;
        // The pool may have lost it, or be gone, since a reload.
        let is_of_pool = self.balancer.nodes_of(pool).any(|slot| slot == first);
        if !is_of_pool || !self.budgets.of(assigned.rule.as_ref()).may_retry(self.now) {
            return None;
        }
        let queues = self.queues.as_deref_mut()?;
        let other = queues.other(self.now, pool, first, self.balancer)?;
        let request = Request { call_id, ..assigned.request };
        // Another shard may have taken its last place.
        let Decision::Forward { slot, .. } = self.balancer.move_to(self.now, &request, other) else {
            return None;
        };
        queues.moved(self.now, pool, request.key, first, assigned.since, slot);
        self.budgets.of(assigned.rule.as_ref()).retry(self.now);
        assigned.moved = Some(Moved { since: [assigned.since, self.now], holder: 0, by_second: 0 });
        assigned.give(self.now, SECOND, slot);
        Some(slot)
    }

    /// The member of this attempt cannot be sent to: a call that it had from the queue is not with it.
    pub(super) fn not_sent(&mut self, assigned: &Assigned, attempt: Attempt) {
        let Some(place) = assigned.place_of(attempt).filter(|_| !assigned.is_fixed) else { return };
        let since = match &assigned.moved {
            Some(moved) => moved.since.get(place).copied(),
            None => (place == 0).then_some(assigned.since),
        };
        if let (Some(since), Some(queues)) = (since, self.queues.as_deref_mut()) {
            queues.taken_back(self.now, assigned.request.pool, assigned.tried[place], since);
        }
    }

    /// One of two members has answered first, or has sent the first 2xx: it counts there from now on.
    pub(super) fn answers_first(
        &mut self,
        assigned: &mut Assigned,
        attempt: Attempt,
        is_cancelled: bool,
        call_id: &[u8],
    ) {
        let (Some(place), Some(moved)) = (assigned.place_of(attempt), &mut assigned.moved) else { return };
        let before = core::mem::replace(&mut moved.holder, place);
        if before == place {
            return;
        }
        let [since, since_before] =
            [place, before].map(|place| moved.since.get(place).copied().unwrap_or(assigned.since));
        let request = Request { call_id, ..assigned.request };
        let slot = assigned.tried[place];
        let was_silent = self.balancer.move_back(self.now, &request, (slot, since), is_cancelled);
        let is_second = assigned.slot_of(SECOND) == Some(assigned.tried[before]);
        if let Some(queues) = self.queues.as_deref_mut().filter(|_| was_silent && is_second) {
            queues.taken_back(self.now, assigned.request.pool, assigned.tried[before], since_before);
        }
    }
}
