//! Pairs an incoming INVITE with the outgoing one that has the same value of a header field. This is for a B2BUA, which
//! writes Via and CSeq anew, and usually Call-ID as well. Its configuration decides which field it copies: `X-Call-ID`,
//! `Session-ID` (RFC 7989), a charging vector. `Call-ID` is right for a proxy that only hides Vias.
//!
//! INVITEs within dialogs have the same value again, and are ignored.

use super::{Keys, Sighting};
use crate::captured::Side;
use wire::{Message, Method};

pub(super) fn sighting(keys: Keys, message: &Message<'_>, side: Side, name: &str) -> Option<Sighting> {
    if message.cseq().method != Method::Invite {
        return None;
    }
    let key = || message.header(name).filter(|value| !value.is_empty()).map(|value| keys.of(&[value]));
    match (message.method(), side) {
        (Some(Method::Invite), _) if message.to_tag().is_some() => None,
        (Some(Method::Invite), side) => Some(match (key(), side) {
            (Some(key), Side::In) => Sighting::Came(key),
            (Some(key), Side::Out) => Sighting::Left(key),
            (None, _) => Sighting::WithoutKey,
        }),
        (None, Side::Out) if super::final_response(message) => key().map(Sighting::Refused),
        _ => None,
    }
}
