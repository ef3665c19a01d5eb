//! Reading of sockets, of the other threads' rings, and of messages from other processes.

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

/// Limit of batches read from one socket or ring in a wake-up while messages wait in the thread's queue. Afterwards the
/// queue is served.
const READ_MOST: usize = 16;
/// Most requests other than INVITE that a turn handles from the queue, so that new calls do not wait for many of them.
const OTHERS_MOST: u32 = 16;
/// Wait of the first datagram of a batch from which the waits of the others are read too.
const LATE: Duration = Duration::from_millis(2);
/// Tolerated difference of the packet clock and the thread's clock over one wait.
const STAMP_SLACK: Duration = Duration::from_millis(10);

/// Returns how long a datagram of a batch has waited. It cannot have waited longer than since its socket was last read
/// dry (`at_most`). A larger value comes from a change of the machine's clock, or from a clock other than the
/// process's, and counts as zero.
fn waited(batch: &ReceiveBatch, index: usize, at_most: Duration) -> Duration {
    Some(batch.waited(index)).filter(|waited| *waited <= at_most).unwrap_or_default()
}

impl Worker {
    pub(crate) fn read_socket(&mut self, now: Instant, socket: usize) {
        if self.is_quiet(socket) {
            return;
        }
        let listener = (socket % self.listeners) as u16;
        // While the thread keeps up, it reads one batch a wake-up, so that other sockets and timers are not delayed.
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
            let queues = self.queue.len() > 0 || (count == BATCH && self.shard.has_triage());
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
        let wait = |batch: &ReceiveBatch, index| ShardInput::Waited {
            waited: waited(batch, index, at_most),
            queue: own.len(),
            class: MessageClass::NewInvite,
        };
        self.shard.handle(now, wait(&self.receive, *first), &mut self.out);
        let is_late = waited(&self.receive, *first, at_most) > LATE;
        for &index in own {
            if is_late && index != *first {
                self.shard.handle(now, wait(&self.receive, index), &mut self.out);
            }
            let (bytes, from) = self.receive.get(index);
            self.queue.on_direct(bytes);
            let Self { shard, out, traffic, recorder, processes, .. } = self;
            let handed = Handed::Message { flow: Flow::udp(listener, from), bytes };
            take(shard, processes, (traffic, recorder), now, &handed, out);
            self.flush_if_much();
        }
        if is_late {
            self.end_wait(now);
        }
    }

    /// Reports that the next messages come from elsewhere and have not waited.
    fn end_wait(&mut self, now: Instant) {
        let none = ShardInput::Waited { waited: Duration::ZERO, queue: 0, class: MessageClass::Response };
        self.shard.handle(now, none, &mut self.out);
    }

    /// Puts these datagrams of the batch into the queue.
    pub(crate) fn queue_up(&mut self, listener: u16, own: &[usize], at_most: Duration) {
        let now = self.clock.now();
        for &index in own {
            let (bytes, from) = self.receive.get(index);
            let (waited, flow) = (waited(&self.receive, index, at_most), Flow::udp(listener, from));
            self.queue.push(now, waited, flow, bytes, self.shard.may_have_priority(flow));
        }
    }

