//! What a thread does with its connections: reads them, sends by them, and tells what did not arrive.

use super::handover::Handed;
use super::intake::{owner, take};
use super::worker::{Report, Worker};
use crate::socket::BATCH;
use base::{Flow, Instant, Peer};
use node::ShardInput;
use overload::MessageClass;
use streams::{Streams, Undelivered};

impl Worker {
    /// Reads connections and handles what came. What belongs to another thread whose ring is full waits: on a connection nobody
    /// sends it again. Until then nothing more is read.
    pub(super) fn read_streams(&mut self, now: Instant) {
        let Self { streams: Some(streams), stream_batch, .. } = self else { return };
        streams.on_time(now);
        if stream_batch.len() == 0 {
            streams.turn(now, stream_batch);
            self.traffic.received += self.stream_batch.len() as u64;
            if self.stream_batch.len() > 0 {
                self.signals.on_waited(now, self.worked);
                let queue = self.stream_batch.len();
                let waited =
                    ShardInput::Waited { waited: self.worked, queue, class: MessageClass::NewInvite };
                self.shard.handle(now, waited, &mut self.out);
            }
        }
        let (shards, is_alone) = (self.peers.senders.len(), self.peers.receivers.is_empty());
        let queues =
            self.shard.triage().is_some() && (self.stream_batch.len() > BATCH || self.queue.len() > 0);
        loop {
            let Self { shard, out, traffic, processes, queue, stream_batch, peers, worked, .. } = self;
            let Some((flow, bytes)) = stream_batch.first() else { break };
            let handed = Handed::Message { flow, bytes };
            if let Some(owner) = owner(shard, bytes, self.index, shards).filter(|_| !is_alone) {
                if !peers.senders[owner].as_mut().is_some_and(|ring| ring.push(&handed)) {
                    break;
                }
                traffic.handed_over += 1;
            } else if queues {
                queue.push(now, *worked, flow, bytes, shard.may_have_priority(flow));
            } else {
                take(shard, processes, traffic, now, &handed, out);
            }
            stream_batch.take();
            self.flush_if_much();
        }
    }

    /// Sends what goes by connections, those of other threads included; returns what could not be sent.
    pub(super) fn send_by_streams(&mut self) -> Vec<Undelivered> {
        let Self { streams: Some(streams), out, peers, index, traffic, clock, .. } = self else {
            return Vec::new();
        };
        let now = clock.now();
        for transmit in out.transmits().iter().filter(|transmit| transmit.flow.transport.is_reliable()) {
            let (flow, bytes) = (transmit.flow, out.message(transmit));
            let thread = flow.connection.map(|number| Streams::thread_of(number, peers.senders.len()));
            if let Some(thread) = thread.filter(|thread| thread != index) {
                let ring = peers.senders[thread].as_mut();
                let is_handed = ring.is_some_and(|ring| ring.push(&Handed::Send { flow, bytes }));
                traffic.send_failed += u64::from(!is_handed);
                continue;
            }
            streams.send(now, flow, bytes);
            traffic.sent += 1;
        }
        streams.flush(now);
        streams.take_undelivered()
    }

    /// A node cannot be reached.
    pub(super) fn tell_unreachable(&self, peer: Peer) {
        if self.shard.topology().slot_at(peer).is_some() {
            let _ = self.reports.send(Report::Unreachable(peer));
        }
    }

    /// What began with these bytes did not arrive. A proxy's request belongs to the thread that owns its call, which its beginning
    /// tells, or else each has to look.
    pub(super) fn tell_undelivered(&mut self, now: Instant, to: Flow, quoted: &[u8]) {
        // A response that nobody takes is nobody's concern.
        if quoted.starts_with(b"SIP/2.0 ") {
            return;
        }
        let Self { shard, out, peers, index, traffic, processes, .. } = self;
        let owner = shard.tokens().shard_of(quoted, peers.senders.len());
        let is_for = |other: usize| owner.is_none_or(|owner| owner == other);
        let handed = Handed::Unreachable { to, quoted };
        for (_, ring) in (0..).zip(&mut peers.senders).filter(|(other, _)| is_for(*other)) {
            // Lost where the ring is full, as the datagram was: it is sent again.
            let _ = ring.as_mut().is_some_and(|ring| ring.push(&handed));
        }
        if is_for(*index) {
            take(shard, processes, traffic, now, &handed, out);
        }
    }
}
