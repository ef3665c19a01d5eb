//! Keep-alives to registered clients behind a NAT over UDP. They go from the listener that received the REGISTER to
//! its source. A keep-alive is an OPTIONS, since the answer of the client renews the mapping of every NAT. A datagram
//! from outside need not renew it (RFC 4787 REQ-6).

use crate::address::ports::Ports;
use crate::outcome::event::ShardEvent;
use base::{Flow, Instant, Outbox, Peer, Transport};
use location::Source;
use std::collections::{BTreeMap, BTreeSet};
use wire::build::RequestBuilder;
use wire::{Message, Method};

/// The contacts of one shard that get keep-alives.
#[derive(Default)]
pub(crate) struct KeepAlives {
    /// The number of this shard, and the number of shards.
    pub(crate) place: (usize, usize),
    /// By a hash of To and source of the REGISTER, so that a user has one entry for each mapping of a NAT.
    pub(crate) contacts: BTreeMap<u64, NatContact>,
    /// Times of the next keep-alives, one for each contact.
    pub(crate) due: BTreeSet<(Instant, u64)>,
}

pub(crate) struct NatContact {
    pub(crate) source: Source,
    pub(crate) uri: Box<[u8]>,
    pub(crate) expires: Instant,
    pub(crate) due: Instant,
    /// Number of the last keep-alive.
    pub(crate) number: u32,
    /// Random mark of the last keep-alive, which its answer repeats.
    pub(crate) mark: u64,
    pub(crate) unanswered: u8,
}

impl KeepAlives {
    pub(crate) fn set_place(&mut self, shard: usize, shards: usize) {
        self.place = (shard, shards);
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due.first().map(|&(due, _)| due)
    }

    /// Returns whether a response answers a keep-alive, and notes that its contact can be reached.
    pub(crate) fn hear(&mut self, from: Flow, response: &Message<'_>) -> bool {
        let Some((key, mark)) = read_call_id(response.call_id()) else { return false };
        let Some(contact) = self.contacts.get_mut(&key) else { return false };
        let is_answer = contact.mark == mark && contact.source.peer == from.peer;
        if is_answer {
            contact.unanswered = 0;
        }
        is_answer
    }
}

impl NatContact {
    pub(crate) fn write(&self, key: u64, ports: &Ports, out: &mut Outbox<ShardEvent>) {
        let Self { source, ref uri, number, mark, .. } = *self;
        // The listener may be another one after a reload, or may be gone.
        let Some(listener) = ports.advertised_at(Peer::new(Transport::Udp, source.local)) else { return };
        let port = &ports[listener];
        out.send(Flow::udp(listener, source.peer), |buffer| {
            RequestBuilder::new(buffer, "OPTIONS", uri)
                .header_fmt("Via", format_args!("{}z9hG4bKk{mark:016x}", port.via))
                .header("Max-Forwards", "70")
                .header_fmt("From", format_args!("<sip:keep-alive@{}>;tag={mark:x}", port.sent_by))
                .header("To", [b"<", &**uri, b">"].concat())
                .header("Call-ID", call_id(key, mark))
                .header_fmt("CSeq", format_args!("{number} OPTIONS"))
                .header("Accept", "application/sdp")
                .finish(b"");
        });
    }
}

pub(crate) fn call_id(key: u64, mark: u64) -> String {
    format!("keep-alive-{key:016x}{mark:016x}")
}

/// Returns whether a message with this Call-ID and method is a keep-alive or its answer.
pub fn is_keep_alive(call_id: &[u8], method: Method) -> bool {
    method == Method::Options && read_call_id(call_id).is_some()
}

/// Returns the key of the contact and the mark in such a Call-ID.
fn read_call_id(text: &[u8]) -> Option<(u64, u64)> {
    let (key, mark) = core::str::from_utf8(text.strip_prefix(b"keep-alive-")?).ok()?.split_at_checked(16)?;
    Some((u64::from_str_radix(key, 16).ok()?, u64::from_str_radix(mark, 16).ok()?))
}
