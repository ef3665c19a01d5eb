//! Connections of a thread: reading, sending, and reports of messages that did not arrive.

use super::Worker;
use super::intake::{owner, take};
use crate::command::ShardReport;
use crate::counts::Traffic;
use crate::handover::Handed;
use crate::other_process::{HandOverResult, Inlet, OtherProcess};
use base::{Connection, Flow, Instant, Peer, Transport};
use node::{Setup, ShardInput};
use overload::MessageClass;
use std::collections::HashSet;
use std::sync::Arc;
use streams::{Admission, FailedHandshake, Streams, Undelivered};

/// Other processes whose connections a message may leave by.
struct Others<'a> {
    successor: Option<&'a Inlet>,
    before: &'a [Arc<OtherProcess>],
    /// Connections of the predecessors that messages have arrived on.
    relayed: &'a HashSet<Connection>,
}

impl Others<'_> {
    /// Hands a message to the process that owns its connection. Returns whether a process has taken the message.
    /// Processes in a chain pass it on.
    fn send(&self, flow: Flow, bytes: &[u8]) -> bool {
        let by_successor = || self.successor.is_some_and(|successor| successor.give_back(flow, bytes));
        let by_one_before = || self.before.iter().any(|process| process.send(flow, bytes));
        let is_relayed = flow.connection.is_some_and(|connection| self.relayed.contains(&connection));
        (is_relayed && by_one_before()) || by_successor() || (!is_relayed && by_one_before())
    }
}

/// Sends a message by a connection of this thread, or hands it to the predecessor or successor that owns the
/// connection.
fn send(
    now: Instant,
    streams: &mut Streams,
    others: &Others<'_>,
    traffic: &mut Traffic,
    flow: Flow,
    bytes: &[u8],
) {
    let is_elsewhere = flow.connection.is_some() && !streams.has(flow, bytes);
    if !(is_elsewhere && others.send(flow, bytes)) {
        streams.send(now, flow, bytes);
    }
    traffic.sent += 1;
}

impl Worker {
    /// Updates the access lists and the dead nodes for connections.
    pub(crate) fn admit(&mut self, setup: &Setup) {
        let Some(streams) = &mut self.streams else { return };
        let access = setup.settings.routes.access.clone();
        let topology = &setup.topology;
        let nodes = topology.hosts().collect();
        let admission = Admission { access, nodes };
        if *streams.settings.admission != admission {
            streams.settings.admission = Arc::new(admission);
        }
        let dead = setup.nodes.iter().zip(topology.nodes()).filter(|(node, _)| !node.is_up());
        // A member on UDP gets messages that are too long for UDP over TCP.
        let by_tcp = |peer: Peer| Peer { transport: Transport::Tcp, ..peer };
        let is_by_udp =
            |peer: Peer| peer.transport == Transport::Udp && topology.slot_at(by_tcp(peer)).is_none();
        let ways = |peer: Peer| [Some(peer), Some(by_tcp(peer)).filter(|_| is_by_udp(peer))];
        let dead = dead.flat_map(|(_, flow)| ways(flow.remote())).flatten().collect();
        streams.know_dead(self.clock.now(), dead);
    }

