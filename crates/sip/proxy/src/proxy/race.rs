//! A second next hop for an INVITE that the first one leaves quite unanswered ([`Router::patience`]): whoever answers
//! first has it.
//!
//! What is known as a hedged request. The first one may have lost it, stand still, or be about to answer: nobody can
//! tell, and it cannot be cancelled, since a CANCEL has to wait for a provisional response (RFC 3261 §9.1). So both
//! have it until one of them answers anything but 503. From then on the other is cancelled as the rest of a fork is:
//! at once or with its first provisional response. What it says of failures goes nowhere, and nobody waits for it. A
//! 2xx of it that crosses the CANCEL goes back as every 2xx does (§16.7 step 5): if it is the first one, the request
//! is its own after all, and if not the caller hangs up one of the two dialogs (§13.2.2.4).

use super::Proxy;
use crate::context::ContextEvent;
use crate::medium::{Form, ProxyStep, Router};
use crate::table::{Place, Race};
use transaction::TransactionKey;

/// The only answer that decides nothing: it speaks of the next hop and not of the call (RFC 3261 §21.5.4).
const UNAVAILABLE: u16 = 503;

/// How many copies of the request a silent one still gets that has lost: its first response may be what the network
/// has lost, and without another one it could not be cancelled.
const LOSERS_COPIES: u8 = 2;

impl<F: Form> Proxy<F> {
    /// The timer of a request that is none of its branches'.
    pub(super) fn time_over(&mut self, at: u32, step: &mut ProxyStep<'_, F>) {
        let request = self.table[at].request.as_ref();
        if request.is_some_and(|request| step.router.patience(request).is_some()) {
            self.second_hop(at, step);
        } else {
            self.ring_time_over(at, step);
        }
    }

    /// The first next hop has been silent for as long as it may.
    fn second_hop(&mut self, at: u32, step: &mut ProxyStep<'_, F>) {
        let entry = &self.table[at];
        let first = Place { at, branch: 0 };
        // RFC 5393 §5.3.3: the second needs a part of Max-Breadth, too.
        let breadth = entry.breadth - entry.branches.breadth();
        let is_alone = entry.branches.len() == 1 && self.most_branches > 1;
        if is_alone && entry.context.is_open() && self.table[first].state.is_silent() && breadth > 0 {
            // Only one of the two goes on to alternates, or more than two would have it.
            self.table[first].state.set_alternate(false);
            if self.add_branch(at, breadth, step) {
                self.table[at].race = Race::Open;
            } else {
                self.restore_alternates(first, step);
                self.look_again(at, step);
            }
        }
    }

    /// There is no second next hop now; there may be one later. The longer the first one is silent, the less often it
    /// is looked for: every other time after twice as long.
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

    /// A response is about to be given to [`response`](Self::response), which does this first: the router is told if
    /// it decides who has a request. By itself for whoever has to know that before he looks at the response.
    pub fn decide(&mut self, key: TransactionKey, status: u16, step: &mut ProxyStep<'_, F>) {
        let found = self.layer.find_client(key).and_then(|id| Some((id, *self.layer.user(id)?)));
        let Some(place) = found.and_then(|(id, leg)| self.table.of_client(id, leg)) else { return };
        let entry = &self.table[place.at];
        let is_success = (200..300).contains(&status);
        let decides = match entry.race {
            Race::None => false,
            Race::Open => is_success || status != UNAVAILABLE && !self.table[place].state.is_finished(),
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

    /// What the end of a branch with this failure means for the request.
    pub(super) fn failure_of(&self, place: Place, status: u16) -> ContextEvent {
        match self.table[place.at].race {
            Race::Won(branch) if branch == place.branch => ContextEvent::Decided(status),
            // RFC 3261 §16.7 step 5: a 6xx speaks of the call, whoever says it.
            Race::Won(_) if status < 600 => ContextEvent::Silence,
            Race::Won(_) | Race::None | Race::Open => ContextEvent::Failure(status),
        }
    }
}
