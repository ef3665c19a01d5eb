//! Probes as bytes.
//!
//! An answer must prove that it comes from the probed node. Each probe has an unpredictable Call-ID and branch that
//! depend on the node and the probe's number. An answer counts only from the node's own host, and an ICMP error only if
//! it quotes the probe.

use super::Probe;
use base::{Flow, Outbox, Peer};
use core::fmt;
use node::{Pause, Ports, keyed_hash};
use std::io::Write as _;
use std::net::SocketAddr;
use wire::build::RequestBuilder;

/// Writes probes and recognises their answers.
#[derive(Debug)]
pub(crate) struct ProbeMessages {
    marks: Marks,
    /// Local addresses of IPv4 and IPv6. Probes leave by listener 0 and 1.
    local: [Option<SocketAddr>; 2],
}

/// A final response that may answer a probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProbeAnswer {
    mark: u64,
    pub(crate) status: u16,
    pub(crate) pause: Option<Pause>,
}

impl ProbeMessages {
    /// Probes leave from `local` (IPv4, IPv6). The secret must be unique to this process.
    pub(crate) fn new(secret: [u8; 16], local: [Option<SocketAddr>; 2]) -> Self {
        let (first, second) = secret.split_at(8);
        let word = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("half of 16 bytes"));
        Self { marks: Marks([word(first), word(second)]), local }
    }

    /// Reads a datagram. Anyone may send one, so a message that cannot be an answer is rejected before the comparison
    /// with all probes.
    pub(crate) fn read(bytes: &[u8]) -> Option<ProbeAnswer> {
        let message = wire::scan(bytes).ok()?;
        let status = message.status().filter(|&status| status >= 200)?;
        Some(ProbeAnswer { mark: mark_of(message.call_id())?, status, pause: Pause::asked_by(&message) })
    }

    /// Returns a predicate that recognises the probe of this answer. If the answer came from another host, or over
    /// another transport, it does not count, and `elsewhere` is set to the probed node.
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

    /// Returns a predicate that recognises the probe to `by` that an ICMP error quotes, or that no connection could be
    /// opened for. A forger does not know the branch of the probe.
    pub(crate) fn quoted_by(&self, by: Peer, quoted: &[u8]) -> impl Fn(&Probe<Flow>) -> bool {
        let marks = self.marks;
        move |probe| probe.address.remote() == by && contains(quoted, branch(marks.of(probe)).as_bytes())
    }

    /// Returns the flow of a probe and our address on it. UDP probes have a socket of their own. Over a connection the
    /// answer returns on the connection, and the address is the address of the listener.
    fn way(&self, probe: &Probe<Flow>, ports: &Ports) -> Option<(Flow, SocketAddr)> {
        let flow = probe.address;
        if flow.transport.is_reliable() {
            return ports.get(flow.listener).map(|port| (flow, port.advertised));
        }
        let family = usize::from(flow.peer.is_ipv6());
        Some((Flow { listener: family as u16, ..flow }, self.local[family]?))
    }

    pub(crate) fn write<E>(&self, probe: &Probe<Flow>, ports: &Ports, out: &mut Outbox<E>) {
        let Some((way, local)) = self.way(probe, ports) else { return };
        let (peer, mark) = (way.peer, self.marks.of(probe));
        let (via, param) = (way.transport.name(), way.transport.uri_param());
        out.send(way, |buffer| {
            let mut uri = Vec::new();
            write!(uri, "sip:{peer}{param}").expect("writing to a Vec cannot fail");
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

/// Secret that makes the marks of probes unpredictable, and different from the marks of a predecessor.
#[derive(Clone, Copy)]
struct Marks([u64; 2]);

impl fmt::Debug for Marks {
    /// Does not print the secret.
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

/// Returns a Call-ID that is unique to the probe (RFC 3261 §8.1.1.4). Some servers take a repeated Call-ID for the old
/// call.
fn call_id(mark: u64) -> String {
    format!("probe-{mark:016x}")
}

/// Returns the mark in such a Call-ID.
fn mark_of(call_id: &[u8]) -> Option<u64> {
    let digits = call_id.strip_prefix(b"probe-")?;
    let is_mark = digits.len() == 16 && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    is_mark.then(|| u64::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()).flatten()
}

/// Returns the branch of a probe. A retransmission has the same branch.
fn branch(mark: u64) -> String {
    format!("z9hG4bKp{mark:016x}")
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests;
