//! Decides where a request goes, for traffic and for `explain`. Has no effects except on counters, and the effects of
//! the caller's `look`.

use crate::decide::client_flow::{FlowHop, plan_by_flow};
use crate::decide::destination::{Destination, destination};
use crate::forward::stateful::{DialogHop, Stateful};
use crate::forward::stateless::Stateless;
use crate::outcome::rejection::{OwnResponse, Rejection};
use crate::read::arrival::Arrival;
use crate::registrar::Registrar;
use crate::site::marks::is_asked;
use crate::site::reply::is_about_us;
use crate::step::Step;
use balance::RequestFacts;

/// The way of a request.
pub(crate) enum Plan<'m> {
    /// Within a dialog, to the target that the other party has named, by the token of a proxy.
    Dialog(DialogHop),
    /// By the connection of a client that its Route names.
    Flow(FlowHop),
    /// By the token of a pool, by a rule, or by the session table.
    To(Destination<'m>),
}

/// Decides about a request. Calls `look` before the rules are searched, unless a proxy's token or a client's connection
/// directs the request.
pub(crate) fn plan<'m>(
    step: &mut Step<'_>,
    arrival: &Arrival<'m>,
    stateless: &Stateless,
    stateful: Option<&Stateful>,
    registrar: Option<&Registrar>,
    look: impl FnOnce(&mut Step<'_>, &RequestFacts<'_>, bool) -> Result<(), Rejection>,
) -> Result<Plan<'m>, Rejection> {
    // If a neighbour asks this proxy to authenticate the sender, no Route may bypass the authentication.
    let may_pass = !is_asked(step.site, arrival.message, arrival.flow.peer);
    if let Some(stateful) = stateful.filter(|_| may_pass) {
        if let Some(hop) = stateful.plan_within(step, arrival)? {
            return Ok(Plan::Dialog(hop));
        }
        if let Some(hop) = plan_by_flow(step.site, arrival)? {
            return Ok(Plan::Flow(hop));
        }
    }
    let request = arrival.request(step.site);
    let is_for_registrar =
        registrar.is_some_and(|registrar| registrar.serves(arrival.message, &arrival.route));
    look(step, &request, !is_for_registrar)?;
    if registrar.is_some() && is_about_us(step.site, arrival.message) {
        return Err(Rejection::Answered(OwnResponse::Capabilities));
    }
    Ok(Plan::To(destination(step, arrival, request, is_for_registrar, &stateless.unacknowledged)?))
}
