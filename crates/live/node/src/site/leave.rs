//! The transport by which a request leaves (RFC 3261 §18.1.1). A request that is too long for UDP leaves by TCP, or by
//! UDP if the connection fails.
//!
//! A CANCEL and the ACK to a failure follow their INVITE (§9.1, §17.1.1.3): they have its branch.

use crate::address::ports::{Port, Ports};
use crate::site::Site;
use crate::site::large::{LONGEST_OVER_UDP, LargeRequests};
use crate::token::Tokens;
use base::{Flow, Peer, Transport};
use core::hash::Hasher;
use core::ops::Range;
use wire::{Message, Method};

/// Bytes of a `Via` line besides its value.
const VIA_LINE: usize = "Via: \r\n".len();

fn hash(tokens: &Tokens, branch: &[u8]) -> u64 {
    let mut hasher = tokens.kept_hasher();
    hasher.write(branch);
    hasher.finish()
}

/// Returns a TCP flow to the peer of `udp`, if possible from the same local address.
fn tcp_instead(ports: &Ports, udp: Flow) -> Option<Flow> {
    let ip = ports.get(udp.listener)?.advertised.ip();
    let is_beside = |port: &Port| port.transport == Transport::Tcp && port.advertised.ip() == ip;
    let beside = ports.iter().position(is_beside).map_or(udp.listener, |at| at as u16);
    ports.toward(beside, Peer::new(Transport::Tcp, udp.peer))
}

/// RFC 3261 §16.6 step 8: adds the Via of this proxy to a request that goes to `hop`. The Via is in the scratch, with
/// its branch at `branch`. Returns the flow that the request leaves by, and the new place of the branch.
#[inline]
pub(crate) fn push_own_via(
    site: &mut Site,
    message: &Message<'_>,
    hop: Flow,
    branch: Range<usize>,
) -> (Flow, Range<usize>) {
    let most = site.edits.longest(message) + site.scratch.len();
    let may_follow = || {
        let is_part = matches!(message.method(), Some(Method::Ack | Method::Cancel));
        is_part && !site.large.sent.is_empty()
    };
    let may_be_large = most > LONGEST_OVER_UDP - VIA_LINE || may_follow();
    let mut left = (hop, branch);
    if may_be_large && hop.transport == Transport::Udp {
        left = leave_by_length(site, message, hop, left.1);
    }
    site.edits.push_via(message, &site.scratch);
    left
}

/// Returns the flow for a request that may be too long for UDP. Its Via is in the scratch.
#[cold]
fn leave_by_length(
    site: &mut Site,
    message: &Message<'_>,
    udp: Flow,
    branch: Range<usize>,
) -> (Flow, Range<usize>) {
    let stays = (udp, branch.clone());
    let key = hash(&site.tokens, &site.scratch[branch.clone()]);
    let follows = matches!(message.method(), Some(Method::Ack | Method::Cancel))
        && matches!(site.large.sent.get(&key), Some(Some(_)));
    let length = site.edits.length(message) + VIA_LINE + site.scratch.len();
    // A client may be behind a NAT or a firewall that drops connection attempts silently, so that the request would
    // wait long.
    let is_server = site.topology.slot_at(udp.remote()).is_some();
    let is_large = is_server && site.large.by == LargeRequests::Tcp && length > LONGEST_OVER_UDP;
    let stays_over_udp = site.large.sent.get(&key) == Some(&None) || !site.large.may_try(site.now, udp.peer);
    if is_large && stays_over_udp {
        // Copies of this request also leave by UDP, even after a new connection attempt is allowed.
        site.large.sent.insert(key, None);
        return stays;
    }
    let Some(tcp) = tcp_instead(&site.topology.ports, udp).filter(|_| is_large || follows) else {
        return stays;
    };
    site.large.sent.insert(key, Some(udp.listener));
    let via = site.topology.ports[tcp.listener].via.as_bytes();
    site.scratch.splice(..branch.start, via.iter().copied());
    (tcp, via.len()..via.len() + branch.len())
}

/// Returns whether this request was assigned to `tcp`, and a copy of it has left by UDP since.
pub(crate) fn has_left_by_udp(site: &Site, tcp: Flow, request: &[u8]) -> bool {
    let branch = wire::scan(request).ok().and_then(|message| message.top_via().branch);
    let was = branch.and_then(|branch| site.large.sent.get(&hash(&site.tokens, branch)));
    tcp.transport == Transport::Tcp && was == Some(&None)
}

/// Returns a request in its form for UDP, and its flow, after the TCP connection for it was not accepted. `None` if its
/// length was not the reason for TCP.
pub(crate) fn over_udp(site: &mut Site, tcp: Flow, request: &[u8]) -> Option<(Vec<u8>, Flow)> {
    if tcp.transport != Transport::Tcp || tcp.connection.is_some() {
        return None;
    }
    let message = wire::scan(request).ok()?;
    let via = message.top_via();
    let key = hash(&site.tokens, via.branch?);
    let listener = (*site.large.sent.get(&key)?)?;
    let ports = &site.topology.ports;
    let before = ports.get(tcp.listener)?.via.as_bytes();
    let after = ports.get(listener).filter(|port| port.transport == Transport::Udp)?.via.as_bytes();
    let start = via.value.start as usize;
    let written = request.get(start..start + before.len()).filter(|written| *written == before)?;
    site.edits.clear();
    site.edits.replace(&message, written, after);
    let mut bytes = Vec::with_capacity(request.len() + after.len());
    site.edits.render(&message, &mut bytes);
    site.large.sent.insert(key, None);
    site.large.refused(site.now, tcp.peer);
    Some((bytes, Flow::udp(listener, tcp.peer)))
}
