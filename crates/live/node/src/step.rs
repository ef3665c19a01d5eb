//! What a step of a shard works with.

use crate::admission::{Begins, Charge};
use crate::arrival::Arrival;
use crate::edge::Edge;
use crate::event::ShardEvent;
use crate::pools::Pools;
use crate::progress::Progress;
use crate::queue::Queues;
use crate::rejection::{Own, Rejection, refused_until};
use balance::{Balancer, Request};
use base::{Flow, Outbox};
use wire::{Message, Method};

/// The parts of a shard that every way of forwarding works with, and where the effects of the step go.
pub(crate) struct Step<'a> {
    pub(crate) edge: &'a mut Edge,
    pub(crate) balancer: &'a mut Balancer,
    pub(crate) pools: &'a Pools,
    pub(crate) queues: Option<&'a mut Queues>,
    pub(crate) out: &'a mut Outbox<ShardEvent>,
}

impl Step<'_> {
    /// Answers a request ourselves, statelessly (RFC 3261 §8.2.7).
    pub(crate) fn answer(&mut self, flow: Flow, message: &Message<'_>, own: Own<'_>) {
        self.edge.answer(flow, message, own, self.out);
    }

    /// Gives a request that is not forwarded what it gets instead.
    pub(crate) fn reject(&mut self, flow: Flow, message: &Message<'_>, rejection: Rejection) {
        self.edge.reject(flow, message, rejection, self.out);
    }

    /// Whether a request begins something: no session and no token knows of it.
    pub(crate) fn is_new(&self, request: &Request<'_>) -> bool {
        !request.in_dialog
            && request.pinned.is_none()
            && !matches!(request.method, Method::Ack | Method::Cancel)
            && self.balancer.session_of(request).is_none()
    }

    /// What a request begins.
    pub(crate) fn charge(&mut self, arrival: &Arrival<'_>, request: &Request<'_>) -> Charge {
        let Edge { gate, tokens, now, .. } = &mut *self.edge;
        let has_queues = self.queues.is_some();
        gate.charge(*now, has_queues, tokens, (arrival.message, request, arrival.target), self.balancer)
    }

    /// The gate, for a request that is known to go somewhere. It is asked once: a request that was let in keeps its
    /// ticket.
    pub(crate) fn admit(
        &mut self,
        arrival: &Arrival<'_>,
        request: &Request<'_>,
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        if progress.charge.is_some() {
            return Ok(());
        }
        // A BYE is wanted to end a call.
        if let Some(end) =
            self.edge.settings.stopping.filter(|_| request.method != Method::Bye && self.is_new(request))
        {
            return Err(refused_until(end, self.edge.now).into());
        }
        let charge = self.charge(arrival, request);
        let now = self.edge.now;
        // What is known here already is never refused: only where there is something to refuse need it be looked up.
        if charge.begins == Begins::New && (self.edge.gate.overload.takes_all(now) || self.is_new(request)) {
            self.edge.gate.overload.admit(now, arrival)?;
        }
        self.begin(arrival, charge, progress)
    }

    /// The gate, for a request that follows its copy, or its INVITE, to a next hop. It is charged if it begins
    /// something all the same.
    pub(crate) fn follow(
        &mut self,
        arrival: &Arrival<'_>,
        request: &Request<'_>,
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        if progress.charge.is_none() {
            let charge = self.charge(arrival, request);
            self.begin(arrival, charge, progress)?;
        }
        self.goes_on(progress);
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

    /// A request goes on that the gate has let in.
    pub(crate) fn goes_on(&mut self, progress: &Progress) {
        if let Some(charge) = &progress.charge {
            self.edge.gate.goes_on(self.edge.now, charge);
        }
    }
}
