//! Pairs any incoming request with its final response (RFC 3261 §17). For an INVITE this is the time until the callee
//! answers or refuses, so a method such as OPTIONS or REGISTER is better. ACK has no response.

use super::{Keys, Sighting};
use crate::captured::Side;
use wire::Message;

pub(super) fn sighting(
    keys: Keys,
    message: &Message<'_>,
    side: Side,
    method: Option<&[u8]>,
) -> Option<Sighting> {
    let named = message.cseq().method_name.of(message.bytes());
    if named.is_empty() || named == b"ACK" || method.is_some_and(|method| method != named) {
        return None;
    }
    let key = || keys.transaction(message, message.top_via());
    match (message.method(), side) {
        (Some(_), Side::In) => Some(Sighting::Came(key())),
        (None, Side::Out) if super::final_response(message) => Some(Sighting::Left(key())),
        _ => None,
    }
}
