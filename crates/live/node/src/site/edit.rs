//! Edits of forwarded requests and responses: rewriting by rules, and removal of header fields that must not leave the
//! trust domain (RFC 3325).

use crate::message::route_header::RouteHeader;
use crate::site::Site;
use base::Flow;
use route::Rule;
use wire::{Credentials, Message};

/// Header fields that hold credentials for proxies and registrars.
const CREDENTIALS: [&[u8]; 2] = [b"Authorization", b"Proxy-Authorization"];

/// Returns whether a header field states the identity of its sender. Only elements of the trust domain may state one
/// (RFC 3325 §9, and its predecessor `Remote-Party-ID`).
fn is_identity(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 3] = [b"P-Asserted-Identity", b"P-Preferred-Identity", b"Remote-Party-ID"];
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Returns the Request-URI after a rule has changed it, for a request that came by this listener. `None`: no change.
pub(crate) fn rewrite(site: &Site, rule: &Rule, uri: &[u8], listener: u16) -> Option<Vec<u8>> {
    let (here, mut rewritten) = (&site.topology.ports[listener].sent_by, Vec::new());
    rule.actions.uri(uri, here, &mut rewritten).then_some(rewritten)
}

/// Edits a request that came by this listener as its rule and its Route ask (§16.6 steps 2 and 6).
pub(crate) fn edit_by_rule(
    site: &mut Site,
    message: &Message<'_>,
    route: &RouteHeader<'_>,
    rule: Option<&Rule>,
    listener: u16,
) {
    let Some(rule) = rule else { return route.edit(message, None, &mut site.edits, &mut site.scratch) };
    let rewritten = rewrite(site, rule, route.uri(message), listener);
    route.edit(message, rewritten.as_deref(), &mut site.edits, &mut site.scratch);
    rule.actions.headers(message, &mut site.edits);
}

/// Removes credentials for this proxy (RFC 3261 §22.3), also in requests within dialogs (§13.2.2.4). Otherwise the next
/// elements could guess the password from the credentials. Also removes a client's statements about its own identity
/// (RFC 3325 §5).
pub(crate) fn drop_credentials(site: &mut Site, message: &Message<'_>, from: Flow) {
    let Some(realm) = site.realm.as_deref() else { return };
    let is_trusted = is_trusted(site, from);
    let is_ours = |name: &[u8], value: &[u8]| {
        CREDENTIALS.iter().any(|known| name.eq_ignore_ascii_case(known))
            && Credentials::parse(value).is_ok_and(|credentials| *credentials.realm.text() == *realm)
    };
    let is_unwanted = |name: &[u8], value: &[u8]| is_ours(name, value) || (!is_trusted && is_identity(name));
    site.edits.remove_fields(message, is_unwanted);
}

/// Removes a callee's statements about its own identity, if users have to authenticate (RFC 3325 §5).
pub(crate) fn drop_identity(site: &mut Site, response: &Message<'_>, from: Flow) {
    if site.realm.is_some() && !is_trusted(site, from) {
        site.edits.remove_headers(response, is_identity);
    }
}

/// Returns whether an element belongs to the trust domain (RFC 3325 §2.3): a member, a next hop, or an address in a
/// trusted network.
pub(crate) fn is_trusted(site: &Site, from: Flow) -> bool {
    site.topology.slot_of(from).is_some()
        || site.trusted.iter().any(|network| network.contains(from.peer.ip()))
}
