//! Requests that wait, for the answer of a store or for room in a queue: their copies, and what comes of the wait.

use crate::arrival::Inbound;
use crate::counters::Drop;
use crate::home::{PendingRequest, WaitEnd};
use crate::hop_name::HopName;
use crate::path::Path;
use crate::progress::{Stage, Waited, Waiter};
use crate::question::StoreAnswer;
use crate::queue::{CALL_WAITS_TOO_LONG, Served};
use crate::rejection::{OwnResponse, Rejection, refused};
use balance::PoolId;
use base::Flow;
use wire::{Message, Method};

impl Path<'_> {
    /// Whether a request is a repetition of one that waits or was answered here, or the CANCEL of one that waits. It
    /// goes no further.
    pub(crate) fn is_of_waiting(&mut self, flow: Flow, message: &Message<'_>) -> bool {
        if message.fault().is_some() {
            return false;
        }
        self.home.as_deref_mut().is_some_and(|home| home.is_repeated(&mut self.step, flow, message))
            || self.is_queued(flow, message)
    }

    /// A copy of a call that waits in a queue goes no further; its CANCEL takes it out.
    fn is_queued(&mut self, flow: Flow, message: &Message<'_>) -> bool {
        let step = &mut self.step;
        let Some(queues) = step.queues.as_deref_mut() else { return false };
        match message.method() {
            Some(Method::Invite) => {
                let Some(tells) = queues.absorbs(message) else { return false };
                if tells {
                    step.edge.trying(flow, message, step.out);
                }
                true
            }
            Some(Method::Cancel) => {
                let Some(mut waiter) = queues.cancel(message) else { return false };
                step.answer(flow, message, OwnResponse::Cancelled);
                let terminated = refused(487, "Request Terminated").into();
                waiter.progress.refuse();
                self.refuse_waiter(waiter.flow, &waiter.bytes, waiter.progress.is_told, terminated);
                true
            }
            _ => false,
        }
    }

    /// Gives members what they have room for, and gives up what has waited too long.
    pub(crate) fn serve_queues(&mut self) {
        let step = &mut self.step;
        let Some(queues) = step.queues.as_deref_mut() else { return };
        let Served { due, released } = queues.serve(step.edge.now, step.balancer);
        for (pool, waited, waiter) in due {
            if let (Waited::Pulled(member), Some(queues)) = (waited, self.step.queues.as_deref_mut()) {
                queues.gives(pool, member);
            }
            self.take_up(waiter, Some((pool, waited)));
            // It may have been refused before anybody asked for a member.
            if let Some(queues) = self.step.queues.as_deref_mut() {
                queues.settle(self.step.edge.now, |_| false);
            }
        }
        for waiter in released {
            self.take_up(waiter, None);
        }
    }

    /// Takes up again a call that has waited in a queue. `waited` says how the wait ended, `None`: its queue is gone.
    fn take_up(&mut self, waiter: Waiter, waited: Option<(PoolId, Waited)>) {
        let Waiter { flow, bytes, mut progress } = waiter;
        progress.waited = waited;
        let is_told = progress.is_told;
        let Ok(message) = wire::scan(&bytes) else { return };
        match self.take(flow, &message, progress) {
            Ok(()) => self.step.edge.tell(flow, Some(&message), self.step.out),
            Err(rejection) => self.refuse_waiter(flow, &bytes, is_told, rejection),
        }
    }

    /// Gives a call that has waited what it gets instead of a member. A caller that `is_told`, by 100, sends no
    /// copies, which could be answered again where the answer is lost (RFC 3261 §17.1.1.2): it gets one in any case,
    /// and until it acknowledges that.
    fn refuse_waiter(&mut self, flow: Flow, bytes: &[u8], is_told: bool, rejection: Rejection) {
        let Ok(message) = wire::scan(bytes) else { return };
        let rejection = match rejection {
            Rejection::Dropped(Drop::QueueFull) if is_told => CALL_WAITS_TOO_LONG.into(),
            rejection => rejection,
        };
        match (rejection, self.stateful.as_deref_mut()) {
            (Rejection::Answered(own), Some(stateful)) if is_told && stateful.has_room(&message) => {
                stateful.answer_waiter(&mut self.step, flow, &message, own);
            }
            (rejection, _) => self.step.reject(flow, &message, rejection),
        }
        self.step.edge.tell(flow, Some(&message), self.step.out);
    }

    /// A store has answered the question with this number.
    pub(crate) fn answered(&mut self, number: u64, answer: StoreAnswer) {
        let now = self.step.edge.now;
        if let Some(request) = self.home.as_deref_mut().and_then(|home| home.take(now, Some(number))) {
            self.resume(request, WaitEnd::Answered(answer));
        }
    }

    /// The DNS has answered: what waits for the address of this name is taken up again.
    pub(crate) fn resolved(&mut self, name: &HopName) {
        let now = self.step.edge.now;
        let numbers = self.home.as_deref().map(|home| home.waiting().of_name(name)).unwrap_or_default();
        for number in numbers {
            if let Some(request) = self.home.as_deref_mut().and_then(|home| home.take(now, Some(number))) {
                self.resume(request, WaitEnd::Resolved);
            }
        }
    }

    /// Gives up what has waited too long for a store.
    pub(crate) fn expire_waiting(&mut self) {
        let now = self.step.edge.now;
        while let Some(request) = self.home.as_deref_mut().and_then(|home| home.take(now, None)) {
            self.resume(request, WaitEnd::Expired);
        }
    }

    /// A request waits no more: it has its answer, or none.
    fn resume(&mut self, request: PendingRequest, end: WaitEnd) {
        let PendingRequest { waiter, pending, is_cancelled, .. } = request;
        let Waiter { flow, bytes, mut progress } = waiter;
        let message = wire::scan(&bytes).expect("it was read when it came in");
        let sent = self.step.out.transmits().len();
        let Some(home) = self.home.as_deref_mut() else { return };
        let inbound = Inbound { flow, message: &message };
        let stage = home.resume(&mut self.step, inbound, pending, is_cancelled, end, &mut progress);
        let taken = match stage {
            Ok(Stage::GoesOn) => self.take(flow, &message, progress),
            Ok(Stage::Done) => Ok(()),
            Err(rejection) => {
                progress.refuse();
                Err(rejection)
            }
        };
        if let Err(rejection) = taken {
            self.step.reject(flow, &message, rejection);
            if let Some(home) = self.home.as_deref_mut() {
                home.keep_answer(&self.step, flow.peer, &message, sent);
            }
        }
        self.step.edge.tell(flow, Some(&message), self.step.out);
    }
}
