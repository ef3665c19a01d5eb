//! Sends a request to a member, or from a member to another element (RFC 3261 §16.6, §16.11).

use crate::admission::Ticket;
use crate::decide::destination::Destination;
use crate::forward::onward::{Onward, RecordRoute, ViaBranch};
use crate::read::arrival::Arrival;
use crate::site::record::wants_record_route;
use crate::step::Step;
use crate::token::branch::BranchKind;
use crate::token::owner::TokenOwner;
use balance::{Direction, Slot};
use base::Operation;
use std::sync::Arc;

/// Sends a request to a member, or to the target that a member has named, with the edits of RFC 3261 §16.6.
/// `is_search`: its Via says that it went to all members.
pub(crate) fn send_to(
    step: &mut Step<'_>,
    arrival: &Arrival<'_>,
    destination: &Destination<'_>,
    slot: Slot,
    is_search: bool,
    ticket: &Ticket,
) {
    let (message, request) = (arrival.message, &destination.request);
    let mut record_route = RecordRoute::No;
    if wants_record_route(message) {
        let session = step.balancer.session_of(request);
        record_route = RecordRoute::Session(session.map_or(step.site.now, |session| session.created));
        step.site.ledger.charge(Operation::MakeToken);
    }
    let (node, direction) = (step.balancer.nodes()[slot.index()].id, request.direction);
    let kind = BranchKind::Pool { node, direction };
    let routes = destination.rule.map(|rule| (Arc::clone(&step.site.routes), rule));
    // A request to the pool always goes to its member. Route and Request-URI cannot name another address.
    let hop = destination.to.outside().unwrap_or(step.site.topology.node(slot));
    let onward = Onward {
        element: TokenOwner::Pool,
        rule: routes.as_ref().map(|(routes, rule)| routes.rule(*rule)),
        is_search,
        is_at_source: destination.is_at_source,
        routing: destination.routing,
        branch: ViaBranch::Stateless { kind, back: arrival.target },
        key: step.key(arrival, request),
        ..Onward::of(arrival, hop, record_route)
    };
    onward.send(step.site, message, step.out, ticket);
    if direction == Direction::ToPool {
        step.balancer.count_request(step.site.now, slot, request);
    }
}
