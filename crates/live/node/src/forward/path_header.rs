//! The Path header field of a forwarded REGISTER, which names the connection of the client, or its source address over
//! UDP (RFC 5626 §5.1).

use crate::address::client_flow::ClientFlow;
use crate::address::nat::is_behind_nat;
use crate::forward::keep_alive::note_registered;
use crate::message::route_header::NAT;
use crate::message::validate::is_sips;
use crate::site::Site;
use base::Flow;
use wire::Message;

/// Usual duration of a binding in seconds. It applies if a client asks for no duration. If a client asks for less,
/// registrars may still grant this duration.
const USUAL_EXPIRES: u32 = 3_600;

/// Longest time in seconds for which a client gets keep-alives without another REGISTER. The registrar may have granted
/// less.
const LONGEST_EXPIRES: u32 = 86_400;

/// Maximum delay of a REGISTER on the way to its registrar, in seconds: 64*T1.
const ON_THE_WAY: u32 = 32;

/// Returns the time in seconds after which the bindings of a REGISTER have expired.
fn longest_binding(message: &Message<'_>) -> u32 {
    message.longest_expires().unwrap_or_default().max(USUAL_EXPIRES).saturating_add(ON_THE_WAY)
}

/// Adds a URI of this proxy with the client's flow to a REGISTER, if this is the first hop. A client with a connection
/// must support Path. A client behind a NAT over UDP gets a Path in any case, since calls could not reach it otherwise.
/// Registrars that do not know Path ignore it; others may refuse it (420), which their settings can change.
#[cold]
pub(crate) fn add_path(site: &mut Site, message: &Message<'_>, from: Flow, hop: Flow) {
    let is_first = !message.has_lower_vias() && message.header("Path").is_none();
    let is_sought = is_behind_nat(message, from) || (from.connection.is_some() && message.supports("path"));
    let client = ClientFlow::of(from, &site.topology, true).filter(|_| is_first && is_sought);
    let Some(client) = client else { return };
    let until = site.unix().saturating_add(longest_binding(message));
    let port = &site.topology.ports[hop.listener];
    let scheme = if message.uri().is_some_and(is_sips) { "<sips:" } else { "<sip:" };
    site.scratch.clear();
    site.scratch.extend_from_slice(scheme.as_bytes());
    site.tokens.write_flow(from.listener, client, until, &mut site.scratch);
    let kind = if client.is_connection() { "ob" } else { NAT };
    for part in ["@", &port.sent_by, port.uri_params, ";lr;", kind, ">"] {
        site.scratch.extend_from_slice(part.as_bytes());
    }
    site.edits.add_header(message, "Path", &site.scratch);
}

/// Notes the client of a REGISTER that the registrar behind this proxy has accepted, so that it gets keep-alives.
#[cold]
pub(crate) fn note_client(site: &mut Site, from: Flow, message: &Message<'_>) {
    if is_behind_nat(message, from) || message.contact().is_none() {
        note_registered(site, from, message, [USUAL_EXPIRES, LONGEST_EXPIRES]);
    }
}
