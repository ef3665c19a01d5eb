//! Time-outs of sessions and transactions.

use super::{EXPIRE_BUDGET, SessionStore};
use crate::outlier::Outcome;
use crate::session::Session;
use crate::transaction::Transaction;
use crate::{Direction, EndReason, RequestFacts, Sign, Slot};
use base::Instant;

impl SessionStore {
    /// Ends the sessions, transactions and leases that are due, up to a limit. Call it again while [`Self::deadline`]
    /// is not after `now`.
    pub(crate) fn expire(&mut self, now: Instant) -> usize {
        let mut done = 0;
        while done < EXPIRE_BUDGET {
            if let Some((_, key)) = self.timers.pop(now).or_else(|| self.unanswered.pop(now)) {
                self.time_out(now, key);
            } else if let Some((_, at)) = self.held_timers.pop(now) {
                let lease = self.held.remove(at).expect("a held lease lives as long as its timer");
                self.end_transaction(lease, EndReason::Failure);
            } else if let Some((_, slot, since)) = self.left.pop_front_if(|(due, ..)| *due <= now) {
                if self.evidence[slot.index()].is_silent_since(since) {
                    self.signs.push(Sign::NoAnswer { slot, silent: true });
                }
            } else if let Some(session) = self.table.pop_due(now) {
                self.forget(session, EndReason::CallEnded);
            } else if let Some(at) = self.lost_from.take() {
                done += self.end_lost(now, at, EXPIRE_BUDGET - done);
            } else {
                break;
            }
            done += 1;
        }
        done
    }

    /// Ends answered calls whose leases ended because their nodes lost the calls: these calls may never get a BYE.
    /// Checks up to `most` sessions from `at` on; returns the number checked.
    pub(super) fn end_lost(&mut self, now: Instant, at: u32, most: usize) -> usize {
        let is_lost = |session: &Session| {
            session.has_dialogs()
                && session.call.as_ref().is_some_and(|lease| !self.leases.is_call_live(lease))
        };
        let mut walk = self.table.iter_from(at);
        let (mut seen, mut lost) = (0, Vec::new());
        for (at, session) in walk.by_ref().take(most) {
            seen += 1;
            lost.extend(is_lost(session).then_some(at));
        }
        let next = walk.next().map(|(at, _)| at);
        drop(walk);
        self.lost_from = next;
        for at in lost {
            self.finish(now, at);
        }
        seen
    }

    pub(super) fn time_out(&mut self, now: Instant, key: u32) {
        let open = &self.transactions[key];
        let (at, slot, of) = (open.session, open.lease.slot(), (open.id.method, open.dialog));
        let failed = !open.answered;
        let started = open.started;
        if failed && open.id.direction == Direction::ToPool {
            self.no_answer(slot, started);
        }
        if failed {
            // It is unknown whether another node would have answered the request.
            self.tally(now, key, Outcome::Failure);
        }
        self.leave_unanswered(now, key, true);
        self.close(key, EndReason::TimedOut);
        self.advance(now, at, of, 408);
    }

    /// Records that another node answered an INVITE which this node, sent at `since`, left without a response. This is
    /// a server failure unless the node has answered other INVITEs meanwhile; then the caller may be the cause.
    pub(crate) fn is_passed_by(&mut self, now: Instant, slot: Slot, since: Instant) {
        if self.evidence[slot.index()].serves_no_call_since(since) {
            self.count_outcome(now, slot, Outcome::ServerFailure, false);
        }
    }

    /// Records that a node gave no response to a request sent at `since`.
    pub(crate) fn no_answer(&mut self, slot: Slot, since: Instant) {
        let silent = self.evidence[slot.index()].is_silent_since(since);
        self.signs.push(Sign::NoAnswer { slot, silent });
    }

    /// Times a request out early: it is already known that no response will come.
    pub(crate) fn unanswered(&mut self, now: Instant, request: &RequestFacts<'_>) {
        if let Some(key) = self.open_transaction(request) {
            let Transaction { timer, unanswered, .. } = self.transactions[key];
            self.wheel(unanswered).cancel(timer);
            self.time_out(now, key);
        }
    }
}
