//! Progress of a request (RFC 3261 §16.7 to §16.10). Events go to the branches, results of branches go to the response
//! context, and the response context decides on actions.

use super::Proxy;
use crate::branch::{BranchAction, ProxyEvent};
use crate::collect::Collect;
use crate::context::{ContextAction, ContextEvent};
use crate::medium::{Form, Medium, ProxyStep, Router};
use crate::table::{Leg, Place, Race};
use base::{Instant, Operation};
use transaction::server::invite::ServerInviteState;
use transaction::{KeptMessage, Machine, New, Sending, StatusClass, TransactionKind, TransportKind};

/// The current response, with its status.
pub(super) type CurrentResponse<'a, 'b, F> =
    Option<(u16, &'a <<F as Form>::Message as KeptMessage>::Response<'b>)>;

impl<F: Form> Proxy<F> {
    /// Gives an event to a branch, carries out the actions, and frees unneeded memory.
    pub(super) fn feed(
        &mut self,
        place: Place,
        event: ProxyEvent,
        response: CurrentResponse<'_, '_, F>,
        step: &mut ProxyStep<'_, F>,
    ) {
        self.give(place, event, response, step);
        self.table.settle(place.at);
    }

    /// Gives an event to a branch and carries out the actions.
    fn give(
        &mut self,
        place: Place,
        event: ProxyEvent,
        response: CurrentResponse<'_, '_, F>,
        step: &mut ProxyStep<'_, F>,
    ) {
        let at = place.at;
        let actions = self.table[place].state.on(event);
        self.report_to_router(place, event, !actions.contains(&BranchAction::TryNext), step);
        for action in actions {
            match action {
                BranchAction::Provisional => self.tell(at, ContextEvent::Provisional, response, step),
                BranchAction::Success => self.tell(at, ContextEvent::Success, response, step),
                BranchAction::Failure(status) => {
                    let event = self.failure_of(place, status);
                    self.tell(at, event, response, step);
                }
                BranchAction::Silence => self.tell(at, ContextEvent::Silence, None, step),
                BranchAction::Cancel => self.send_cancel(place, step),
                BranchAction::SetTimerC => self.set_timer_c(step.now, place),
                BranchAction::StopTimerC => self.table.stop_timer_c(place),
                BranchAction::TryNext => self.try_next(place, event, step),
                BranchAction::Abandon => self.table[place].client = None,
            }
        }
    }

    /// Reports the first result of an attempt to the router.
    fn report_to_router(&mut self, place: Place, event: ProxyEvent, last: bool, step: &mut ProxyStep<'_, F>) {
        if matches!(event, ProxyEvent::Response(100) | ProxyEvent::Cancelled) {
            return;
        }
        let entry = &mut self.table[place.at];
        if let Some(request) = entry.request.as_mut()
            && let Some(branch) = entry.branches.get_mut(place.branch)
            && !core::mem::replace(&mut branch.settled, true)
        {
            step.router.settled(request, branch.attempt, event, last);
        }
    }

    /// Gives an event to a response context and carries out the actions.
    pub(super) fn tell(
        &mut self,
        at: u32,
        event: ContextEvent,
        response: CurrentResponse<'_, '_, F>,
        step: &mut ProxyStep<'_, F>,
    ) {
        let actions = self.table[at].context.on(event);
        let is_last = actions.iter().any(|action| matches!(action, ContextAction::Answer(_)));
        for action in &actions {
            match *action {
                ContextAction::Relay => self.relay(at, response, step),
                ContextAction::Keep => self.keep(at, response, is_last, step),
                ContextAction::AddChallenges => self.add_challenges(at, response, step),
                ContextAction::CancelRest => self.cancel_but(at, None, step),
                ContextAction::NextGroup => self.next_group(at, step),
                ContextAction::Answer(status) => self.answer_best(at, status, step),
                ContextAction::GiveUp => {
                    let server = self.table[at].server;
                    self.layer.abandon(step.now, server, &mut Collect::new(step.sink));
                }
            }
        }
        let has_ended = matches!(event, ContextEvent::Failure(_) | ContextEvent::Silence);
        if has_ended && self.table[at].waiting > 0 && self.table[at].context.may_go_on() {
            // RFC 5393 §5.3.3.1: the Max-Breadth of the ended branch is free again.
            self.next_group(at, step);
        }
    }

    /// §16.7 steps 3 and 9.
    fn relay(&mut self, at: u32, response: CurrentResponse<'_, '_, F>, step: &mut ProxyStep<'_, F>) {
        let Some((status, response)) = response else { return };
        let entry = &mut self.table[at];
        let server = entry.server;
        if let Some(message) = step.medium.relay(entry.request.answered(), response) {
            self.respond(server, status, message, step);
        } else if status >= 200
            && let Some(request) = self.table.take_request(at)
        {
            // The final response cannot be forwarded, so the previous hop gets a 500.
            self.answer(server, &request, 500, step);
        }
    }

