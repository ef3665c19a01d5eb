//! Pairs an incoming INVITE with the same INVITE when it leaves: the time that a proxy takes to forward it (as in the
//! paper, section IV-A).
//!
//! The paper pairs by Call-ID. Here the outgoing INVITE must have the Via of the incoming one directly below the
//! server's own, with the same Call-ID and CSeq. So
//!
//! - a retransmission is the same request, and the first outgoing copy counts;
//! - of a fork the first branch counts;
//! - a spiral, which returns with another element's Via on top, is a separate request;
//! - a re-INVITE has another CSeq;
//! - responses to the server, and requests that the server itself starts, are not paired.
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
