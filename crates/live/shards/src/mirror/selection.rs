//! Messages that are copied: of all calls, of a share of them, or of calls that fail.

use super::shared::Packets;
use config::{HepCalls, HepConfig};
use monitor::Captured;
use monitor::hep::{self, Agent};
use node::is_keep_alive;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use wire::{Method, Peek};

/// Limit in bytes of the messages of calls with an open outcome: 10,000 calls that ring.
const KEPT_MAX: usize = 64 << 20;
/// Memory of a call or a message, beside its bytes.
const OVERHEAD: usize = 128;

pub(super) struct Selection {
    agent: Agent,
    share: f64,
    /// Calls that have not failed so far, if only failed calls are copied.
    kept: Option<KeptCalls>,
    packet: Vec<u8>,
}

/// Effect of a message on the outcome of its call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Open,
    Succeeded,
    Failed,
}

impl Selection {
    pub(super) fn new(config: &HepConfig) -> Self {
        let HepConfig { id, node, password, share, calls, .. } = config.clone();
        let kept = (calls == HepCalls::Failed).then(|| KeptCalls::new(KEPT_MAX));
        Self { agent: Agent { id, node, password }, share, kept, packet: Vec::new() }
    }

    /// Adds the packets to send after this message. Returns false if the message is too long for a packet. A message
    /// without Call-ID or `CSeq` belongs to no call, and is left out, as are keep-alives to phones behind NAT.
    pub(super) fn take(&mut self, message: &Captured<'_>, is_sent: bool, out: &mut Packets) -> bool {
        let Some((call_id, cseq)) = Peek::call_id_and_cseq(message.bytes) else { return true };
        if !is_in_share(self.share, call_id) || is_keep_alive(call_id, method_of(cseq)) {
            return true;
        }
        self.packet.clear();
        let is_written = hep::write(&self.agent, message, call_id, &mut self.packet);
        if is_written {
            match &mut self.kept {
                None => out.push(&self.packet),
                Some(kept) => kept.take(call_id, &self.packet, outcome(message.bytes, cseq, is_sent), out),
            }
        }
        is_written
    }
}

fn method_of(cseq: &[u8]) -> Method {
    Method::parse(cseq.rsplit(u8::is_ascii_whitespace).next().unwrap_or_default())
}

/// Whether a call is in the share, the same at all nodes: by the FNV-1a hash of its Call-ID, whose upper bits the
/// multiplication mixes (Fibonacci hashing).
fn is_in_share(share: f64, call_id: &[u8]) -> bool {
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = call_id.iter().fold(0xcbf2_9ce4_8422_2325, fnv).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    share >= 1.0 || ((hash >> 11) as f64) < share * (1_u64 << 53) as f64
}

/// A call has failed when this process sends a refusal. Challenges (401, 407) and the end of a cancelled call (487) are
/// none. Success of a request that only accompanies an INVITE says nothing about the call.
fn outcome(bytes: &[u8], cseq: &[u8], is_sent: bool) -> Outcome {
    let status = bytes.strip_prefix(b"SIP/2.0 ").and_then(|rest| rest.get(..3));
    let status = status.and_then(|digits| str::from_utf8(digits).ok()?.parse::<u16>().ok());
    match status.filter(|_| is_sent) {
        Some(401 | 407 | 487) | None => Outcome::Open,
        Some(400..) => Outcome::Failed,
        Some(200..300) => {
            let accompanies =
                [Method::Cancel, Method::Prack, Method::Update, Method::Info].contains(&method_of(cseq));
            if accompanies { Outcome::Open } else { Outcome::Succeeded }
        }
        Some(_) => Outcome::Open,
    }
}

/// Messages of calls whose outcome is open, bounded in bytes: the oldest calls are forgotten first. A call that has
/// failed stays known, so that its later messages are sent too.
struct KeptCalls {
    calls: HashMap<Arc<[u8]>, Call>,
    /// Calls by their age.
    order: BTreeMap<u64, Arc<[u8]>>,
    next: u64,
    bytes: usize,
    most_bytes: usize,
}

#[derive(Default)]
struct Call {
    number: u64,
    packets: Vec<Box<[u8]>>,
    bytes: usize,
    has_failed: bool,
}

impl KeptCalls {
    fn new(most_bytes: usize) -> Self {
        Self { calls: HashMap::new(), order: BTreeMap::new(), next: 0, bytes: 0, most_bytes }
    }

    fn take(&mut self, call_id: &[u8], packet: &[u8], outcome: Outcome, out: &mut Packets) {
        if !self.calls.contains_key(call_id) {
            let (number, key) = (self.next, Arc::<[u8]>::from(call_id));
            let bytes = OVERHEAD + key.len();
            self.next += 1;
            self.bytes += bytes;
            self.order.insert(number, Arc::clone(&key));
            self.calls.insert(key, Call { number, bytes, ..Call::default() });
        }
        let Some(call) = self.calls.get_mut(call_id) else { return };
        call.has_failed |= outcome == Outcome::Failed;
        if call.has_failed {
            for kept in call.packets.drain(..) {
                let size = kept.len() + OVERHEAD;
                (self.bytes, call.bytes) = (self.bytes - size, call.bytes - size);
                out.push(&kept);
            }
            out.push(packet);
        } else if outcome == Outcome::Succeeded {
            self.remove(call_id);
        } else {
            let size = packet.len() + OVERHEAD;
            (self.bytes, call.bytes) = (self.bytes + size, call.bytes + size);
            call.packets.push(packet.into());
        }
        while self.bytes > self.most_bytes
            && let Some((_, oldest)) = self.order.first_key_value()
        {
            self.remove(&Arc::clone(oldest));
        }
    }

