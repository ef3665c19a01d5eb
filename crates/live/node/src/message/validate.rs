//! Validation of requests (RFC 3261 §16.3), the same for every way of forwarding.

use crate::address::ports::Ports;
use crate::address::topology::AddressTable;
use crate::message::route_header::RouteHeader;
use crate::outcome::rejection::{Refused, refused};
use crate::token::KeyIndex;
use crate::token::Tokens;
use crate::token::branch::{self, Routing};
use base::Transport;
use wire::{Message, Method, Via, scheme_of};

/// URI schemes that elements behind this proxy may understand (RFC 3261 §16.3 step 2).
const SCHEMES: [&[u8]; 4] = [b"sip", b"sips", b"tel", b"urn"];

/// Maximum payload of a UDP datagram over IPv4 in bytes: 65,535 less the headers of IP and UDP. The limit also applies
/// to IPv6, since a request received over IPv6 may be forwarded over IPv4.
pub(crate) const LARGEST: usize = Transport::Udp.longest();

/// Maximum bytes that forwarding adds to a request. A Via and two Record-Routes with IPv6 addresses, transports and
/// tokens with connections take 470 bytes, and a mark for the next proxy takes 16 bytes. `received`, `rport`,
/// Max-Forwards and Max-Breadth take 92 bytes, and the brackets around a Request-URI that becomes a Route about 12
/// bytes. A response gains less than it loses with its topmost Via.
pub(crate) const ADDED: usize = 640;

/// Checks that there is room for the bytes that forwarding adds, and for `beside` more bytes (§21.5.14).
pub(crate) fn check_room(message: &Message<'_>, beside: usize) -> Result<(), Refused> {
    let fits = message.bytes().len() + beside <= LARGEST - ADDED;
    if fits { Ok(()) } else { Err(refused(513, "Message Too Large")) }
}

/// Steps 1 to 3: checks syntax, scheme and Max-Forwards. RFC 5393 §5.3.3: checks Max-Breadth, since each branch needs
/// at least 1. Also checks that there is room for the bytes that forwarding adds (§21.5.14): a datagram that cannot be
/// sent would get no response.
pub(crate) fn check_form(message: &Message<'_>) -> Result<(), Refused> {
    if let Some(fault) = message.fault() {
        return Err(refused(fault.status, fault.reason));
    }
    check_room(message, 0)?;
    // Step 2.
    let known = |scheme: &[u8]| SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known));
    if !scheme_of(message.uri().unwrap_or_default()).is_some_and(known) {
        return Err(refused(416, "Unsupported URI Scheme"));
    }
    // Step 3.
    if message.max_forwards().is_some_and(|(hops, _)| hops == 0) {
        return Err(refused(483, "Too Many Hops"));
    }
    // RFC 5393 §5.4.1: Max-Breadth in a CANCEL has no meaning.
    if message.max_breadth().is_some_and(|(branches, _)| branches == 0)
        && message.method() != Some(Method::Cancel)
    {
        return Err(refused(440, "Max-Breadth Exceeded"));
    }
    Ok(())
}

/// Refusal of a SIPS request whose next hop is not reached over TLS (RFC 5630 §5.3).
pub(crate) const SIPS_NOT_ALLOWED: Refused = refused(480, "SIPS Not Allowed");

/// Returns whether the scheme of a URI is SIPS.
pub(crate) fn is_sips(uri: &[u8]) -> bool {
    uri.split_at_checked(5).is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case(b"sips:"))
}

/// Returns whether a request must go on over TLS, because its Request-URI or next Route value is SIPS (RFC 3261 §16.6
/// step 6, §26.2.2).
pub(crate) fn asks_for_tls(message: &Message<'_>, route: &RouteHeader<'_>) -> bool {
    route.next.is_some_and(is_sips) || route.last.or(message.uri()).is_some_and(is_sips)
}

/// RFC 3261 §26.2.2: checks that a SIPS request came over TLS, even from a member, and can go on over TLS.
pub(crate) fn check_secure(
    message: &Message<'_>,
    route: &RouteHeader<'_>,
    ports: &Ports,
    from: Transport,
) -> Result<(), Refused> {
    if route.last.or(message.uri()).is_some_and(is_sips) && !from.is_secure() {
        return Err(refused(416, "SIPS Needs TLS"));
    }
    if route.next.is_some_and(is_sips) && !ports.has(Transport::Tls) {
        return Err(refused(502, "Next Hop Needs TLS"));
    }
    Ok(())
}

/// Step 4 (RFC 5393 §4.2): if a Via of this proxy in the request has the same routing decision, there is a loop.
/// Returns the hash of the decision for this proxy's Via.
pub(crate) fn check_loop(
    topology: &AddressTable,
    tokens: &Tokens,
    message: &Message<'_>,
    routing: &Routing<'_>,
    key: KeyIndex,
) -> Result<u32, Refused> {
    // Another element of the site makes the same hash, so its Via is distinguished by the sent-by.
    let looped = |via: &Via<'_>| {
        let seen = via.branch.and_then(branch::peek_routing);
        seen.is_some_and(|seen| topology.ports.wrote(via) && tokens.is_routing(routing, seen))
    };
    let lower = || message.has_lower_vias() && message.vias().skip(1).flatten().any(|via| looped(&via));
    if looped(message.top_via()) || lower() {
        return Err(refused(482, "Loop Detected"));
    }
    Ok(tokens.routing(routing, key))
}

/// Step 5. A proxy must not forward a request that requires an extension unknown to it.
pub(crate) fn check_extensions(message: &Message<'_>) -> Result<(), Refused> {
    if message.proxy_require().next().is_some()
        && !matches!(message.method(), Some(Method::Ack | Method::Cancel))
    {
        return Err(refused(420, "Bad Extension"));
    }
    Ok(())
}
