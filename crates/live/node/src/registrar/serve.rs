//! Work of the registrar before a request is forwarded: registration, authentication, and the look-up of the caller.

use crate::address::nat::is_behind_nat;
use crate::decide::destination::{Destination, To};
use crate::outcome::counters::Drop;
use crate::outcome::rejection::{CREDENTIALS_NOT_VERIFIED, Refused, Rejection, refused};
use crate::read::arrival::Arrival;
use crate::read::progress::{Progress, Proof, Stage};
use crate::registrar::Registrar;
use crate::seen::Hop;
use crate::site::marks::{is_asked, is_vouched};
use crate::site::record::wants_record_route;
use crate::step::Step;
use balance::{Balancer, RequestFacts};
use route::Forward;
use wire::Method;

const UNKNOWN_DIALOG: Refused = refused(481, "Call/Transaction Does Not Exist");

/// Authenticates the sender, if a route requires it, and serves REGISTER requests.
pub(crate) fn serve(
    step: &mut Step<'_>,
    registrar: Option<&mut Registrar>,
    arrival: &Arrival<'_>,
    destination: &Destination<'_>,
    progress: &mut Progress,
) -> Result<Stage, Rejection> {
    let is_located = matches!(destination.to, To::Contacts);
    let is_for_registrar = matches!(destination.to, To::Registrar);
    let is_new = arrival.message.to_tag().is_none();
    let is_asked = is_asked(step.site, arrival.message, arrival.flow.peer);
    // The ACK to a challenge has the Via of its INVITE (RFC 3261 §17.1.1.3), and goes where the INVITE went.
    let can_verify = is_new && registrar.as_ref().is_some_and(|registrar| registrar.realm().is_some());
    if is_asked && !can_verify && !(arrival.method == Method::Ack && arrival.hop().is_some()) {
        return Err(CREDENTIALS_NOT_VERIFIED.into());
    }
    if is_new && is_vouched(step.site, arrival.message, arrival.flow.peer) {
        progress.proof = Proof::Before;
    }
    if registrar.is_none() && !is_located {
        return Ok(Stage::GoesOn);
    }
    // [22.1-3] Neither ACK nor CANCEL is challenged. Requests of known transactions or dialogs have been handled
    // before.
    let is_about = !arrival.begins_transaction();
    let from_member = arrival.member.is_some();
    let is_passed = match registrar.as_ref().map(|registrar| registrar.forward()) {
        // There is no record of the hop of the INVITE, but the same look-up gives the same hop.
        Some(Forward::Stateless) => true,
        Some(Forward::Distributed) => matches!(arrival.hop(), Some(Hop::Contact(_))),
        Some(Forward::Transaction | Forward::Dialog) | None => false,
    };
    if is_about && is_located && is_passed {
        return Ok(Stage::GoesOn);
    }
    if !is_new || is_about {
        // A request with an invented To tag must not pass without a password.
        let is_doubtful = step.site.realm.is_some()
            && arrival.held().is_none()
            && !from_member
            && !is_of_session(step.balancer, &destination.request);
        return match arrival.method {
            Method::Ack if is_located => Err(Rejection::Dropped(Drop::Orphan)),
            _ if is_located || (is_doubtful && !is_about) => Err(UNKNOWN_DIALOG.into()),
            _ => Ok(Stage::GoesOn),
        };
    }
    let asks = destination.rule.is_some_and(|rule| step.site.routes.rule(rule).authenticate);
    let authenticates = is_for_registrar || is_asked || (asks && !from_member);
    if !(authenticates || is_located) {
        return Ok(Stage::GoesOn);
    }
    let Some(registrar) = registrar else { return Ok(Stage::GoesOn) };
    if is_for_registrar {
        // A neighbour may vouch for a caller, but not for the right to register.
        if progress.user().is_none() && registrar.authenticate(step, arrival, progress)? == Stage::Done {
            return Ok(Stage::Done);
        }
        registrar.register(step, arrival, progress)?;
        return Ok(Stage::Done);
    }
    if authenticates && registrar.authenticate_caller(step, arrival, destination, progress)? == Stage::Done {
        return Ok(Stage::Done);
    }
    registrar.check_from(step.site, arrival.message, progress)?;
    Ok(Stage::GoesOn)
}

/// Finds out whether a caller that begins a dialog is reached at its source address. If only the store can tell, asks
/// it. Does so only if this proxy may stay on the path of the dialog.
pub(crate) fn find_caller(
    step: &mut Step<'_>,
    registrar: Option<&mut Registrar>,
    arrival: &Arrival<'_>,
    destination: &Destination<'_>,
    progress: &mut Progress,
) -> Stage {
    let is_left = matches!(destination.to, To::Address(_));
    let reaches_sources = registrar.as_ref().is_none_or(|registrar| registrar.reaches_sources());
    let is_asked = wants_record_route(arrival.message) && reaches_sources && !is_left;
    if !is_asked || progress.is_at_source.is_some() {
        return Stage::GoesOn;
    }
    if is_behind_nat(arrival.message, arrival.flow) {
        progress.is_at_source = Some(true);
        return Stage::GoesOn;
    }
    let Some(registrar) = registrar else { return Stage::GoesOn };
    let Some(aor) = registrar.caller(step.site, arrival) else { return Stage::GoesOn };
    registrar.look_up_caller(step, arrival, aor, progress)
}

/// Returns whether a request belongs to a call in the session table, so that its To tag is not invented to avoid a
/// password. The request belongs to an answered dialog, or its method cannot begin a call (RFC 3262 §3, RFC 3311 §5.1).
fn is_of_session(balancer: &Balancer, request: &RequestFacts<'_>) -> bool {
    let begins_nothing = matches!(request.method, Method::Bye | Method::Prack | Method::Update);
    balancer.has_dialog(request) || (begins_nothing && balancer.session_of(request).is_some())
}
