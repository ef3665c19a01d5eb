//! Further next hops for an INVITE that earlier ones leave without a response ([`Router::patience`]). The first next
//! hop that answers wins the call.
//!
//! This is a hedged request. A silent next hop may have missed the INVITE, may hang, or may be about to answer. Its
//! branch cannot be cancelled, since a CANCEL has to wait for a provisional response (RFC 3261 §9.1). So all next hops
//! keep the INVITE until one of them answers anything but 503.
//!
//! Then the other branches are cancelled as in a fork: at once, or after their first provisional response. The failures
//! of these branches are dropped, and the response context does not wait for them.
//!
//! A 2xx that crosses the CANCEL is forwarded like every 2xx (§16.7 step 5). If it is the first 2xx, its sender wins
//! the request in place of the earlier winner. Otherwise the caller ends all dialogs but one (§13.2.2.4).

use super::Proxy;
use crate::branches::BranchEntry;
use crate::context::ContextEvent;
use crate::medium::{Form, ProxyStep, Router};
use crate::table::{Place, Race};
use transaction::TransactionKey;

/// The only response that does not decide the race: it concerns the next hop and not the call (RFC 3261 §21.5.4).
const UNAVAILABLE: u16 = 503;

/// Number of retransmissions that a silent next hop still gets after another one has answered. Its provisional response
/// may have been lost, and without a provisional response its branch cannot be cancelled.
const LOSERS_COPIES: u8 = 2;

impl<F: Form> Proxy<F> {
    /// Handles the timer of a request that belongs to none of its branches.
    pub(super) fn time_over(&mut self, at: u32, step: &mut ProxyStep<'_, F>) {
        let request = self.table[at].request.as_ref();
        if request.is_some_and(|request| step.router.patience(request).is_some()) {
            self.next_beside(at, step);
        } else {
            self.ring_time_over(at, step);
        }
    }

    /// Sends the INVITE to a further next hop if all earlier ones have been silent for too long.
    fn next_beside(&mut self, at: u32, step: &mut ProxyStep<'_, F>) {
        let entry = &self.table[at];
        // A branch that is cancelled has lost the race.
        let has_it = |place: &Place| !self.table[*place].state.is_cancelled();
        let places = (0..entry.branches.len()).map(|branch| Place { at, branch });
        let Some(last) = places.rev().find(has_it) else { return };
        // RFC 5393 §5.3.3: this next hop needs a share of Max-Breadth, and so do later ones.
        let breadth = (entry.breadth - entry.branches.breadth()).div_ceil(2);
        let is_heard = |BranchEntry { state, .. }: &BranchEntry| {
            !state.is_finished() && !state.is_silent() && !state.is_cancelled()
        };
        let are_silent = !matches!(entry.race, Race::Won(_)) && !entry.branches.iter().any(is_heard);
        let may_begin = entry.branches.len() < self.most_branches && entry.context.is_open() && breadth > 0;
        if are_silent && may_begin {
            // Only the last branch may try alternates. Otherwise one failure could cause two further attempts.
            self.table[last].state.set_alternate(false);
            if self.add_branch(at, breadth, step) {
                (self.table[at].race, self.table[at].looks) = (Race::Open, 0);
                self.watch_silence(at, step);
            } else {
                self.restore_alternates(last, step);
                self.look_again(at, step);
            }
        }
    }

    /// Starts the timer that waits for the first response of a next hop that has just got an INVITE.
    pub(super) fn watch_silence(&mut self, at: u32, step: &mut ProxyStep<'_, F>) {
        let request = self.table[at].request.as_ref();
        if let Some(patience) = request.and_then(|request| step.router.patience(request)) {
            self.table.set_ring(at, step.now + patience);
        }
    }

    /// Schedules another search for a next hop, as there is none now. The interval doubles with every second search.
    fn look_again(&mut self, at: u32, step: &mut ProxyStep<'_, F>) {
        let entry = &mut self.table[at];
        let times = 1_u32 << (entry.looks / 2).min(20);
        entry.looks = entry.looks.saturating_add(1);
        if let Some(patience) = entry.request.as_ref().and_then(|request| step.router.patience(request)) {
            self.table.set_ring(at, step.now + patience.saturating_mul(times));
        }
    }

    fn restore_alternates(&mut self, place: Place, step: &mut ProxyStep<'_, F>) {
        let entry = &mut self.table[place.at];
        if let (Some(request), Some(branch)) = (entry.request.as_ref(), entry.branches.get_mut(place.branch))
        {
            branch.state.set_alternate(step.router.has_alternate(request, branch.attempt));
        }
    }

    /// If this response decides which next hop has a request, records the decision and reports it to the router.
    /// [`response`](Self::response) calls it first. A user of the proxy that needs the result before it inspects the
    /// response calls `decide` itself.
    pub fn decide(&mut self, key: TransactionKey, status: u16, step: &mut ProxyStep<'_, F>) {
        let found = self.layer.find_client(key).and_then(|id| Some((id, *self.layer.user(id)?)));
        let Some(place) = found.and_then(|(id, leg)| self.table.of_client(id, leg)) else { return };
        let entry = &self.table[place.at];
        let is_success = (200..300).contains(&status);
        let decides = match entry.race {
            Race::None => false,
            Race::Open => {
                let may_win = !self.table[place].state.is_finished() && !self.has_lost_race(place);
                is_success || status != UNAVAILABLE && may_win
            }
            Race::Won(branch) => is_success && branch != place.branch,
        };
        if !decides || entry.context.is_finished() {
            return;
        }
        let entry = &mut self.table[place.at];
        entry.race = Race::Won(place.branch);
        if let (Some(request), Some(branch)) = (entry.request.as_mut(), entry.branches.get(place.branch)) {
            step.router.won(request, branch.attempt, branch.state.is_cancelled());
        }
        self.restore_alternates(place, step);
        self.cancel_but(place.at, Some(place.branch), step);
        let others = self.table[place.at].branches.iter().enumerate();
        let others = others.filter(|(branch, _)| *branch != usize::from(place.branch));
        for (_, branch) in others.filter(|(_, branch)| branch.state.is_silent()) {
            if let Some(client) = branch.client {
                self.layer.limit_repeats(client, LOSERS_COPIES);
            }
        }
    }

    /// Whether this branch was cancelled because another one had won the request, and not by the caller. The winner may
    /// since have changed to an alternate.
    fn has_lost_race(&self, place: Place) -> bool {
        self.table[place].state.is_cancelled() && self.table[place.at].context.is_open()
    }

    /// Event of the response context for the end of a branch with this failure.
    pub(super) fn failure_of(&self, place: Place, status: u16) -> ContextEvent {
        match self.table[place.at].race {
            Race::Won(branch) if branch == place.branch => ContextEvent::Decided(status),
            // RFC 3261 §16.7 step 5: a 6xx concerns the call, whichever next hop sends it.
            Race::Won(_) if status < 600 => ContextEvent::Silence,
            Race::Open if status < 600 && self.has_lost_race(place) => ContextEvent::Silence,
            Race::Won(_) | Race::None | Race::Open => ContextEvent::Failure(status),
        }
    }
}
