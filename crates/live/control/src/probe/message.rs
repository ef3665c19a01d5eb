//! Probes as bytes.
//!
//! What decides about a node has to come from it. Each probe has a Call-ID and a branch that nobody can guess,
//! another one for each node and number; an answer counts from the node's own host only; and an ICMP error only with
//! the probe in it.

use super::Probe;
use base::{Flow, Outbox, Peer};
use core::fmt;
use node::{Pause, Ports, keyed_hash};
use std::io::Write as _;
use std::net::SocketAddr;
use wire::build::RequestBuilder;

/// Writes probes, and recognises what comes back.
#[derive(Debug)]
pub(crate) struct ProbeMessages {
    marks: Marks,
    /// The sockets for IPv4 and IPv6; probes leave by listener 0 and 1.
    local: [Option<SocketAddr>; 2],
}

/// A final response that may be the answer to a probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProbeAnswer {
    mark: u64,
    pub(crate) status: u16,
    pub(crate) pause: Option<Pause>,
}

impl ProbeMessages {
    /// Probes leave from `local` (IPv4, IPv6). The secret is of this process alone.
    pub(crate) fn new(secret: [u8; 16], local: [Option<SocketAddr>; 2]) -> Self {
        let (first, second) = secret.split_at(8);
        let word = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("half of 16 bytes"));
        Self { marks: Marks([word(first), word(second)]), local }
    }

    /// Reads a datagram. Anybody may send one: what cannot be an answer is not compared with every member's probe.
    pub(crate) fn read(bytes: &[u8]) -> Option<ProbeAnswer> {
        let message = wire::scan(bytes).ok()?;
        let status = message.status().filter(|&status| status >= 200)?;
        Some(ProbeAnswer { mark: mark_of(message.call_id())?, status, pause: Pause::asked_by(&message) })
    }

    /// Recognises the probe that this is the answer to, which came from there. Where another host has answered, or the
    /// same over another transport, which does not count, `elsewhere` is the node that was asked.
    pub(crate) fn answered_by(
        &self,
        answer: ProbeAnswer,
        from: Peer,
        elsewhere: &mut Option<Peer>,
    ) -> impl FnMut(&Probe<Flow>) -> bool {
        let marks = self.marks;
        move |probe| {
            let peer = probe.address.remote();
            let is_it = answer.mark == marks.of(probe);
            let is_there = (peer.transport, peer.address.ip()) == (from.transport, from.address.ip());
            if is_it && !is_there {
                *elsewhere = Some(peer);
            }
            is_it && is_there
        }
    }

    /// Recognises the probe to this peer that an ICMP error quotes, or that found no connection. Whoever has not seen it
    /// cannot know its branch.
    pub(crate) fn quoted_by(&self, by: Peer, quoted: &[u8]) -> impl Fn(&Probe<Flow>) -> bool {
        let marks = self.marks;
        move |probe| probe.address.remote() == by && contains(quoted, branch(marks.of(probe)).as_bytes())
    }

    /// Where a probe leaves, and the address that is ours there. Over UDP that is a socket for probes alone. Over a
    /// connection answers come back by the connection, and the address is that of the listener.
    fn way(&self, probe: &Probe<Flow>, ports: &Ports) -> Option<(Flow, SocketAddr)> {
        let flow = probe.address;
        if flow.transport.is_reliable() {
            return ports.get(flow.listener).map(|port| (flow, port.advertised));
        }
        let family = usize::from(flow.peer.is_ipv6());
        Some((Flow { listener: family as u16, ..flow }, self.local[family]?))
    }

    /// Writes a probe.
    pub(crate) fn write<E>(&self, probe: &Probe<Flow>, ports: &Ports, out: &mut Outbox<E>) {
        let Some((way, local)) = self.way(probe, ports) else { return };
        let (peer, mark) = (way.peer, self.marks.of(probe));
        let (via, param) = (way.transport.name(), way.transport.uri_param());
        out.send(way, |buffer| {
            let mut uri = Vec::new();
            write!(uri, "sip:{peer}{param}").expect("a Vec takes every byte");
            RequestBuilder::new(buffer, "OPTIONS", &uri)
                .header_fmt("Via", format_args!("SIP/2.0/{via} {local};rport;branch={}", branch(mark)))
                .header("Max-Forwards", "70")
                .header_fmt("From", format_args!("<sip:probe@{local}>;tag={mark:x}"))
                .header_fmt("To", format_args!("<sip:{peer}{param}>"))
                .header("Call-ID", call_id(mark))
                .header_fmt("CSeq", format_args!("{} OPTIONS", probe.cseq))
                .header_fmt("Contact", format_args!("<sip:{local}{param}>"))
                .header("Accept", "application/sdp")
                .finish(b"");
        });
    }
}

/// What tells the probes apart, and those of this process from its predecessor's.
#[derive(Clone, Copy)]
struct Marks([u64; 2]);

impl fmt::Debug for Marks {
    /// Never prints the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Marks(..)")
    }
}

impl Marks {
    fn of(self, probe: &Probe<Flow>) -> u64 {
        let address = probe.address.remote().to_string();
        keyed_hash(self.0, &[&probe.slot.0.to_be_bytes(), &probe.cseq.to_be_bytes(), address.as_bytes()])
    }
}

/// A Call-ID of its own for each probe (RFC 3261 §8.1.1.4): some servers take the same one again for the old call.
fn call_id(mark: u64) -> String {
    format!("probe-{mark:016x}")
}

/// The mark in such a Call-ID.
fn mark_of(call_id: &[u8]) -> Option<u64> {
    let digits = call_id.strip_prefix(b"probe-")?;
    let is_mark = digits.len() == 16 && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    is_mark.then(|| u64::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()).flatten()
}

/// One branch a probe: what is sent again is the same transaction.
fn branch(mark: u64) -> String {
    format!("z9hG4bKp{mark:016x}")
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests;
