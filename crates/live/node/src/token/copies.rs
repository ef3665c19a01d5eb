//! The key that all copies of a request have in common.

use super::Tokens;
use super::branch::has_cookie;
use core::hash::Hasher;
use std::net::{IpAddr, SocketAddr};
use wire::{Message, Method, request_source_target};

/// The key of a transaction, under a secret: the same for each copy of its request that comes from `from`, for its
/// CANCEL and for the ACK to its failure (RFC 3261 §9.1, §17.1.1.3, §17.2.3), and for no other request. Another
/// branch of a request that was forked, or one that comes back with another Request-URI (a spiral, §16.3 step 4), has
/// a key of its own; and so has an OPTIONS beside an INVITE.
pub(crate) fn copies_key(tokens: &Tokens, message: &Message<'_>, from: SocketAddr) -> u64 {
    let via = message.top_via();
    let target = request_source_target(via, from).unwrap_or(from);
    // The branch of an RFC 2543 peer tells nothing (§17.2.3), and the one of its CANCEL may be another.
    let branch = via.branch.filter(|branch| has_cookie(branch)).unwrap_or_default();
    let (from_tag, uri) = (message.from_tag().unwrap_or_default(), message.uri().unwrap_or_default());
    let method = message.method().unwrap_or(Method::Other);
    let (class, name) = match method {
        Method::Ack | Method::Cancel => (Method::Invite, &[][..]),
        Method::Other => (method, message.cseq().method_name.of(message.bytes())),
        _ => (method, &[][..]),
    };
    let ip = match target.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    // In one piece: the hasher is slow with small ones.
    let mut fixed = [0; 35];
    fixed[..16].copy_from_slice(&ip.octets());
    fixed[16..18].copy_from_slice(&target.port().to_be_bytes());
    fixed[18] = class as u8;
    fixed[19..23].copy_from_slice(&message.cseq().number.to_be_bytes());
    for (place, text) in fixed[23..].chunks_exact_mut(4).zip([from_tag, uri, branch]) {
        place.copy_from_slice(&(text.len() as u32).to_be_bytes());
    }
    let mut hasher = tokens.kept_hasher();
    for text in [&fixed, from_tag, uri, branch, name, message.call_id()] {
        hasher.write(text);
    }
    hasher.finish()
}
