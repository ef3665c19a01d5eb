//! Next hops that limit their load (RFC 7339): a member with room is chosen, and a request is refused if no member has
//! room.

use crate::admission::{NEXT_HOP_OVERLOADED, Novelty, class_in_dialog, class_of};
use crate::decide::destination::is_remembered;
use crate::queue::Turn;
use crate::site::Site;
use crate::step::Step;
use arrayvec::ArrayVec;
use balance::{Balancer, NodeDecision, RequestFacts, Slot, Why};
use base::{Flow, Instant};
use overload::MessageClass;
use route::Service;
use wire::Method;

/// Maximum number of members asked for one request. This costs little, and sends nothing to the member.
const MOST: usize = 8;

/// Returns the class of a request for a neighbour's limit.
pub(crate) fn class(balancer: &Balancer, request: &RequestFacts<'_>, novelty: Novelty) -> MessageClass {
    let is_about = matches!(request.method, Method::Ack | Method::Cancel);
    if request.in_dialog {
        return class_in_dialog(request.method);
    }
    if is_about {
        return class_of(request.method, false);
    }
    if novelty == Novelty::Copy || balancer.has_open(request) {
        return MessageClass::Repeat;
    }
    class_of(request.method, request.has_priority)
}

/// Returns whether the balancer records a request. In a pool without sessions it records only requests of calls and
/// transactions from before a change of the pool. These must also end in its table.
pub(crate) fn is_noted(balancer: &Balancer, request: &RequestFacts<'_>, service: Service) -> bool {
    service.counts_calls() || is_remembered(balancer, request)
}

/// Asks the balancer for the member that gets a request, and records it unless the pool has no sessions.
///
/// A request that is tied to a member goes to that member, whatever the settings of the pool. A dialog continues as it
/// began, even after a change of the configuration.
pub(crate) fn ask(
    balancer: &mut Balancer,
    now: Instant,
    request: &RequestFacts<'_>,
    service: Service,
) -> NodeDecision {
    if is_noted(balancer, request, service) {
        balancer.request(now, request)
    } else if let Some(slot) = request.pinned {
        NodeDecision::Forward { slot, why: Why::Token }
    } else if request.in_dialog && request.method != Method::Ack {
        NodeDecision::Orphan
    } else {
        balancer.pick(now, request, &[])
    }
}

/// Returns a function that decides whether a request may go to a hop that is no member. Each call counts for the limit
/// of the hop.
pub(crate) fn hop_filter<'a>(
    step: &'a mut Step<'_>,
    request: &RequestFacts<'_>,
    novelty: Novelty,
) -> impl FnMut(Flow) -> bool + use<'a> {
    let (now, overload) = (step.site.now, &mut step.site.admission.overload);
    let class = overload.limits_hops().then(|| class(step.balancer, request, novelty));
    move |hop| class.is_none_or(|class| overload.may_go(now, class, hop))
}

/// Asks for a member that accepts a request of this class. Passes over at most [`MOST`] members that the balancer would
/// choose but that accept no further request. `outside` is the next hop if it is no member.
pub(crate) fn ask_open(
    site: &mut Site,
    balancer: &mut Balancer,
    request: &RequestFacts<'_>,
    class: MessageClass,
    outside: Option<Flow>,
    service: Service,
) -> Result<NodeDecision, Turn> {
    let Site { admission, topology, now, .. } = site;
    let (overload, now, is_noted) = (&mut admission.overload, *now, is_noted(balancer, request, service));
    let ask = |balancer: &mut Balancer| ask(balancer, now, request, service);
    let held_back = || Turn::Full(NEXT_HOP_OVERLOADED.into());
    let fixed = request.pinned.or_else(|| balancer.session_of(request).map(|session| session.slot));
    let hop = outside.or(fixed.map(|slot| topology.node(slot)));
    if let Some(hop) = hop {
        return if overload.may_go(now, class, hop) { Ok(ask(balancer)) } else { Err(held_back()) };
    }
    if !class.is_new() {
        return Ok(ask(balancer));
    }
    let mut passed_over = ArrayVec::<Slot, MOST>::new();
    let mut at_limit = None;
    while !passed_over.is_full() {
        let NodeDecision::Forward { slot, why } = balancer.pick(now, request, &passed_over) else { break };
        if overload.may_go(now, class, topology.node(slot)) {
            if !is_noted {
                return Ok(NodeDecision::Forward { slot, why });
            }
            match balancer.request_to(now, request, slot) {
                // In the meantime, another request has taken the last place.
                NodeDecision::NoServer => {}
                // The member has reached its own limit.
                decision @ NodeDecision::AtLimit(_) => at_limit = Some(decision),
                decision => return Ok(decision),
            }
        }
        passed_over.push(slot);
    }
    match at_limit {
        None if passed_over.is_empty() => Ok(ask(balancer)),
        Some(decision) => Ok(decision),
        None => Err(held_back()),
    }
}
