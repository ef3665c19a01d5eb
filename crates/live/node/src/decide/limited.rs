//! Next hops that limit the load that they are sent (RFC 7339): a member with room is chosen, and what none has room for is refused.

use crate::admission::{NEXT_HOP_OVERLOADED, Novelty, class_in_dialog, class_of};
use crate::decide::destination::is_remembered;
use crate::queue::Turn;
use crate::site::Site;
use crate::step::Step;
use arrayvec::ArrayVec;
use balance::{Balancer, Decision, Request, Slot, Why};
use base::{Flow, Instant};
use overload::MessageClass;
use route::Service;
use wire::Method;

/// Most members that are asked for one request. Nothing is sent to those that have no room: asking on costs little, and
/// no server is any busier for it.
const MOST: usize = 8;

/// What a neighbour's limit is to know of a request.
pub(crate) fn class(balancer: &Balancer, request: &Request<'_>, novelty: Novelty) -> MessageClass {
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

/// Whether the balancer takes note of a request: not for a pool without sessions, unless it remembers the call, or the transaction
/// of what begins one, from before a change of the pool. Then that is to end there, too.
pub(crate) fn is_noted(balancer: &Balancer, request: &Request<'_>, service: Service) -> bool {
    service.counts_calls() || is_remembered(balancer, request)
}

/// Asks the balancer who of a pool is to have a request. It takes note of that, but for a pool without sessions.
///
/// What ties a request to a member decides whatever the pool is like: a dialog goes on as it began, also after a change of the
/// configuration.
pub(crate) fn ask(
    balancer: &mut Balancer,
    now: Instant,
    request: &Request<'_>,
    service: Service,
) -> Decision {
    if is_noted(balancer, request, service) {
        balancer.request(now, request)
    } else if let Some(slot) = request.pinned {
        Decision::Forward { slot, why: Why::Token }
    } else if request.in_dialog && request.method != Method::Ack {
        Decision::Orphan
    } else {
        balancer.pick(now, request, &[])
    }
}

/// Tells whether a request may be sent to what is no member. Each hop that it is asked about counts as sent to.
pub(crate) fn hop_filter<'a>(
    step: &'a mut Step<'_>,
    request: &Request<'_>,
    novelty: Novelty,
) -> impl FnMut(Flow) -> bool + use<'a> {
    let (now, overload) = (step.site.now, &mut step.site.admission.overload);
    let class = overload.limits_hops().then(|| class(step.balancer, request, novelty));
    move |hop| class.is_none_or(|class| overload.may_go(now, class, hop))
}

/// Asks for a member that may be sent a request of this class. One that the balancer would choose and that wants no
/// more is passed over, for at most [`MOST`] others. `outside` is where the request goes if that is no member.
pub(crate) fn ask_open(
    site: &mut Site,
    balancer: &mut Balancer,
    request: &Request<'_>,
    class: MessageClass,
    outside: Option<Flow>,
    service: Service,
) -> Result<Decision, Turn> {
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
