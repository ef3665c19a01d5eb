//! A request on its way to a member, or from one to others (RFC 3261 §16.6, §16.11).

use crate::arrival::Arrival;
use crate::client_flow::ClientFlow;
use crate::destination::Destination;
use crate::edge::Edge;
use crate::ports::Ingress;
use crate::record::{initiator_target, record, wants_record_route};
use crate::route_header::{edit_hop, max_breadth};
use crate::step::Step;
use crate::target::Target;
use crate::token::branch::{self, BranchToken, Transaction};
use crate::token::dialog::{DialogToken, Kept};
use crate::token::owner::TokenOwner;
use balance::{Direction, Slot};
use base::Operation;
use std::sync::Arc;

/// Sends a request to a member, or where that member wants it sent, with the edits of RFC 3261 §16.6. `is_search`: its branch says that
/// it went to all members.
pub(crate) fn send_to(
    step: &mut Step<'_>,
    arrival: &Arrival<'_>,
    destination: &Destination<'_>,
    slot: Slot,
    is_search: bool,
) {
    let Arrival { flow, message, .. } = *arrival;
    let request = &destination.request;
    // To the pool, always to the node: whatever Route or Request-URI say, no other address can be reached.
    let way = destination.to.outside().unwrap_or(step.edge.topology.node(slot));
    let older = step.is_older_than_key(request);
    step.edge.edits.clear();
    edit_hop(message, flow.peer, max_breadth(message), &mut step.edge.edits);
    let routes = destination.rule.map(|rule| (Arc::clone(&step.edge.routes), rule));
    let rule = routes.as_ref().map(|(routes, rule)| routes.rule(*rule));
    step.edge.edit_by_rule(message, &arrival.route, rule, flow.listener);
    step.edge.drop_credentials(message, flow);
    if wants_record_route(message) {
        record_route(step, arrival, destination, slot, [flow.listener, way.listener], older);
    }
    // Step 8.
    let Edge { scratch, tokens, topology, ledger, counters, gate, .. } = &mut *step.edge;
    let token = BranchToken {
        node: step.balancer.nodes()[slot.index()].id,
        direction: request.direction,
        asked: Ingress::by(flow),
        routing: destination.routing,
    };
    ledger.charge(Operation::MakeToken);
    let transaction = Transaction::new(message, message.top_via(), arrival.target);
    scratch.clear();
    scratch.extend_from_slice(topology.ports[way.listener].via.as_bytes());
    let start = scratch.len();
    tokens.write_branch(token, &transaction, older, scratch);
    let branch = start..scratch.len();
    if is_search {
        scratch.extend_from_slice(branch::SEARCHED);
    }
    gate.overload.offer(way, scratch);
    counters.requests_forwarded += 1;
    let (way, _) = step.edge.push_own_via(message, way, branch);
    step.edge.send_edited(message, way, step.out);
    if request.direction == Direction::ToPool {
        step.balancer.count_request(step.edge.now, slot, request);
    }
}

/// §16.6 step 4.
fn record_route(
    step: &mut Step<'_>,
    arrival: &Arrival<'_>,
    destination: &Destination<'_>,
    slot: Slot,
    listeners: [u16; 2],
    older: bool,
) {
    let (message, request) = (arrival.message, &destination.request);
    // §16.11: the same in a retransmission, so nothing of this moment may be in it.
    let begun = step.balancer.session_of(request).map_or(step.edge.now, |session| session.created);
    let Edge { edits, scratch, tokens, topology, ledger, settings, .. } = &mut *step.edge;
    ledger.charge(Operation::MakeToken);
    let unix = settings.unix(begun);
    let outbound = request.direction == Direction::FromPool;
    // Towards a node its token leads, whatever the target.
    let nowhere = (Target::Nowhere, false);
    let (target, is_contact) =
        if outbound { nowhere } else { initiator_target(topology, message, TokenOwner::Pool) };
    let flow = if is_contact { ClientFlow::of(arrival.flow, topology) } else { None };
    let token = DialogToken {
        node: step.balancer.nodes()[slot.index()].id,
        outbound,
        kept: Kept::Transactions,
        target: tokens.target_hash(&target, older),
        heard: false,
        home: tokens.home_hash(is_contact.then_some(&target), flow, older),
        flow,
    };
    let write = |out: &mut Vec<u8>| tokens.write_route(TokenOwner::Pool, token, message, unix, older, out);
    record(message, topology, listeners, edits, scratch, TokenOwner::Pool, write);
}