    fn respond(
        &mut self,
        server: transaction::Id,
        status: u16,
        message: F::Message,
        step: &mut ProxyStep<'_, F>,
    ) {
        self.counters.relayed += 1;
        self.ledger.charge(Operation::Forward);
        let class = StatusClass::of(status);
        // §16.7 step 5: a 2xx is forwarded even if the server transaction has ended, or has already sent a failure.
        if class == StatusClass::Success && !self.takes_success(server) {
            return step.sink.send(&message, Sending::First);
        }
        self.layer.respond(step.now, server, class, message, &mut Collect::new(step.sink));
    }

    /// Whether a server transaction can send a 2xx.
    fn takes_success(&self, server: transaction::Id) -> bool {
        use ServerInviteState::{Completed, Confirmed};
        let machine = self.layer.machine(server);
        !matches!(machine, None | Some(Machine::ServerInvite(Completed | Confirmed)))
    }

    /// §16.7 step 4: keeps the best final response so far, in its forwarded form. For a 503, or without memory, only
    /// the status is kept, and the proxy makes the response itself.
    fn keep(
        &mut self,
        at: u32,
        response: CurrentResponse<'_, '_, F>,
        is_last: bool,
        step: &mut ProxyStep<'_, F>,
    ) {
        let has_memory = is_last || self.has_memory();
        let response = response.filter(|&(status, _)| status != 503 && has_memory);
        let answered = self.table[at].request.answered();
        let message = response.and_then(|(_, response)| step.medium.relay(answered, response));
        self.table.keep_best(at, message);
    }

    /// §16.7 step 7.
    fn add_challenges(&mut self, at: u32, response: CurrentResponse<'_, '_, F>, step: &mut ProxyStep<'_, F>) {
        if let (Some((_, response)), Some(mut best)) = (response, self.table.take_best(at)) {
            step.medium.add_challenges(&mut best, response);
            self.table.keep_best(at, Some(best));
        }
    }

    /// §16.7 step 6: forwards the best response.
    fn answer_best(&mut self, at: u32, status: u16, step: &mut ProxyStep<'_, F>) {
        let server = self.table[at].server;
        let Some(request) = self.table.take_request(at) else { return };
        match self.table.take_best(at) {
            Some(message) => {
                step.medium.concluded(&request, status, false);
                self.respond(server, status, message, step);
            }
            None => self.answer(server, &request, status, step),
        }
    }

    /// §16.7 step 10, §16.10: cancels every branch without a final response, each once, except the branch `kept`.
    pub(super) fn cancel_but(&mut self, at: u32, kept: Option<u8>, step: &mut ProxyStep<'_, F>) {
        for branch in 0..self.table[at].branches.len() {
            let place = Place { at, branch };
            if Some(branch) != kept && !self.table[place].state.is_finished() {
                self.table[place].state.set_alternate(false);
                self.give(place, ProxyEvent::Cancelled, None, step);
            }
        }
    }

    fn send_cancel(&mut self, place: Place, step: &mut ProxyStep<'_, F>) {
        let Some(client) = self.table[place].client else { return };
        if !self.layer.cancel(step.now, client, &mut Collect::new(step.sink)) {
            return;
        }
        let Some(invite) = self.layer.message(client) else { return };
        let (message, key) = step.medium.cancel(invite);
        self.counters.cancelled += 1;
        if !self.has_memory() {
            return step.sink.send(&message, Sending::First);
        }
        let transport = self.layer.transport(client).unwrap_or(TransportKind::Unreliable);
        let new = New { key, kind: TransactionKind::NonInvite, transport, user: Leg::Alone };
        self.layer.request(step.now, new, message, &mut Collect::new(step.sink));
    }

    /// RFC 3263 §4.3. `failure` is the result of the last attempt.
    fn try_next(&mut self, place: Place, failure: ProxyEvent, step: &mut ProxyStep<'_, F>) {
        let has_memory = self.has_memory();
        let entry = &mut self.table[place.at];
        let request = entry.request.as_mut().expect("a request is kept until it is answered");
        let branch = entry.branches.get_mut(place.branch).expect("the branch has just handled an event");
        step.router.failed(request, branch.attempt, failure);
        branch.attempt.alternate += 1;
        branch.settled = false;
        // Without memory no next hop is chosen, as the request would not be sent.
        let hop = if has_memory { step.router.next_hop(request, branch.attempt).ok() } else { None };
        let alternate = step.router.has_alternate(request, branch.attempt);
        branch.state.set_alternate(alternate && hop.is_some());
        match hop {
            Some(hop) => {
                self.counters.retried += 1;
                if entry.race == Race::Won(place.branch) {
                    // The alternate may be silent as well.
                    entry.race = Race::Open;
                }
                self.send_on(place, hop, step);
                self.watch_silence(place.at, step);
            }
            // There is no alternate, so the failure of the last attempt is the result.
            None => self.give(place, failure, None, step),
        }
    }

    pub(super) fn set_timer_c(&mut self, now: Instant, place: Place) {
        self.table.set_timer_c(place, now + self.timers.c);
    }
}
