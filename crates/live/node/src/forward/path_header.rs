//! The Path header field in a REGISTER that goes on to a registrar: it names the connection of the client (RFC 5626 §5.1).

use crate::address::client_flow::ClientFlow;
use crate::message::validate::is_sips;
use crate::site::Site;
use base::Flow;
use wire::Message;

/// Seconds that a binding usually lasts: where a client does not say how long, and registrars may grant so much where it
/// asks for less.
const USUAL_EXPIRES: u32 = 3_600;

/// How much later than we pass it on a REGISTER may reach its registrar: 64*T1.
const ON_THE_WAY: u32 = 32;

/// Seconds after which the bindings of a REGISTER have expired.
fn longest_binding(message: &Message<'_>) -> u32 {
    message.longest_expires().unwrap_or_default().max(USUAL_EXPIRES).saturating_add(ON_THE_WAY)
}

/// Adds our URI with the flow of the client to its REGISTER, if we are the first hop and the client knows of Path.
#[cold]
pub(crate) fn add_path(site: &mut Site, message: &Message<'_>, from: Flow, hop: Flow) {
    let is_first = !message.has_lower_vias() && message.header("Path").is_none();
    let Some(client) = ClientFlow::of(from, &site.topology, false).filter(|_| is_first) else { return };
    if !message.supports("path") {
        return;
    }
    let until = site.unix().saturating_add(longest_binding(message));
    let port = &site.topology.ports[hop.listener];
    let scheme = if message.uri().is_some_and(is_sips) { "<sips:" } else { "<sip:" };
    site.scratch.clear();
    site.scratch.extend_from_slice(scheme.as_bytes());
    site.tokens.write_flow(from.listener, client, until, &mut site.scratch);
    for part in ["@", &port.sent_by, port.uri_params, ";lr;ob>"] {
        site.scratch.extend_from_slice(part.as_bytes());
    }
    site.edits.add_header(message, "Path", &site.scratch);
}
