//! Pairs an incoming INVITE with its first response, usually 100 (Trying): the time until the server reads a request.
//! Without a provisional response the final one counts.

use super::{Keys, Sighting};
use crate::captured::Side;
use wire::{Message, Method};

pub(super) fn sighting(keys: Keys, message: &Message<'_>, side: Side) -> Option<Sighting> {
    if message.cseq().method != Method::Invite {
        return None;
    }
    let key = || keys.transaction(message, message.top_via());
    match (message.method(), side) {
        (Some(Method::Invite), Side::In) => Some(Sighting::Came(key())),
        (None, Side::Out) => Some(Sighting::Left(key())),
        _ => None,
    }
}
