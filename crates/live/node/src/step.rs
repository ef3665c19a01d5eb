//! What a step of a shard works with.

use crate::admission::{Begins, Charge};
use crate::arrival::Arrival;
use crate::edge::Edge;
use crate::event::ShardEvent;
use crate::pools::Pools;
use crate::progress::Progress;
use crate::queue::Queues;
use crate::rejection::{OwnResponse, Rejection, refused_until};
use balance::{Balancer, Request};
use base::{Flow, Instant, Outbox};
use overload::Origin;
use wire::{Message, Method};

/// The parts of a shard that every way of forwarding uses, and the outbox of the step.
pub(crate) struct Step<'a> {
    pub(crate) edge: &'a mut Edge,
    pub(crate) balancer: &'a mut Balancer,
    pub(crate) pools: &'a Pools,
    pub(crate) queues: Option<&'a mut Queues>,
    pub(crate) out: &'a mut Outbox<ShardEvent>,
}

impl Step<'_> {
    /// Answers a request ourselves, statelessly (RFC 3261 §8.2.7).
    pub(crate) fn answer(&mut self, flow: Flow, message: &Message<'_>, own: OwnResponse<'_>) {
        self.edge.answer(flow, message, own, self.out);
    }

    /// Answers or drops a request that is not forwarded.
    pub(crate) fn reject(&mut self, flow: Flow, message: &Message<'_>, rejection: Rejection) {
        self.edge.reject(flow, message, rejection, self.out);
    }

    /// Whether a request is new: it belongs to no dialog, no session and no other request.
    pub(crate) fn is_new(&self, request: &Request<'_>) -> bool {
        !request.in_dialog
            && request.pinned.is_none()
            && !matches!(request.method, Method::Ack | Method::Cancel)
            && self.balancer.session_of(request).is_none()
    }

    /// The end of the process, if it is stopping and refuses this request for that. A BYE is never refused: it ends a
    /// call.
    pub(crate) fn stops(&self, request: &Request<'_>) -> Option<Instant> {
        self.edge.settings.stopping.filter(|_| request.method != Method::Bye && self.is_new(request))
    }

    /// What a request begins.
    pub(crate) fn charge(&self, arrival: &Arrival<'_>, request: &Request<'_>) -> Charge {
        let Edge { gate, tokens, now, .. } = &*self.edge;
        gate.charge(*now, tokens, (arrival.message, request, arrival.target), self.balancer)
    }

    /// Asks the gate about a request whose destination is known. The gate is asked once: an admitted request keeps
    /// its ticket.
    pub(crate) fn admit(
        &mut self,
        arrival: &Arrival<'_>,
        request: &Request<'_>,
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        if progress.charge.is_some() {
            return Ok(());
        }
        if let Some(end) = self.stops(request) {
            return Err(refused_until(end, self.edge.now).into());
        }
        let charge = self.charge(arrival, request);
        // What is known here already is never refused.
        if matches!(charge.begins, Begins::New | Begins::Anew) {
            self.take_in(arrival, request)?;
        }
        self.begin(arrival, charge, progress)
    }

    /// Asks overload control, and where state is shared out the entry, about a request that may begin something.
    fn take_in(&mut self, arrival: &Arrival<'_>, request: &Request<'_>) -> Result<(), Rejection> {
        let now = self.edge.now;
        let origin = self.edge.origin(arrival.flow.peer, arrival.method);
        let is_let_in = !matches!(origin, Origin::Client(share) if share < 1.0);
        let takes_all = is_let_in && self.edge.gate.overload.takes_all(now);
        // Only where there is something to refuse need it be looked up whether the request is known.
        if !takes_all && !self.is_new(request) {
            return Ok(());
        }
        self.edge.gate.overload.admit(now, arrival, origin).map_err(|refusal| {
            // What can be shared out: a REGISTER is served here, and OPTIONS are let in by all.
            let counts = refusal.is_by_law && !matches!(arrival.method, Method::Register | Method::Options);
            if let Some(sharing) = self.edge.sharing.as_mut().filter(|_| counts) {
                sharing.refused(arrival.flow.peer);
            }
            refusal.rejection
        })
    }

    /// Asks the gate about a request that follows its first copy, or its INVITE, to a next hop. Its source is charged
    /// if the request begins something all the same.
    pub(crate) fn follow(
        &mut self,
        arrival: &Arrival<'_>,
        request: &Request<'_>,
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        self.take_copy(arrival, request, progress)?;
        self.goes_on(progress);
        Ok(())
    }

    /// The same before anything is done for it.
    pub(crate) fn take_copy(
        &mut self,
        arrival: &Arrival<'_>,
        request: &Request<'_>,
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        if progress.charge.is_none() {
            let charge = self.charge(arrival, request);
            self.begin(arrival, charge, progress)?;
        }
        Ok(())
    }

    fn begin(
        &mut self,
        arrival: &Arrival<'_>,
        charge: Charge,
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        progress.ticket = self.edge.gate.admit(self.edge.now, arrival.flow.peer.ip(), &charge)?;
        progress.charge = Some(charge);
        Ok(())
    }

    /// Whether a session began before the key of new tokens changed: its branches stay as they were, since a CANCEL
    /// or a retransmission has to match what its node knows (RFC 3261 §16.11). One that is not in the table yet
    /// begins now.
    pub(crate) fn is_older_than_key(&self, request: &Request<'_>) -> bool {
        let created = || self.balancer.session_of(request).map_or(self.edge.now, |session| session.created);
        self.edge.rekeyed.is_some_and(|rekeyed| created() <= rekeyed)
    }

    /// An admitted request is forwarded.
    pub(crate) fn goes_on(&mut self, progress: &Progress) {
        if let Some(charge) = &progress.charge {
            self.edge.gate.goes_on(self.edge.now, charge);
        }
    }
}
