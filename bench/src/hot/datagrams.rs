//! Datagrams of calls: recorded at one element, then replayed to an equal one. The construction of messages is thus not
//! part of the work.

use super::Length;
use super::stores::Stores;
use crate::bed::{Bed, CLIENT, Element, balancer, proxy, request};
use anyhow::{Context, Result, ensure};
use base::{Flow, Instant, Outbox};
use core::time::Duration;
use node::{Shard, ShardEvent, ShardInput, StoreAnswer};
use overload::MessageClass;
use std::hint::black_box;
use std::net::SocketAddr;

/// Time between two calls of the proxy.
pub(super) const BETWEEN: Duration = Duration::from_millis(320);
/// Calls of the proxy in 64*T1 (32 s). From then on, transactions end as fast as they begin.
pub(super) const WARM_UP: u64 = 100;
pub(super) const CALLS: u64 = 200;

/// A recorded input.
enum Noted {
    Datagram(SocketAddr, Vec<u8>),
    Waited(Duration),
    Timer,
    /// Answer of a store to the question with this number.
    Answer(u64, Box<StoreAnswer>),
}

/// A shard with its recorded inputs and their times.
pub(super) struct Notes {
    shard: Shard,
    inputs: Vec<(Instant, Noted)>,
    /// Stores that answer the shard's questions at once.
    stores: Stores,
}

impl Element for Notes {
    fn handle(&mut self, now: Instant, input: ShardInput<'_>, out: &mut Outbox<ShardEvent>) {
        let noted = match input {
            ShardInput::Message { flow, bytes } => Noted::Datagram(flow.peer, bytes.to_vec()),
            ShardInput::Waited { waited, .. } => Noted::Waited(waited),
            ShardInput::Answer { number, ref answer } => Noted::Answer(number, answer.clone()),
            // An element without sharing gets no other input.
            _ => Noted::Timer,
        };
        self.inputs.push((now, noted));
        self.shard.handle(now, input, out);
        let events: Vec<_> = out.drain_events().collect();
        for event in events {
            if let ShardEvent::Ask(question) = event {
                let (number, answer) = (question.number, Box::new(self.stores.answer(now, question.about)));
                self.handle(now, ShardInput::Answer { number, answer }, out);
            }
        }
    }

    fn shard(&self) -> &Shard {
        &self.shard
    }
}

impl Bed<Notes> {
    pub(super) fn noting(shard: Shard) -> Self {
        Self::new(Notes { shard, inputs: Vec::new(), stores: Stores::default() })
    }

    /// INVITE, 180, 200 and ACK of a call. Returns its route.
    fn establish(&mut self, call: u64) -> Result<Vec<u8>> {
        self.establish_with(call, &request(call, "INVITE", 1, None))
    }

    /// The same with a given INVITE.
    pub(super) fn establish_with(&mut self, call: u64, invite: &[u8]) -> Result<Vec<u8>> {
        let node = self.pass(CLIENT, invite)?;
        let route = self.route()?;
        self.answer(node, 180)?;
        self.answer(node, 200)?;
        self.pass(CLIENT, &request(call, "ACK", 1, Some(&route)))?;
        Ok(route)
    }

    pub(super) fn transaction(&mut self, call: u64, method: &str, cseq: u32, route: &[u8]) -> Result<()> {
        let node = self.pass(CLIENT, &request(call, method, cseq, Some(route)))?;
        self.answer(node, 200)
    }

    pub(super) fn run_timers(&mut self) {
        while let Some(due) = self.element.deadline().filter(|due| *due <= self.now) {
            self.out.clear();
            self.element.handle(due, ShardInput::Timer, &mut self.out);
        }
    }

    /// Returns the number of recorded inputs.
    pub(super) fn noted(&self) -> usize {
        self.element.inputs.len()
    }

    /// Replays all recorded inputs, or the first `short`, to `shard`. Returns the number of datagrams.
    pub(super) fn replay(self, mut shard: Shard, short: usize, length: Length) -> Result<u64> {
        let Notes { shard: recorded, inputs, .. } = self.element;
        let (mut out, mut passed) = (Outbox::default(), 0);
        let most = length.pick(short, inputs.len());
        for (now, noted) in inputs.into_iter().take(most) {
            out.clear();
            let datagram;
            let input = match noted {
                Noted::Datagram(from, bytes) => {
                    passed += 1;
                    datagram = bytes;
                    ShardInput::Message { flow: Flow::udp(0, from), bytes: &datagram }
                }
                Noted::Waited(waited) => {
                    ShardInput::Waited { waited, queue: 0, class: MessageClass::NewInvite }
                }
                Noted::Timer => ShardInput::Timer,
                Noted::Answer(number, answer) => ShardInput::Answer { number, answer },
            };
            shard.handle(now, input, &mut out);
        }
        let same = length == Length::Short || shard.ledger() == recorded.ledger();
        ensure!(same, "the replay did other work than the recording");
        Ok(passed)
    }
}