    /// Reads connections and handles their messages. If the ring to another thread is full, its message waits, since it
    /// would not be retransmitted. Meanwhile no more messages are read.
    pub(crate) fn read_streams(&mut self, now: Instant) {
        let Self { streams: Some(streams), stream_batch, .. } = self else { return };
        streams.on_time(now);
        if self.awaits_inlet {
            return;
        }
        if stream_batch.is_empty() {
            streams.turn(now, stream_batch);
            for FailedHandshake { at, peer, reason, error } in streams.take_failed() {
                self.shard.handshake_failed(at, peer, reason.name(), &error);
            }
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
        // Messages bypass the thread's queue, which drops messages when it is full.
        loop {
            let Self { shard, out, traffic, recorder, processes, stream_batch, peers, inlet, .. } = self;
            let Some((flow, bytes)) = stream_batch.first() else { break };
            let fate = inlet.as_ref().map_or(HandOverResult::Ours, |inlet| inlet.hand_on(flow, bytes));
            if fate == HandOverResult::Lost {
                break;
            }
            let handed = Handed::Message { flow, bytes };
            if fate == HandOverResult::HandedOver {
                traffic.handed_over += 1;
            } else if let Some(owner) = owner(shard, bytes, self.index, shards).filter(|_| !is_alone) {
                if !peers.senders[owner].as_mut().is_some_and(|ring| ring.push(&handed)) {
                    break;
                }
                traffic.handed_over += 1;
            } else {
                take(shard, processes, (traffic, recorder), now, &handed, out);
            }
            stream_batch.take();
            self.flush_if_much();
        }
    }

    /// Sends messages that leave by connections, also connections of other threads. Returns the messages that could not
    /// be sent or found no room on the way to another thread. The sender of a request then learns of it at once.
    pub(crate) fn send_by_streams(&mut self) -> Vec<Undelivered> {
        let Self {
            streams: Some(streams),
            out,
            peers,
            index,
            traffic,
            clock,
            inlet,
            processes,
            relayed,
            late,
            ..
        } = self
        else {
            return Vec::new();
        };
        let (now, others) = (clock.now(), Others { successor: inlet.as_ref(), before: processes, relayed });
        late.retry(&mut peers.senders);
        let mut undelivered = Vec::new();
        for transmit in out.transmits().iter().filter(|transmit| transmit.flow.transport.is_reliable()) {
            let (flow, bytes) = (transmit.flow, out.message(transmit));
            let thread = flow.connection.map(|number| Streams::thread_of(number, peers.senders.len()));
            match thread.filter(|thread| thread != index) {
                Some(thread) => {
                    if !late.push(&mut peers.senders, thread, &Handed::Send { flow, bytes }) {
                        let quoted = bytes.into();
                        undelivered.push(Undelivered { to: flow, quoted, is_unreachable: false });
                    }
                }
                None => send(now, streams, &others, traffic, flow, bytes),
            }
        }
        streams.flush(now);
        undelivered.extend(streams.take_undelivered());
        traffic.undelivered += undelivered.iter().filter(|lost| !lost.quoted.is_empty()).count() as u64;
        undelivered
    }

    /// Sends a message by a connection of this thread at the end of the batch.
    pub(crate) fn send_by_stream(&mut self, flow: Flow, bytes: &[u8]) {
        let Self { streams: Some(streams), traffic, clock, inlet, processes, relayed, .. } = self else {
            return;
        };
        let others = Others { successor: inlet.as_ref(), before: processes, relayed };
        send(clock.now(), streams, &others, traffic, flow, bytes);
    }

    /// Sends a message of the successor by a connection of this thread or of a predecessor. If the connection of a
    /// request is gone, the successor is told at once.
    pub(crate) fn send_for_successor(&mut self, now: Instant, flow: Flow, bytes: &[u8]) {
        let Self { streams: Some(streams), inlet: Some(inlet), processes, traffic, .. } = self else {
            return;
        };
        if !streams.has(flow, bytes) && processes.iter().any(|process| process.send(flow, bytes)) {
            return;
        }
        if bytes.starts_with(b"SIP/2.0 ") || streams.has(flow, bytes) {
            streams.send(now, flow, bytes);
            traffic.sent += 1;
        } else {
            inlet.tell_undelivered(flow, bytes);
        }
    }

    /// Handles a message that arrived on a connection of the predecessor and belongs to no call there.
    pub(crate) fn take_relayed(&mut self, flow: Flow, bytes: Box<[u8]>) {
        self.relayed.extend(flow.connection);
        let given = self.inlet.as_ref().map_or(HandOverResult::Ours, |inlet| inlet.hand_on(flow, &bytes));
        if given == HandOverResult::HandedOver {
            return self.traffic.handed_over += 1;
        }
        if let Some(owner) = owner(&self.shard, &bytes, self.index, self.peers.senders.len()) {
            // `others` has all threads but this one, in their order.
            let place = owner - usize::from(owner > self.index);
            return self.others[place].pass_on(flow, bytes);
        }
        let Self { shard, out, traffic, recorder, processes, clock, .. } = self;
        take(
            shard,
            processes,
            (traffic, recorder),
            clock.now(),
            &Handed::Message { flow, bytes: &bytes },
            out,
        );
        self.flush();
    }

    /// Reports a node that cannot be reached.
    pub(crate) fn report_unreachable(&self, peer: Peer) {
        if self.shard.topology().slot_at(peer).is_some() {
            let _ = self.reports.send(ShardReport::Unreachable(peer));
        }
    }

    /// Handles a message that did not arrive, given by its first bytes. The thread that owns the call handles it. If
    /// the bytes do not show the call, every thread has to look.
    pub(crate) fn tell_undelivered(&mut self, now: Instant, to: Flow, quoted: &[u8]) {
        let Self { shard, out, peers, index, traffic, recorder, processes, late, .. } = self;
        let owner = shard.tokens().shard_of(quoted, peers.senders.len());
        // Only this thread has sent by a connection without a number.
        let owner = owner.or_else(|| (quoted.is_empty() && to.connection.is_none()).then_some(*index));
        let is_for = |other: usize| owner.is_none_or(|owner| owner == other);
        let handed = Handed::Unreachable { to, quoted };
        for other in (0..peers.senders.len()).filter(|other| other != index && is_for(*other)) {
            let is_handed_over = if to.transport.is_reliable() {
                late.push(&mut peers.senders, other, &handed)
            } else {
                // A datagram is retransmitted.
                peers.senders[other].as_mut().is_some_and(|ring| ring.push(&handed))
            };
            traffic.handover_lost += u64::from(!is_handed_over);
        }
        if is_for(*index) {
            take(shard, processes, (traffic, recorder), now, &handed, out);
        }
    }
}
