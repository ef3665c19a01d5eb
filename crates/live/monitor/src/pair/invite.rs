//! From an INVITE that comes in to the INVITE that goes out: what a proxy takes to pass it on (the paper's way,
//! section IV-A).
//!
//! The paper pairs by Call-ID. Here the outgoing INVITE has to carry the Via of the one that came in right below the
//! server's own, with the same Call-ID and CSeq. So
//!
//! - a retransmission is the same request, and the first copy that goes out counts;
//! - of a fork the first branch counts;
//! - a spiral, which comes back with a Via of another element on top, is a request of its own;
//! - a re-INVITE has another CSeq;
//! - what another element answers to the server, or the server itself begins, is paired with nothing.
//!
//! An INVITE that the server answers itself (a challenge, a refusal) has no latency, and counts as refused.

use super::{Keys, Sighting};
use crate::captured::Side;
use wire::{Message, Method};

pub(super) fn sighting(keys: Keys, message: &Message<'_>, side: Side) -> Option<Sighting> {
    if message.cseq().method != Method::Invite {
        return None;
    }
    match (message.method(), side) {
        (Some(Method::Invite), Side::In) => {
            Some(Sighting::Came(keys.transaction(message, message.top_via())))
        }
        (Some(Method::Invite), Side::Out) => match message.second_via() {
            Some(below) => Some(Sighting::Left(keys.transaction(message, &below))),
            None => Some(Sighting::Own),
        },
        (None, Side::Out) => super::final_response(message)
            .then(|| Sighting::Refused(keys.transaction(message, message.top_via()))),
        _ => None,
    }
}
