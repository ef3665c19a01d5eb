//! Clients behind a NAT over UDP, by their addresses in a request and its source address.

use crate::address::target::Target;
use base::{Flow, Transport};
use std::net::IpAddr;
use wire::{Message, Rport};

/// Returns whether a request came directly from a client behind a NAT. Neither its Via nor its Contact has the source
/// address, and the Contact has a private address. With `rport` the client receives at its source port (RFC 3581 §4),
/// so requests can go there as well.
pub(crate) fn is_behind_nat(message: &Message<'_>, from: Flow) -> bool {
    let via = message.top_via();
    from.transport == Transport::Udp
        && via.rport != Rport::Absent
        && via.host.ip().is_some_and(|ip| ip.to_canonical() != from.peer.ip().to_canonical())
        && !message.has_lower_vias()
        && message.contact().is_some_and(|contact| {
            let target = Target::of(contact);
            matches!(target, Target::Address(at) if is_private(at.address.ip())) && !target.is_at(from.peer)
        })
}

/// Returns whether hosts outside of a network cannot reach this address of a host in the network: RFC 1918, RFC 6598,
/// RFC 3927.
fn is_private(ip: IpAddr) -> bool {
    let IpAddr::V4(ip) = ip.to_canonical() else { return false };
    let [first, second, ..] = ip.octets();
    ip.is_private() || ip.is_link_local() || (first == 100 && second & 0xc0 == 64)
}
