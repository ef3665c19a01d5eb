//! Record-Route of this proxy: in requests that begin a dialog (RFC 3261 §16.6 step 4) and in their responses (§16.7
//! step 8).

use crate::address::client_flow::ClientFlow;
use crate::address::target::Target;
use crate::address::topology::AddressTable;
use crate::message::route_header::OwnRoute;
use crate::message::validate::is_sips;
use crate::outcome::rejection::{Refused, refused};
use crate::site::Site;
use crate::token::dialog::{AnswerTarget, is_peers};
use crate::token::owner::TokenOwner;
use base::Flow;
use wire::{Message, Method};

/// Returns whether a request begins a dialog (§16.6 step 4). Within a dialog, Record-Route changes nothing.
pub(crate) fn wants_record_route(message: &Message<'_>) -> bool {
    message.to_tag().is_none()
        && matches!(message.method(), Some(Method::Invite | Method::Subscribe | Method::Refer))
}

/// RFC 3261 §8.1.1.3: From MUST have a tag, which RFC 2543 did not require. Only the tags tell the sides of a dialog
/// apart. `is_counted`: this proxy has to recognise the end of the dialog, so a request without the tag is refused.
/// Otherwise such a request only gets no Record-Route.
pub(crate) fn check_from_tag(message: &Message<'_>, is_counted: bool) -> Result<(), Refused> {
    if is_counted && wants_record_route(message) && message.from_tag().is_none() {
        return Err(refused(400, "From Tag Missing"));
    }
    Ok(())
}

/// Returns whether a 2xx to an INVITE lacks the Record-Route that this proxy adds to every INVITE with a From tag. RFC
/// 3261 §12.1.1: the UAS MUST copy this Record-Route. Otherwise requests within the dialog come without the token that
/// directs them.
pub(crate) fn is_unrecorded(response: &Message<'_>) -> bool {
    !response.has_record_routes()
        && response.cseq().method == Method::Invite
        && response.from_tag().is_some()
        && response.status().is_some_and(|status| (200..300).contains(&status))
}

/// Adds the Record-Route of this proxy with the token in the scratch. There is a value for each of `ports`; the value
/// of the port towards the next hop is on top (RFC 5658).
pub(crate) fn record(site: &mut Site, message: &Message<'_>, ports: [u16; 2], element: TokenOwner) {
    let Site { topology, edits, scratch, .. } = site;
    let sides = if ports[0] == ports[1] { &ports[..1] } else { &ports[..] };
    let token = scratch.len();
    for &side in sides {
        scratch.truncate(token);
        let port = &topology.ports[side];
        // RFC 3261 §16.6 step 4: the URI is SIPS if the Request-URI is SIPS.
        let scheme = if message.uri().is_some_and(is_sips) { "<sips:" } else { "<sip:" };
        for part in [scheme, &port.sent_by, port.uri_params, ";lr;", element.param(), "="] {
            scratch.extend_from_slice(part.as_bytes());
        }
        scratch.extend_from_within(..token);
        scratch.push(b'>');
        edits.push_record_route(message, &scratch[token..]);
    }
}

/// Returns the target of requests within the dialog that go from this proxy to the initiator, and whether it is the
/// Contact. The target is the topmost Record-Route value of another element; without such a value it is the Contact.
/// All successive values of this proxy are removed at once.
pub(crate) fn initiator_target<'a>(
    topology: &AddressTable,
    request: &Message<'a>,
    element: TokenOwner,
) -> (Target<'a>, bool) {
    let others = |uri: &&[u8]| OwnRoute::of(topology, uri, element).is_none();
    let next = request.record_routes().map(|value| value.uri).find(others);
    (next.or(request.contact()).map_or(Target::Nowhere, Target::of), next.is_none())
}

/// §16.7 step 8: in a response that goes back to the initiator of a dialog, writes the initiator's token into the
/// Record-Route values of this proxy. If the response begins no dialog, only removes the peer's token from these
/// values, since each side must see only its own token. The response came by the flow `source`.
///
/// Returns the target of the token, if there is one.
pub(crate) fn hand_over<'a>(
    site: &mut Site,
    response: &Message<'a>,
    source: Flow,
    element: TokenOwner,
) -> Option<Target<'a>> {
    if !response.has_record_routes() {
        return None;
    }
    let Site { topology, tokens, edits, scratch, .. } = site;
    let begins = response.status().is_some_and(|status| (101..300).contains(&status));
    let (mut above, mut led) = (None, None);
    for value in response.record_routes() {
        let Some(own) = OwnRoute::of(topology, value.uri, element) else {
            above = Some(value.uri);
            continue;
        };
        let Some(token) = own.token.filter(|token| is_peers(element, token)) else { continue };
        let target = above.or(response.contact()).map_or(Target::Nowhere, Target::of);
        // If there is a proxy between this one and the Contact, that proxy is reached by its URI.
        let flow = if above.is_none() { ClientFlow::seen(source, topology) } else { None };
        let flow = flow.filter(|flow| flow.is_connection() || target != Target::Address(source.remote()));
        let to = AnswerTarget { target, heard: target.is_at(source.peer), flow, source: source.remote() };
        scratch.clear();
        if begins && tokens.write_answer(element, token, response, &to, scratch) {
            led = Some(target);
        } else {
            scratch.resize(token.len(), b'0');
        }
        edits.replace(response, token, scratch);
    }
    led
}
