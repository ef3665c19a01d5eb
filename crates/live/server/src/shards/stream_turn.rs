//! What a thread does with its connections: reads them, sends by them, and tells what did not arrive.

use super::counts::Traffic;
use super::handover::Handed;
use super::intake::{owner, take};
use super::worker::{Report, Worker};
use crate::takeover::owned::Inlet;
use base::{Flow, Instant, Peer};
use node::ShardInput;
use overload::MessageClass;
use streams::{Streams, Undelivered};

/// Sends by a connection of this thread. One of the process that has taken over is that one's to use.
fn send(
    now: Instant,
    streams: &mut Streams,
    inlet: Option<&Inlet>,
    traffic: &mut Traffic,
    flow: Flow,
    bytes: &[u8],
) {
    let is_elsewhere = flow.connection.is_some() && !streams.has(flow, bytes);
    if !(is_elsewhere && inlet.is_some_and(|inlet| inlet.give_back(flow, bytes))) {
        streams.send(now, flow, bytes);
    }
    traffic.sent += 1;
}

impl Worker {
    /// Reads connections and handles what came. What belongs to another thread whose ring is full waits: on a connection nobody
    /// sends it again. Until then nothing more is read.
    pub(super) fn read_streams(&mut self, now: Instant) {
        let Self { streams: Some(streams), stream_batch, .. } = self else { return };
        streams.on_time(now);
        if stream_batch.is_empty() {
            streams.turn(now, stream_batch);
            self.traffic.received += self.stream_batch.len() as u64;
            if !self.stream_batch.is_empty() {
                self.signals.on_waited(now, self.worked);
                let queue = self.stream_batch.len();
                let waited =
                    ShardInput::Waited { waited: self.worked, queue, class: MessageClass::NewInvite };
                self.shard.handle(now, waited, &mut self.out);
            }
        }
        let (shards, is_alone) = (self.peers.senders.len(), self.peers.receivers.is_empty());
        // Not by the queue of the thread, which drops what it has no room for.
        loop {
            let Self { shard, out, traffic, processes, stream_batch, peers, .. } = self;
            let Some((flow, bytes)) = stream_batch.first() else { break };
            let handed = Handed::Message { flow, bytes };
            if let Some(owner) = owner(shard, bytes, self.index, shards).filter(|_| !is_alone) {
                if !peers.senders[owner].as_mut().is_some_and(|ring| ring.push(&handed)) {
                    break;
                }
                traffic.handed_over += 1;
            } else {
                take(shard, processes, traffic, now, &handed, out);
            }
            stream_batch.take();
            self.flush_if_much();
        }
    }

    /// Sends what goes by connections, those of other threads included; returns what could not be sent.
    pub(super) fn send_by_streams(&mut self) -> Vec<Undelivered> {
        let Self { streams: Some(streams), out, peers, index, traffic, clock, inlet, late_sends, .. } = self
        else {
            return Vec::new();
        };
        let now = clock.now();
        late_sends.retry(&mut peers.senders);
        for transmit in out.transmits().iter().filter(|transmit| transmit.flow.transport.is_reliable()) {
            let (flow, bytes) = (transmit.flow, out.message(transmit));
            let thread = flow.connection.map(|number| Streams::thread_of(number, peers.senders.len()));
            match thread.filter(|thread| thread != index) {
                Some(thread) => {
                    let is_kept = late_sends.push(&mut peers.senders, thread, flow, bytes);
                    traffic.send_failed += u64::from(!is_kept);
                }
                None => send(now, streams, inlet.as_ref(), traffic, flow, bytes),
            }
        }
        streams.flush(now);
        streams.take_undelivered()
    }

    /// Sends by a connection of this thread, at the end of the batch.
    pub(super) fn send_by_stream(&mut self, flow: Flow, bytes: &[u8]) {
        let Self { streams: Some(streams), traffic, clock, inlet, .. } = self else { return };
        send(clock.now(), streams, inlet.as_ref(), traffic, flow, bytes);
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
        let Self { shard, out, peers, index, traffic, processes, .. } = self;
        let owner = shard.tokens().shard_of(quoted, peers.senders.len());
        // By a connection without a number no other thread has sent anything.
        let owner = owner.or_else(|| (quoted.is_empty() && to.connection.is_none()).then_some(*index));
        let is_for = |other: usize| owner.is_none_or(|owner| owner == other);
        let handed = Handed::Unreachable { to, quoted };
        for (_, ring) in (0..).zip(&mut peers.senders).filter(|(other, _)| is_for(*other)) {
            // Lost where the ring is full. A datagram is sent again; what a connection has lost waits for its time-out.
            let _ = ring.as_mut().is_some_and(|ring| ring.push(&handed));
        }
        if is_for(*index) {
            take(shard, processes, traffic, now, &handed, out);
        }
    }
}