    fn remove(&mut self, call_id: &[u8]) {
        if let Some(call) = self.calls.remove(call_id) {
            self.order.remove(&call.number);
            self.bytes -= call.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_share_of_calls_is_as_wide_as_it_says() {
        for (share, expected) in [(0.0, 0..1), (0.1, 900..1_100), (0.5, 4_800..5_200), (1.0, 10_000..10_001)]
        {
            let taken =
                (0..10_000).filter(|call| is_in_share(share, format!("{call}@192.0.2.1").as_bytes())).count();
            assert!(expected.contains(&taken), "{share}: {taken}");
        }
    }

    /// Their outcome never shows, since this process answers none of them: they would fill the memory of failed calls.
    #[test]
    fn keep_alives_are_left_out() {
        let call_id = format!("keep-alive-{:032x}", 7);
        for (method, is_taken) in [("OPTIONS", false), ("INVITE", true)] {
            let config = HepConfig {
                to: config::HepTarget { is_tcp: false, host: "127.0.0.1".to_owned(), port: 9 },
                calls: HepCalls::All,
                share: 1.0,
                id: 0,
                node: String::new(),
                password: String::new(),
            };
            let text = format!("{method} sip:a SIP/2.0\r\nCall-ID: {call_id}\r\nCSeq: 1 {method}\r\n\r\n");
            let address = ([127, 0, 0, 1], 5060).into();
            let message = Captured {
                at: base::Instant::ZERO,
                from: address,
                to: address,
                transport: base::Transport::Udp,
                bytes: text.as_bytes(),
            };
            let mut out = Packets::default();
            assert!(Selection::new(&config).take(&message, true, &mut out));
            assert_eq!(out.iter().count(), usize::from(is_taken), "{method}");
        }
    }

    #[test]
    fn a_refusal_that_leaves_here_is_a_failure() {
        let of = |line: &str, cseq: &str, is_sent| outcome(line.as_bytes(), cseq.as_bytes(), is_sent);
        for (line, cseq, is_sent, expected) in [
            ("SIP/2.0 486 Busy", "1 INVITE", true, Outcome::Failed),
            ("SIP/2.0 486 Busy", "1 INVITE", false, Outcome::Open),
            ("SIP/2.0 401 Unauthorized", "1 REGISTER", true, Outcome::Open),
            ("SIP/2.0 487 Terminated", "1 INVITE", true, Outcome::Open),
            ("SIP/2.0 180 Ringing", "1 INVITE", true, Outcome::Open),
            ("SIP/2.0 200 OK", "1 CANCEL", true, Outcome::Open),
            ("SIP/2.0 200 OK", "2  INVITE", true, Outcome::Succeeded),
            ("SIP/2.0 200 OK", "2 INVITE", false, Outcome::Open),
            ("INVITE sip:a SIP/2.0", "1 INVITE", true, Outcome::Open),
        ] {
            assert_eq!(of(line, cseq, is_sent), expected, "{line} {cseq} {is_sent}");
        }
    }

    proptest! {
        /// Of each failed call all messages since its last success are sent once, in order, unless the call was forgotten;
        /// no message of another call is sent; and the memory stays bounded.
        #[test]
        fn only_failed_calls_are_sent(
            steps in prop::collection::vec((0_u8..6, 0_u8..5), 1..200),
            is_narrow in any::<bool>(),
        ) {
            let most = if is_narrow { 1_200 } else { 1 << 20 };
            let (mut kept, mut out) = (KeptCalls::new(most), Packets::default());
            let mut expected: Vec<Vec<u8>> = vec![Vec::new(); 6];
            let mut failed = [false; 6];
            for (number, (call, kind)) in (0_u8..).zip(steps) {
                let outcome = match kind {
                    3 => Outcome::Succeeded,
                    4 => Outcome::Failed,
                    _ => Outcome::Open,
                };
                kept.take(&[call], &[call, number], outcome, &mut out);
                let (own, has_failed) = (&mut expected[usize::from(call)], &mut failed[usize::from(call)]);
                *has_failed |= outcome == Outcome::Failed;
                if outcome == Outcome::Succeeded && !*has_failed {
                    own.clear();
                } else {
                    own.push(number);
                }
                let sum: usize = kept.calls.values().map(|call| call.bytes).sum();
                prop_assert!(kept.bytes == sum && sum <= most && kept.order.len() == kept.calls.len());
            }
            for call in 0..6 {
                let sent: Vec<_> = out.iter().filter(|packet| packet[0] == call).map(|packet| packet[1]).collect();
                let all = &expected[usize::from(call)];
                prop_assert!(sent.is_sorted_by(|one, next| one < next) && (failed[usize::from(call)] || sent.is_empty()));
                if is_narrow {
                    continue;
                }
                if failed[usize::from(call)] {
                    prop_assert_eq!(&sent, all);
                }
            }
        }
    }
}
