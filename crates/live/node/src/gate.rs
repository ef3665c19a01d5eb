//! The gate admits or refuses each request once. It checks three conditions, the cheapest first: the process is not
//! stopping, the source is within its rate, and overload control accepts the request. An admitted request has a
//! [`Ticket`], keeps it through all waits, and cannot be forwarded without it.
//!
//! Access lists and the check of the form come before the gate. Other reasons for a refusal are a rule
//! (`destination.rs`), a next hop without room (`limited.rs`), lack of room here (`begin.rs`), and missing
//! authentication (`serve.rs`).

use crate::admission::{Novelty, Ticket, class_of};
use crate::decide::destination::rule_of;
use crate::outcome::rejection::{Rejection, refuse, refused_until};
use crate::read::arrival::Arrival;
use crate::read::progress::Progress;
use crate::seen::Hop;
use crate::site::marks::origin;
use crate::step::Step;
use balance::RequestFacts;
use base::Flow;
use overload::NewRequestSender;
use route::Exceeded;
use wire::Method;

/// Gives a request its ticket, unless it has one already.
pub(crate) fn admit(
    step: &mut Step<'_>,
    arrival: &Arrival<'_>,
    request: &RequestFacts<'_>,
    progress: &mut Progress,
) -> Result<(), Rejection> {
    if progress.ticket.is_none() {
        progress.ticket = Some(ask(step, arrival, request)?);
    }
    Ok(())
}

/// Admits a request before its route is looked up, if its form says that it is new. So a refusal costs least. Requests
/// of members and OPTIONS are admitted later. A member's request may belong to a call of another caller, and this
/// process itself may answer OPTIONS under any load.
pub(crate) fn admit_early(
    step: &mut Step<'_>,
    arrival: &Arrival<'_>,
    request: &RequestFacts<'_>,
    goes_by_rule: bool,
    progress: &mut Progress,
) -> Result<(), Rejection> {
    let is_new_by_form = arrival.message.to_tag().is_none()
        && arrival.begins_transaction()
        && arrival.method != Method::Options
        && arrival.member.is_none();
    if !is_new_by_form {
        return Ok(());
    }
    let Err(refused) = admit(step, arrival, request, progress) else { return Ok(()) };
    // Where a rule drops without an answer, overload control must not answer.
    if goes_by_rule
        && step.site.routes.table.may_be_silent()
        && let Err(by_rule @ Rejection::By(refuser)) = rule_of(step, arrival)
        && step.site.routes.answer(refuser).is_err()
    {
        return Err(by_rule);
    }
    Err(refused)
}

/// Returns whether a request belongs to an earlier one that was forwarded without a transaction. A copy belongs to its
/// first copy, an ACK or CANCEL to its INVITE.
fn follows(step: &Step<'_>, arrival: &Arrival<'_>) -> bool {
    arrival.hop().is_some_and(|hop| !matches!(hop, Hop::Member(_)) || hop.member(step.balancer).is_some())
}

fn ask(step: &mut Step<'_>, arrival: &Arrival<'_>, request: &RequestFacts<'_>) -> Result<Ticket, Rejection> {
    // A copy, ACK or CANCEL of a request that was forwarded without a transaction is never refused for load.
    let follows = follows(step, arrival);
    // A BYE is never refused, because it ends a call.
    if !follows && let Some(end) = step.stops(request) {
        return Err(refused_until(end, step.site.now).into());
    }
    let novelty = step.novelty(arrival, request);
    let (now, source) = (step.site.now, arrival.flow.peer.ip());
    step.site.admission.charge(now, source, novelty)?;
    if !follows && matches!(novelty, Novelty::New | Novelty::CopyOfDropped) {
        ask_overload(step, arrival, request)?;
    }
    let site = &mut *step.site;
    Ok(site.admission.give_ticket(&site.tokens, arrival.message, request, novelty))
}

