//! Requests to neighbours that limit what they are sent: which member of a pool gets one, and which are held back here.

use crate::admission::{Begins, NEXT_HOP_OVERLOADED, Overload, class_of};
use crate::arrival::Arrival;
use crate::queue::Turn;
use crate::step::Step;
use crate::topology::Topology;
use arrayvec::ArrayVec;
use balance::{Balancer, Decision, Request, Slot};
use base::{Flow, Instant};
use overload::MessageClass;
use wire::Method;

/// Most members that are asked for one request. Nothing is sent to those that have no room: asking on costs little, and
/// no server is any busier for it.
const MOST: usize = 8;

/// What a neighbour's limit is to know of a request.
pub(crate) fn class(
    overload: &Overload,
    balancer: &Balancer,
    arrival: &Arrival<'_>,
    request: &Request<'_>,
    begins: Begins,
) -> MessageClass {
    let is_about = matches!(request.method, Method::Ack | Method::Cancel);
    if request.in_dialog || is_about {
        return class_of(request.method, request.in_dialog);
    }
    if begins == Begins::Again || balancer.has_open(request) {
        return MessageClass::Repeat;
    }
    overload.class(arrival)
}

/// Tells whether a request may be sent to what is no member. Each hop that it is asked about counts as sent to.
pub(crate) fn hop_filter<'a>(
    step: &'a mut Step<'_>,
    arrival: &Arrival<'_>,
    request: &Request<'_>,
    begins: Begins,
) -> impl FnMut(Flow) -> bool + use<'a> {
    let (now, overload) = (step.edge.now, &mut step.edge.gate.overload);
    let class = overload.limits_hops().then(|| class(overload, step.balancer, arrival, request, begins));
    move |hop| class.is_none_or(|class| overload.may_go(now, class, hop))
}

/// Asks for a member that may be sent a request of this class. One that the balancer would choose and that wants no
/// more is passed over, for at most [`MOST`] others. `ask` asks the balancer; `outside` is where the request goes if
/// that is no member.
pub(crate) fn ask_open(
    (overload, topology): (&mut Overload, &Topology),
    balancer: &mut Balancer,
    now: Instant,
    (request, class): (&Request<'_>, MessageClass),
    outside: Option<Flow>,
    (is_noted, ask): (bool, impl Fn(&mut Balancer) -> Decision),
) -> Result<Decision, Turn> {
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
        let Decision::Forward { slot, why } = balancer.pick(now, request, &passed_over) else { break };
        if overload.may_go(now, class, topology.node(slot)) {
            if !is_noted {
                return Ok(Decision::Forward { slot, why });
            }
            match balancer.request_to(now, request, slot) {
                // Its last place has gone to somebody else meanwhile.
                Decision::NoServer => {}
                // A limit of its own keeps the request from it.
                decision @ Decision::AtLimit(_) => at_limit = Some(decision),
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
