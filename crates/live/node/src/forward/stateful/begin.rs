//! Requests to a pool that keeps transactions, and that no dialog has led there (RFC 3261 §16.5).

use super::assigned::Assigned;
use super::located::Located;
use super::received::{Received, TargetSet, way_back};
use super::transactions::Stateful;
use crate::allowance::Sender;
use crate::arrival::Arrival;
use crate::counters::Drop;
use crate::destination::Destination;
use crate::forward::onward::{RecordRoute, Refresh};
use crate::progress::Progress;
use crate::rejection::Rejection;
use crate::reply;
use crate::route_header::max_breadth;
use crate::step::Step;
use balance::Request;
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
        (assigned, is_noted): (Assigned, bool),
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        let noted = is_noted.then(|| Box::new(assigned.request));
        let keeps_dialogs = assigned.record_route == RecordRoute::WithDialogs;
        let way = TargetSet::Pool(Box::new(assigned));
        self.begin_by(step, arrival, destination, (way, noted, keeps_dialogs), progress)
    }

    /// Sends a request for a user on to the user's contacts.
    pub(crate) fn begin_located(
        &mut self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        (located, keeps_dialogs): (Located, bool),
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        let way = TargetSet::Contacts(Box::new(located));
        self.begin_by(step, arrival, destination, (way, None, keeps_dialogs), progress)
    }

    fn begin_by(
        &mut self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        (way, noted, keeps_dialogs): (TargetSet, Option<Box<Request<'static>>>, bool),
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        let Arrival { flow, message, .. } = *arrival;
        let pool = match &way {
            TargetSet::Pool(assigned) => Some(assigned.request.pool.0),
            TargetSet::Uri(..) | TargetSet::Contacts(_) => None,
        };
        let tracked = match &mut self.dialogs {
            Some(dialogs) => {
                let known = message.to_tag().and_then(|_| dialogs.untold(step.edge, message));
                match known {
                    None if keeps_dialogs && begins_call(&destination.request) => {
                        let of = (destination.rule, pool);
                        Some(Box::new(dialogs.begin(step.edge, message, flow.peer, of)?))
                    }
                    known => known,
                }
            }
            None => None,
        };
        let received = Received {
            bytes: message.bytes().into(),
            call: arrival.call,
            flow,
            back: way_back(step.edge, message, flow),
            routing: destination.routing,
            breadth: max_breadth(message),
            refresh: Refresh::of(true),
            noted,
            tracked,
            is_genuine: progress.sender() == Sender::Genuine,
            ticket: Cell::new(progress.ticket.take()),
            told: Cell::default(),
            way,
        };
        self.notes.source = flow;
        self.forward(step, message, received);
        Ok(())
    }
}

/// Whether it is the INVITE of a call. A To tag that somebody made up makes no difference.
fn begins_call(request: &Request<'_>) -> bool {
    request.method == Method::Invite && !request.in_dialog
}