/// Asks overload control about a request that may be new. Also applies the share of new requests that is accepted from
/// outside the chain.
fn ask_overload(
    step: &mut Step<'_>,
    arrival: &Arrival<'_>,
    request: &RequestFacts<'_>,
) -> Result<(), Rejection> {
    let (now, flow) = (step.site.now, arrival.flow);
    let origin = origin(step.site, flow.peer, arrival.method);
    let is_let_in = !matches!(origin, NewRequestSender::Client(share) if share < 1.0);
    let takes_all = is_let_in && step.site.admission.overload.takes_all(now);
    // It is looked up whether the request is known only if a request may be refused now.
    if !takes_all && !step.is_new(request) {
        return Ok(());
    }
    let class = class_of(arrival.method, request.has_priority);
    step.site.admission.overload.admit(now, class, origin).map_err(|refusal| {
        // Counts requests whose state can be shared out: a REGISTER is served here, and OPTIONS are accepted by every
        // proxy.
        let counts = refusal.is_by_law && !matches!(arrival.method, Method::Register | Method::Options);
        if let Some(sharing) = step.site.sharing.as_mut().filter(|_| counts) {
            sharing.refused(flow.peer);
        }
        refusal.rejection
    })
}

/// Returns as text how [`ask`] would refuse a request now, with the checks in the same order. Changes nothing.
pub(crate) fn explain(
    step: &Step<'_>,
    arrival: &Arrival<'_>,
    request: &RequestFacts<'_>,
) -> Result<(), String> {
    let (novelty, follows) = (step.novelty(arrival, request), follows(step, arrival));
    if !follows && step.stops(request).is_some() {
        return Err("refused: 503 Service Unavailable: stopping, no new calls are taken".to_owned());
    }
    if novelty == Novelty::New {
        check_rate(step, arrival.flow)?;
    }
    if !follows && matches!(novelty, Novelty::New | Novelty::CopyOfDropped) {
        check_entry(step, arrival)?;
        check_overload(step)?;
    }
    Ok(())
}

/// Fails if the proxy accepts only a share of its source's new requests now. Applies only with shared-out state.
fn check_entry(step: &Step<'_>, arrival: &Arrival<'_>) -> Result<(), String> {
    match origin(step.site, arrival.flow.peer, arrival.method) {
        NewRequestSender::Client(share) if share < 1.0 && !step.site.admission.overload.is_off() => {
            Err(format!(
                "refused: 503 Overloaded, as {:.0} % of new requests from outside [distribution] now: no later proxy \
             has room",
                (1.0 - share) * 100.0
            ))
        }
        _ => Ok(()),
    }
}

/// Fails unless overload control accepts all new requests now.
fn check_overload(step: &Step<'_>) -> Result<(), String> {
    let (now, overload) = (step.site.now, &step.site.admission.overload);
    if overload.takes_all(now) {
        return Ok(());
    }
    let (law, acceptance, wait) = overload.standing(now);
    Err(format!(
        "refused: 503 Overloaded, as {:.0} % of new requests now: controller `{law}` of [overload]: messages wait {} \
         ms",
        (1.0 - acceptance) * 100.0,
        wait.as_millis()
    ))
}

/// Fails if the source has reached its rate limit.
fn check_rate(step: &Step<'_>, flow: Flow) -> Result<(), String> {
    let exceeded = step.site.admission.exceeded(step.site.now, flow.peer.ip());
    let Some((exceeded, refusal)) = exceeded else { return Ok(()) };
    let ip = flow.peer.ip();
    let by = match exceeded {
        Exceeded::Address => {
            format!("`per_address` of [access.rate]: {ip} has reached its limit of new requests")
        }
        Exceeded::Network => {
            format!(
                "`per_network` of [access.rate]: the network of {ip} has reached its limit of new requests"
            )
        }
    };
    Err(match refuse(refusal) {
        Rejection::Answered(own) => format!("refused: {} {}: {by}", own.status(), own.label()),
        _ => format!("dropped without an answer: {by}"),
    })
}
