//! What a thread reads: its sockets, the rings of the other threads, and what other processes hand it.

use super::Worker;
use super::intake::{owner, take};
use crate::handover::Handed;
use crate::triage::Turn;
use arrayvec::ArrayVec;
use base::{Flow, Instant};
use node::{Outcome, ShardInput};
use overload::MessageClass;
use rustix::event::PollFlags;
use sockets::{BATCH, ReceiveBatch, read_errors};
use std::time::Duration;

/// Batches of one socket or ring that are read at a wake-up where messages wait in the queue of the thread. Then what has
/// been read gets its turn.
const READ_MOST: usize = 16;
/// By how much the clocks of stamps and of the thread may differ over one wait.
const STAMP_SLACK: Duration = Duration::from_millis(10);

/// How long a datagram of a batch has waited. No datagram has waited longer than since its socket was last read dry
/// (`at_most`): a stamp that says so is of before the clock of the machine was set, or of another clock than the process
/// has been given, and tells nothing.
fn waited(batch: &ReceiveBatch, index: usize, at_most: Duration) -> Duration {
    Some(batch.waited(index)).filter(|waited| *waited <= at_most).unwrap_or_default()
}

impl Worker {
    pub(crate) fn read_socket(&mut self, now: Instant, socket: usize) {
        if self.is_quiet(socket) {
            return;
        }
        let listener = (socket % self.listeners) as u16;
        // One batch a wake-up, as long as the thread keeps up: the other sockets and the timers get their turn.
        for _ in 0..READ_MOST {
            let Ok(count) = self.receive.receive(&self.sockets[socket]) else { return };
            debug_assert!(count <= BATCH, "a batch is at most {BATCH}");
            self.traffic.received += count as u64;
            let at_most = self.clock.now().saturating_since(self.dry[socket]) + STAMP_SLACK;
            if count < BATCH {
                self.dry[socket] = self.clock.now();
            }
            if count > 0 {
                self.signals.on_waited(now, waited(&self.receive, 0, at_most));
            }
            let queues = self.shard.triage().is_some() && (count == BATCH || self.queue.len() > 0);
            let own = self.hand_over(listener, count);
            if queues {
                self.queue_up(listener, &own, at_most);
            } else {
                self.take_all(now, listener, &own, at_most);
            }
            if count < BATCH || !queues {
                return;
            }
        }
    }

    /// Handles these datagrams of the batch.
    pub(crate) fn take_all(&mut self, now: Instant, listener: u16, own: &[usize], at_most: Duration) {
        let Some(first) = own.first() else { return };
        let waited = waited(&self.receive, *first, at_most);
        let waited = ShardInput::Waited { waited, queue: own.len(), class: MessageClass::NewInvite };
        self.shard.handle(now, waited, &mut self.out);
        for &index in own {
            let (bytes, from) = self.receive.get(index);
            let Self { shard, out, traffic, processes, .. } = self;
            let handed = Handed::Message { flow: Flow::udp(listener, from), bytes };
            take(shard, processes, traffic, now, &handed, out);
            self.flush_if_much();
        }
    }

    /// Has these datagrams of the batch wait for their turn.
    pub(crate) fn queue_up(&mut self, listener: u16, own: &[usize], at_most: Duration) {
        let now = self.clock.now();
        for &index in own {
            let (bytes, from) = self.receive.get(index);
            let (waited, flow) = (waited(&self.receive, index, at_most), Flow::udp(listener, from));
            self.queue.push(now, waited, flow, bytes, self.shard.may_have_priority(flow));
        }
    }

    /// Handles a batch of what waits, in the order of its classes.
    pub(crate) fn serve_queue(&mut self) {
        let Some(rules) = self.shard.triage().filter(|_| self.queue.len() > 0) else { return };
        let (begun, late) = (self.clock.now(), self.shard.late());
        let (mut now, mut refusing, mut refused) = (begun, Duration::ZERO, 0_u32);
        for _ in 0..BATCH {
            let waiting = self.queue.len();
            let Self { shard, out, traffic, processes, queue, clock, .. } = self;
            let Some(turn) = queue.pop(now, &rules, late) else { break };
            let Turn { waited, class, .. } = turn;
            if class.is_new() {
                shard.handle(now, ShardInput::Waited { waited, queue: waiting, class }, out);
            }
            let handed = Handed::Message { flow: turn.flow, bytes: turn.bytes };
            let outcome = take(shard, processes, traffic, now, &handed, out);
            let after = clock.now();
            if outcome == Outcome::Overloaded {
                refusing += after.saturating_since(now);
                refused += 1;
            }
            now = after;
            self.flush_if_much();
        }
        // What is sent takes longer than what is decided.
        let (sent, to_send) = (self.traffic.sent, self.clock.now());
        self.flush();
        now = self.clock.now();
        let sent = self.traffic.sent - sent;
        if refused > 0 {
            let part = (f64::from(refused) / sent.max(1) as f64).min(1.0);
            refusing += now.saturating_since(to_send).mul_f64(part);
            self.queue.on_refused(now, refusing);
        }
    }