/// re-INVITE, 200 and ACK in established calls.
pub(super) fn balanced(length: Length) -> Result<u64> {
    let mut bed = Bed::noting(balancer());
    let routes = (0..CALLS).map(|call| bed.establish(call)).collect::<Result<Vec<_>>>()?;
    let short = bed.noted();
    for cseq in 2..5 {
        for (call, route) in (0..).zip(&routes) {
            bed.transaction(call, "INVITE", cseq, route)?;
            bed.pass(CLIENT, &request(call, "ACK", cseq, Some(route)))?;
        }
    }
    bed.replay(balancer(), short, length)
}

/// Whole calls, with the timers of earlier ones in between.
pub(super) fn proxied(length: Length) -> Result<u64> {
    let (mut bed, mut short) = (Bed::noting(proxy()), 0);
    for call in 0..WARM_UP + CALLS {
        if call == WARM_UP {
            short = bed.noted();
        }
        bed.now += BETWEEN;
        bed.run_timers();
        let hop = bed.pass(CLIENT, &request(call, "INVITE", 1, None))?;
        bed.answer(hop, 180)?;
        let route = bed.accept(hop)?;
        bed.pass(CLIENT, &request(call, "ACK", 1, Some(&route)))?;
        bed.transaction(call, "BYE", 2, &route)?;
    }
    bed.replay(proxy(), short, length)
}

/// New INVITEs refused by overload control, and their ACKs.
pub(super) fn refused(length: Length) -> Result<u64> {
    let (mut bed, mut short) = (Bed::noting(balancer()), 0);
    let class = MessageClass::NewInvite;
    let late = || ShardInput::Waited { waited: Duration::from_secs(1), queue: 1_000, class };
    // Overload control reacts after 100 ms of waiting.
    bed.element.handle(bed.now, late(), &mut bed.out);
    bed.now += Duration::from_millis(100);
    for call in 0..CALLS {
        bed.element.handle(bed.now, late(), &mut bed.out);
        bed.pass(CLIENT, &request(call, "INVITE", 1, None))?;
        ensure!(bed.last.starts_with(b"SIP/2.0 503 "), "it was not refused");
        let ack = acknowledgement(call, &bed.last)?;
        ensure!(bed.pass(CLIENT, &ack).is_err(), "the ACK was forwarded");
        if call == 0 {
            short = bed.noted();
        }
    }
    Ok(bed.replay(balancer(), short, length)? / 2)
}

/// Makes the ACK to a refusal.
pub(super) fn acknowledgement(call: u64, refusal: &[u8]) -> Result<Vec<u8>> {
    let scanned = wire::scan(refusal).map_err(|discard| anyhow::anyhow!(discard.reason()))?;
    let tag = scanned.to_tag().context("a refusal has a To tag")?;
    let ack = String::from_utf8(request(call, "ACK", 1, None))?;
    let invite = ack.replace(&format!("{call}-ACK-1"), &format!("{call}-INVITE-1"));
    let to = "To: <sip:bob@example.com>";
    Ok(invite.replace(to, &format!("{to};tag={}", String::from_utf8_lossy(tag))).into_bytes())
}

/// Scans the messages of calls as they arrive at the balancer.
pub(super) fn scan(length: Length) -> Result<u64> {
    let mut bed = Bed::noting(balancer());
    for call in 0..CALLS {
        let route = bed.establish(call)?;
        bed.transaction(call, "BYE", 2, &route)?;
    }
    let mut scanned = 0;
    for (_, noted) in bed.element.inputs.iter().filter(|_| length == Length::Long) {
        if let Noted::Datagram(_, bytes) = noted {
            ensure!(black_box(wire::scan(black_box(bytes))).is_ok(), "a recorded message is not valid SIP");
            scanned += 1;
        }
    }
    Ok(scanned)
}
