//! Requests to a pool that keeps transactions, and that no dialog has led there (RFC 3261 §16.5).

use super::assigned::Assigned;
use super::dialogs::Tracked;
use super::located::Located;
use super::received::{Received, TargetSet, UriTarget, way_back};
use super::transactions::Stateful;
use crate::allowance::Sender;
use crate::arrival::Arrival;
use crate::counters::Drop;
use crate::destination::Destination;
use crate::edge::Edge;
use crate::forward::onward::{RecordRoute, Refresh};
use crate::progress::Progress;
use crate::rejection::Rejection;
use crate::reply;
use crate::route_header::max_breadth;
use crate::step::Step;
use balance::Request;
use base::Flow;
use route::Forward;
use std::cell::Cell;
use wire::Method;

impl Stateful {
    /// Whether there is room for a request that goes on in this way: for a transaction, and for a call whose dialogs are kept.
    pub(crate) fn check_new(
        &mut self,
        step: &Step<'_>,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        forward: Forward,
    ) -> Result<(), Rejection> {
        // What is that short begins no transaction, which would answer again and again.
        if arrival.message.bytes().len() < reply::ANSWERED_MIN && arrival.method != Method::Ack {
            return Err(Rejection::Dropped(Drop::Unanswerable));
        }
        self.check_limit(step.edge, arrival.message, false)?;
        match &self.dialogs {
            Some(dialogs) if forward == Forward::Dialog && begins_call(&destination.request) => {
                dialogs.check(step.edge, arrival.message)
            }
            _ => Ok(()),
        }
    }

    /// Sends a request on to the member that it is assigned to; `is_noted`: the balancer has taken note of it.
    pub(crate) fn begin(
        &mut self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        assigned: Assigned,
        is_noted: bool,
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        let keeps_dialogs = assigned.record_route == RecordRoute::WithDialogs;
        let pool = Some(assigned.request.pool.0);
        let tracked = self.track(step.edge, arrival, destination, pool, keeps_dialogs)?;
        let noted = is_noted.then(|| Box::new(assigned.request));
        let way = TargetSet::Pool(Box::new(assigned));
        let received = received(step.edge, arrival, destination.routing, way, progress);
        self.begin_by(step, arrival, Received { noted, tracked, ..received });
        Ok(())
    }

    /// Sends a request for a user on to the user's contacts.
    pub(crate) fn begin_located(
        &mut self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        located: Located,
        keeps_dialogs: bool,
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        let tracked = self.track(step.edge, arrival, destination, None, keeps_dialogs)?;
        let way = TargetSet::Contacts(Box::new(located));
        let received = received(step.edge, arrival, destination.routing, way, progress);
        self.begin_by(step, arrival, Received { tracked, ..received });
        Ok(())
    }

    /// Sends a request on by the connection of a client that its Route names.
    pub(crate) fn begin_by_flow(
        &mut self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        hop: Flow,
        routing: u32,
        progress: &mut Progress,
    ) {
        let way = TargetSet::Uri(UriTarget { hop, is_wanted: true, anew: None });
        let received = received(step.edge, arrival, routing, way, progress);
        self.begin_by(step, arrival, received);
    }

    /// The call of a request, if its dialogs are kept: the one that the request begins, or one that is known here.
    fn track(
        &mut self,
        edge: &Edge,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        pool: Option<u16>,
        keeps_dialogs: bool,
    ) -> Result<Option<Box<Tracked>>, Rejection> {
        let (Some(dialogs), message) = (&mut self.dialogs, arrival.message) else { return Ok(None) };
        let known = message.to_tag().and_then(|_| dialogs.untold(edge, message));
        if known.is_none() && keeps_dialogs && begins_call(&destination.request) {
            let tracked = dialogs.begin(edge, message, arrival.flow.peer, destination.rule, pool)?;
            return Ok(Some(Box::new(tracked)));
        }
        Ok(known)
    }

    fn begin_by(&mut self, step: &mut Step<'_>, arrival: &Arrival<'_>, received: Received) {
        self.notes.source = arrival.flow;
        self.forward(step, arrival.message, received);
    }
}

/// A request as it is kept, with the ticket that it has.
fn received(
    edge: &Edge,
    arrival: &Arrival<'_>,
    routing: u32,
    way: TargetSet,
    progress: &mut Progress,
) -> Received {
    let Arrival { flow, message, .. } = *arrival;
    Received {
        bytes: message.bytes().into(),
        call: arrival.call,
        flow,
        back: way_back(edge, message, flow),
        routing,
        breadth: max_breadth(message),
        refresh: Refresh::of(true),
        noted: None,
        tracked: None,
        is_genuine: progress.sender() == Sender::Genuine,
        proof: progress.proof.told(),
        ticket: Cell::new(progress.ticket.take()),
        told: Cell::default(),
        way,
    }
}

/// Whether it is the INVITE of a call. A To tag that somebody made up makes no difference.
fn begins_call(request: &Request<'_>) -> bool {
    request.method == Method::Invite && !request.in_dialog
}