    /// Handles a batch of waiting messages in the order of their classes.
    pub(crate) fn serve_queue(&mut self) {
        if self.queue.len() == 0 {
            return;
        }
        let rules = self.shard.triage();
        let (start, late) = (self.clock.now(), self.shard.late());
        let (mut now, mut refusing, mut refused) = (start, Duration::ZERO, 0_u32);
        let (mut on_others, mut others) = (Duration::ZERO, 0_u32);
        for _ in 0..BATCH {
            if others == OTHERS_MOST {
                break;
            }
            let waiting = self.queue.len();
            let Self { shard, out, traffic, recorder, processes, queue, clock, .. } = self;
            let Some(turn) = queue.pop(now, &rules, late) else { break };
            let Turn { waited, class, .. } = turn;
            shard.handle(now, ShardInput::Waited { waited, queue: waiting, class }, out);
            let handed = Handed::Message { flow: turn.flow, bytes: turn.bytes };
            let outcome = take(shard, processes, (traffic, recorder), now, &handed, out);
            let after = clock.now();
            if outcome == Outcome::Overloaded {
                refusing += after.saturating_since(now);
                refused += 1;
            } else if class == MessageClass::NewOther {
                on_others += after.saturating_since(now);
                others += 1;
            }
            now = after;
            self.flush_if_much();
        }
        self.end_wait(now);
        // Sending takes longer than deciding.
        let (sent, to_send) = (self.traffic.sent, self.clock.now());
        self.flush();
        now = self.clock.now();
        let sent = self.traffic.sent - sent;
        let sending = |count: u32| {
            let part = (f64::from(count) / sent.max(1) as f64).min(1.0);
            now.saturating_since(to_send).mul_f64(part)
        };
        if refused > 0 {
            self.queue.on_refused(refusing + sending(refused));
        }
        if others > 0 {
            self.queue.on_others(on_others + sending(others));
        }
    }

    /// Hands the datagrams of a batch that belong to other shards to these shards, and returns the remaining ones. This
    /// comes before all other work. A shard that the same burst has woken takes its datagrams before it sleeps again,
    /// so it rarely has to be woken later.
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
                let Self { shard, out, traffic, recorder, peers, processes, queue, .. } = self;
                let queues = queue.len() > 0 || (taken >= BATCH && shard.has_triage());
                if taken >= BATCH && !queues {
                    break;
                }
                let Some(handed) = peers.receivers[ring].pop() else { break };
                match handed {
                    // Messages on connections bypass the queue, which may drop them: they are not retransmitted.
                    Handed::Message { flow, bytes } if queues && !flow.transport.is_reliable() => {
                        queue.push(now, Duration::ZERO, flow, bytes, shard.may_have_priority(flow));
                    }
                    Handed::Send { flow, bytes } => {
                        let bytes = Box::<[u8]>::from(bytes);
                        self.send_by_stream(flow, &bytes);
                    }
                    _ => {
                        take(shard, processes, (traffic, recorder), now, &handed, out);
                    }
                }
                self.flush_if_much();
            }
        }
    }

    /// Reads messages that the successor hands back because they belong to calls of this process.
    pub(crate) fn read_inlet(&mut self, now: Instant, flags: PollFlags) {
        if flags.contains(PollFlags::HUP) {
            // The successor has ended, or has given up on this process after a standstill. Remaining messages may be
            // old and were retransmitted.
            self.inlet = None;
        }
        if !flags.contains(PollFlags::IN) {
            return;
        }
        for _ in 0..BATCH {
            let Self { shard, out, traffic, recorder, processes, inlet: Some(inlet), .. } = self else {
                return;
            };
            match inlet.take() {
                Ok(Some(Handed::Send { flow, bytes })) => {
                    let bytes = Box::from(bytes);
                    self.send_for_successor(now, flow, &bytes);
                }
                Ok(Some(handed)) => {
                    take(shard, processes, (traffic, recorder), now, &handed, out);
                }
                Ok(None) => return,
                // The successor has ended, which the control task notices too.
                Err(_) => self.inlet = None,
            }
            self.flush_if_much();
        }
    }

    /// Reads ICMP errors. Only errors about nodes and next hops matter. The kernel reports an error to any of the
    /// threads, depending on the addresses.
    pub(crate) fn read_errors(&mut self, now: Instant, socket: usize) {
        let listener = (socket % self.listeners) as u16;
        // A separate vector, since the socket is borrowed meanwhile.
        let mut errors = Vec::new();
        let outcome = read_errors(&self.sockets[socket], |address, _, quoted| {
            errors.push((Flow::udp(listener, address), Box::<[u8]>::from(quoted)));
        });
        if let Err(error) = outcome {
            tracing::warn!(%error, "reading the error queue failed");
        }
        for (to, quoted) in errors {
            self.report_unreachable(to.remote());
            // Without transactions the sender retransmits.
            if self.shard.has_transactions() {
                self.tell_undelivered(now, to, &quoted);
            }
        }
    }
}
