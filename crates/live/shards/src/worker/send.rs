//! Sending and reporting at the end of a batch.

use super::Worker;
use crate::command::{Command, ShardReport};
use crate::handover::Sender;
use crate::stores::OnAnswer;
use node::{Failure, ShardEvent, ShardInput, StoreQuestion};
use std::net::SocketAddr;
use std::sync::Once;
use streams::Undelivered;
use tracing::Level;

/// Bytes in the outbox from which on it is sent before the end of the batch.
const MUCH: usize = 1 << 20;

/// Returns whether failed requests are logged.
pub fn tells_failures() -> bool {
    tracing::enabled!(Level::DEBUG)
}

impl Worker {
    /// Sends early if the outbox is large. A CANCEL for an unknown branch becomes one datagram for each member, so a
    /// batch of them could grow large.
    pub(crate) fn flush_if_much(&mut self) {
        if self.out.bytes().len() > MUCH {
            self.flush();
        }
    }

    /// Sends the messages of the batch and reports its events. Call records are written first, since the outbox has the
    /// acknowledgements of the calls' ends.
    pub(crate) fn flush(&mut self) {
        // Both stay empty, without memory, if no users are served.
        let (mut asked, mut records) = (Vec::new(), Vec::new());
        for event in self.out.drain_events() {
            let _ = self.reports.send(match event {
                ShardEvent::Ask(question) => {
                    asked.push(question);
                    continue;
                }
                ShardEvent::Record(record) => {
                    records.push(*record);
                    continue;
                }
                ShardEvent::Sign(sign) => ShardReport::Sign(sign),
                ShardEvent::LookUp(name) => ShardReport::LookUp(name),
                ShardEvent::NoServer { pool, refused } => ShardReport::NoServer(pool, refused),
                ShardEvent::AtLimit { pool, by, refused } => ShardReport::AtLimit(pool, by, refused),
                ShardEvent::NoRoom(refused) => ShardReport::NoRoom(refused),
                ShardEvent::Failed(failure) => {
                    // Failures bypass the control task, since strangers can cause any number of them.
                    let Failure { method, call_id, from, cause } = *failure;
                    tracing::debug!(method, call_id, %from, "{cause}");
                    continue;
                }
                event @ (ShardEvent::NoRecordRoute(_)
                | ShardEvent::NoFeedback(_)
                | ShardEvent::NoPath(_)
                | ShardEvent::MarkOfStranger(_)) => {
                    tell_once(&event);
                    continue;
                }
                ShardEvent::WrongPassword(wrong) => {
                    tracing::warn!(from = %wrong.from, user = &*wrong.user, "wrong password, or no such user");
                    continue;
                }
                ShardEvent::Judgement(judgement) => {
                    self.others.iter().for_each(|other| other.send(Command::Judgement(*judgement)));
                    continue;
                }
            });
        }
        if let (false, Some(to)) = (records.is_empty(), &self.records) {
            to.write(&records, self.clock.now());
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.sent(&self.out);
        }
        self.send_datagrams();
        let undelivered = self.send_by_streams();
        self.out.clear();
        for (sender, waker) in self.peers.senders.iter_mut().zip(&self.peers.wakers) {
            if sender.as_mut().is_some_and(Sender::take_pushed) {
                waker.wake();
            }
        }
        self.write_board();
        if !asked.is_empty() || !undelivered.is_empty() {
            for question in asked {
                self.ask(*question);
            }
            let now = self.clock.now();
            for Undelivered { to, quoted, is_unreachable } in undelivered {
                if is_unreachable {
                    self.report_unreachable(to.remote());
                }
                if let Some(inlet) = &self.inlet {
                    inlet.tell_undelivered(to, &quoted);
                }
                self.tell_undelivered(now, to, &quoted);
            }
            self.flush();
        }
    }

    pub(crate) fn send_datagrams(&mut self) {
        let transmits = self.out.transmits();
        if transmits.is_empty() {
            return;
        }
        for (index, socket) in self.sockets[..self.listeners].iter().enumerate() {
            let of_socket = transmits.iter().filter(|transmit| transmit.flow.listener as usize == index);
            let messages = of_socket.map(|transmit| (transmit.range.clone(), transmit.flow.peer));
            let report = self.send.send(socket, self.out.bytes(), messages);
            self.traffic.sent += report.sent as u64;
            self.traffic.send_failed += report.dropped as u64;
        }
    }

    /// Sends a query to a store. An immediate answer goes back to the shard at once.
    pub(crate) fn ask(&mut self, StoreQuestion { number, about }: StoreQuestion) {
        let Some(stores) = &self.stores else { return };
        let later = || -> OnAnswer {
            let handle = self.handle.clone();
            Box::new(move |answer| handle.send(Command::Answered(number, answer)))
        };
        if let Some(answer) = stores.ask(about, later) {
            self.tell(ShardInput::Answer { number, answer: Box::new(answer) });
        }
    }

    /// Gives an input to the shard. Its messages are sent at the end of the batch.
    pub(crate) fn tell(&mut self, input: ShardInput<'_>) {
        self.shard.handle(self.clock.now(), input, &mut self.out);
    }
}

/// Logs an event that a shard reports once for each other element.
fn tell_once(event: &ShardEvent) {
    match *event {
        ShardEvent::NoRecordRoute(member) => warn_missing_record_route(member),
        ShardEvent::NoFeedback(neighbour) => warn_ignored_offer(neighbour),
        ShardEvent::NoPath(proxy) => warn_missing_path(proxy),
        ShardEvent::MarkOfStranger(from) => warn_unknown_neighbour(from),
        _ => {}
    }
}

/// Warns that a neighbour does not answer our offer of overload control.
fn warn_ignored_offer(neighbour: SocketAddr) {
    tracing::warn!(
        %neighbour,
        "this neighbour of [overload] does not answer our offer of overload control (RFC 7339); turn it on there, or \
         remove its network from `neighbours`"
    );
}

/// Warns once in the process that a proxy that is no neighbour takes this process for a neighbour.
fn warn_unknown_neighbour(from: SocketAddr) {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        tracing::warn!(
            %from,
            "requests from this address have a mark of [distribution], but `neighbours` does not contain it: the \
             mark is ignored, \
             and state is kept twice. If it is one of your proxies, add it"
        );
    });
}

/// Warns once in the process that a proxy forwards REGISTER without Path.
fn warn_missing_path(proxy: SocketAddr) {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        tracing::warn!(
            %proxy,
            "REGISTERs come through a proxy that adds no Path (RFC 3327): with [registrar] reach = \"source\" calls \
             to these users go to \
             the proxy, which has to know the next hop. A Sarabande with [proxy] does not, and sends the calls back \
             here (404, 482): \
             reach = \"contact\" sends the calls to the phones (docs/nat.md)"
        );
    });
}

/// Warns once in the process that a member answers calls without Record-Route.
fn warn_missing_record_route(member: SocketAddr) {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        tracing::warn!(
            %member,
            "member answers calls without the Record-Route of their INVITE (RFC 3261 section 12.1.1): later requests \
             of these calls reach it only \
             while this process knows the call, and go elsewhere after a crash. `sipp -sn uas` answers like this: \
             docs/load.md has a remedy"
        );
    });
}
