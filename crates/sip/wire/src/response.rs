//! Responses that an element gives of its own.

use std::net::SocketAddr;

use crate::build::ResponseBuilder;
use crate::message::Message;

/// Appends a response without body to the request `m`, which came from `source` (RFC 3261 §8.2.6).
///
/// `to_tag` is used for a request without To tag, unless `status` is 100; a stateless element gives the same tag for
/// each retransmission (§8.2.7). `extra` are further header fields, name and value. An ACK must not be answered: that
/// is the caller's to see.
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