    /// Gives the datagrams of a batch that belong to other shards to those, and returns which are left. Before any
    /// work is done: a shard that is up, since the same burst got it up, takes them before it sleeps again, and most
    /// need not be woken for them when the work is done.
    pub(crate) fn hand_over(&mut self, listener: u16, count: usize) -> ArrayVec<usize, BATCH> {
        if self.peers.receivers.is_empty() {
            return (0..count).collect();
        }
        let mut own = ArrayVec::new();
        for index in 0..count {
            let (bytes, from) = self.receive.get(index);
            let Some(owner) = owner(&self.shard, bytes, self.index, self.peers.senders.len()) else {
                own.push(index);
                continue;
            };
            let ring = self.peers.senders[owner].as_mut();
            let handed = Handed::Message { flow: Flow::udp(listener, from), bytes };
            let handed = ring.is_some_and(|ring| ring.push(&handed));
            self.traffic.handed_over += u64::from(handed);
            self.traffic.handover_lost += u64::from(!handed);
        }
        own
    }

    pub(crate) fn read_rings(&mut self, now: Instant) {
        for ring in 0..self.peers.receivers.len() {
            for taken in 0..BATCH * READ_MOST {
                let Self { shard, out, traffic, peers, processes, queue, .. } = self;
                let queues = shard.triage().is_some() && (taken >= BATCH || queue.len() > 0);
                if taken >= BATCH && !queues {
                    break;
                }
                let Some(handed) = peers.receivers[ring].pop() else { break };
                match handed {
                    // On a connection nobody sends again what the queue drops.
                    Handed::Message { flow, bytes } if queues && !flow.transport.is_reliable() => {
                        queue.push(now, Duration::ZERO, flow, bytes, shard.may_have_priority(flow));
                    }
                    Handed::Send { flow, bytes } => {
                        let bytes = Box::<[u8]>::from(bytes);
                        self.send_by_stream(flow, &bytes);
                    }
                    _ => {
                        take(shard, processes, traffic, now, &handed, out);
                    }
                }
                self.flush_if_much();
            }
        }
    }

    /// What the process that has taken over hands back, as it belongs to calls of this one.
    pub(crate) fn read_inlet(&mut self, now: Instant, flags: PollFlags) {
        if flags.contains(PollFlags::HUP) {
            // It has ended, or has given this process up since it stood still: what is left may be old, and was sent again.
            self.inlet = None;
        }
        if !flags.contains(PollFlags::IN) {
            return;
        }
        for _ in 0..BATCH {
            let Self { shard, out, traffic, processes, inlet: Some(inlet), .. } = self else { return };
            match inlet.take() {
                Ok(Some(Handed::Send { flow, bytes })) => {
                    let bytes = Box::from(bytes);
                    self.send_for_successor(now, flow, &bytes);
                }
                Ok(Some(handed)) => {
                    take(shard, processes, traffic, now, &handed, out);
                }
                Ok(None) => return,
                // The other process has ended; the control task hears of it, too.
                Err(_) => self.inlet = None,
            }
            self.flush_if_much();
        }
    }

    /// What ICMP said about datagrams to nodes and next hops; the rest of the world may be as unreachable as it likes. The
    /// kernel tells any of the threads, by addresses.
    pub(crate) fn read_errors(&mut self, now: Instant, socket: usize) {
        let listener = (socket % self.listeners) as u16;
        // Its own type, since the socket is borrowed meanwhile.
        let mut errors = Vec::new();
        let outcome = read_errors(&self.sockets[socket], |address, _, quoted| {
            errors.push((Flow::udp(listener, address), Box::<[u8]>::from(quoted)));
        });
        if let Err(error) = outcome {
            tracing::warn!(%error, "reading the error queue failed");
        }
        for (to, quoted) in errors {
            self.tell_unreachable(to.remote());
            // Without, its sender sends it again.
            if self.shard.has_transactions() {
                self.tell_undelivered(now, to, &quoted);
            }
        }
    }
}
