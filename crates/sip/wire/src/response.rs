//! Responses that an element itself generates.

use std::net::SocketAddr;

use crate::build::ResponseBuilder;
use crate::message::Message;

/// Appends a response without body to the request `m`, which came from `source` (RFC 3261 §8.2.6).
///
/// `to_tag` is used if the request has no To tag and `status` is not 100. A stateless element must use the same tag for
/// each retransmission (§8.2.7). `extra` are further header fields, each with name and value. The caller must not
/// answer an ACK.
pub fn write_response(
    m: &Message<'_>,
    source: SocketAddr,
    status: u16,
    reason: &str,
    to_tag: &str,
    extra: &[(&str, &str)],
    out: &mut Vec<u8>,
) {
    let reply = ResponseBuilder::reply(out, m, source, status, reason, to_tag);
    extra.iter().fold(reply, |reply, (name, value)| reply.header(name, value)).finish(b"");
}
