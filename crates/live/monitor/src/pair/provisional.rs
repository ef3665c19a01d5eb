//! From an INVITE that comes in to its first answer, which for most servers is 100 (Trying): what it takes to look at
//! a request. A server that sends no provisional response is measured to its final one.

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
