//! The thread of a shard: receives, handles, sends, and executes commands.

mod inspect;
mod intake;
mod obey;
mod receive;
mod send;
mod stream_turn;

use crate::alarm::Alarm;
use crate::board::Board;
use crate::clock::Clock;
use crate::command::{Command, ShardReport, WorkerHandle};
use crate::counts::Traffic;
use crate::handover::{Receiver, Sender};
use crate::late::LateHandovers;
use crate::listen::MOST;
use crate::mirror::Recorder;
use crate::other_process::{Inlet, OtherProcess};
use crate::records::Records;
use crate::signals::Signals;
use crate::socket_filter::ReadShare;
use crate::stores::Stores;
use crate::triage::TriageQueue;
use crate::utilisation::{Meter, ModelProcessor, ThreadWork};
use balance::{Load, Slot};
use base::{Connection, Instant, Outbox};
use node::{Shard, ShardEvent, ShardInput};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sockets::{ReceiveBatch, SendBatch, UdpSocket, Waker};
use std::collections::HashSet;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use streams::{StreamBatch, Streams};
use tokio::sync::mpsc as async_mpsc;

pub use send::tells_failures;

/// Connections of a shard to the other shards.
pub(crate) struct Peers {
    pub board: Arc<Board>,
    /// Ring to each other shard; `None` at the own index.
    pub senders: Vec<Option<Sender>>,
    pub receivers: Vec<Receiver>,
    pub wakers: Vec<Arc<Waker>>,
}

/// One thread: its sockets, its shard, and its connections to the others.
pub(crate) struct Worker {
    pub index: usize,
    pub clock: Clock,
    /// Wakes the thread when the shard's timers are due.
    pub alarm: Alarm,
    /// Sockets by listener: one set, or several after the takeover from a process with more threads.
    pub sockets: Vec<UdpSocket>,
    pub listeners: usize,
    /// Sockets that are read, with their events of the last wake-up.
    pub ready: Vec<(u16, PollFlags)>,
    /// For each listener, whether another process reads its sockets; empty if none.
    pub quiet: Vec<bool>,
    pub inlet: Option<Inlet>,
    /// Whether a takeover is in progress. Connections are not read meanwhile, so that each call belongs to one of the
    /// two processes.
    pub awaits_inlet: bool,
    /// Other processes whose calls' datagrams arrive here.
    pub processes: Vec<Arc<OtherProcess>>,
    /// Connections of these processes that messages have arrived on.
    pub relayed: HashSet<Connection>,
    pub shard: Shard,
    pub peers: Peers,
    pub commands: mpsc::Receiver<Command>,
    /// Handle of this thread.
    pub handle: WorkerHandle,
    /// Handles of the other threads.
    pub others: Vec<WorkerHandle>,
    pub stores: Option<Arc<Stores>>,
    /// Destination of call records; `None` without call records.
    pub records: Option<Arc<Records>>,
    /// Copies of messages; `None` without a collector.
    pub recorder: Option<Box<Recorder>>,
    pub reports: async_mpsc::UnboundedSender<ShardReport>,
    pub receive: ReceiveBatch,
    pub send: SendBatch,
    pub out: Outbox<ShardEvent>,
    /// Last known load of each node at the other threads, by slot; a buffer that is reused.
    pub other_loads: Vec<Load>,
    pub traffic: Traffic,
    pub signals: Signals,
    /// When each socket was last read dry.
    pub dry: Vec<Instant>,
    /// Messages that were read but not handled yet.
    pub queue: TriageQueue,
    /// Share of new requests that the kernel passes.
    pub read_share: ReadShare,
    /// Connections; `None` without listeners for connections.
    pub streams: Option<Box<Streams>>,
    /// Messages read from connections but not handled yet.
    pub stream_batch: StreamBatch,
    /// Messages that wait for room in the rings to the threads that own their connections.
    pub late: LateHandovers,
    /// Busy time since connections were last read, which is the longest wait of their messages.
    pub worked: Duration,
    /// Measures the utilisation for neighbours, if call state is distributed among them.
    pub meter: Option<Meter>,
    /// Model that replaces the measurement of the process's own processors.
    pub model: Option<ModelProcessor>,
}

/// Limit of a thread's sockets.
pub const MOST_SOCKETS: usize = 4 * MOST;
/// Pause while the ring to another thread is full.
const RING_PAUSE_NS: i64 = 500_000;

/// Reports a panic of the thread to the control task.
struct PanicReport(async_mpsc::UnboundedSender<ShardReport>);

impl Drop for PanicReport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.send(ShardReport::Died);
        }
    }
}

impl Worker {
    /// Sets the base of the utilisation: the process's processors, or a model.
    pub(crate) fn measure(&mut self, model: Option<ModelProcessor>) {
        self.model = model;
        self.renew_meter();
    }

    /// Starts, changes or stops the measurement of the utilisation for neighbours.
    pub(crate) fn renew_meter(&mut self) {
        let meter = self.meter.take();
        let Some(every) = self.shard.sharing_period() else { return };
        let threads = self.peers.senders.len();
        let anew = || Meter::new(self.clock.now(), every, threads, self.model, self.work());
        let mut meter = meter.unwrap_or_else(anew);
        meter.take_every(every);
        self.meter = Some(meter);
    }

    fn work(&self) -> ThreadWork {
        ThreadWork::of_this_thread(self.shard.ledger(), self.traffic.sent)
    }

    /// Runs until [`Command::Stop`].
    pub(crate) fn run(mut self) {
        let _panic_report = PanicReport(self.reports.clone());
        let mut now = self.clock.now();
        self.signals.on_woken(now);
        loop {
            // This precedes the last check of commands and rings, so that anything added afterwards wakes the thread.
            self.peers.wakers[self.index].going_to_sleep();
            while let Ok(command) = self.commands.try_recv() {
                if matches!(command, Command::Stop) {
                    if let Some(streams) = &mut self.streams {
                        streams.stop(self.clock.now());
                    }
                    return;
                }
                self.obey(command);
            }
            let period = self.meter.as_ref().map(Meter::deadline);
            let busy = self.shard.busy_deadline();
            let streams = self.streams.as_ref().and_then(|streams| streams.deadline());
            // The queue has a deadline as long as it wants fewer than all requests.
            let unread = self.queue.deadline().or_else(|| self.read_share.deadline());
            let deadlines = [self.shard.deadline(), period, busy, streams, unread];
            self.alarm.set(now, deadlines.into_iter().fold(None, Instant::earliest));
            let end = self.clock.now();
            self.signals.on_turn_end(end);
            self.worked = end.saturating_since(now);
            let inlet = self.wait();
            now = self.clock.now();
            self.signals.on_woken(now);
            self.read_board(now);
            for at in 0..self.ready.len() {
                let (socket, flags) = self.ready[at];
                let socket = usize::from(socket);
                if flags.contains(PollFlags::ERR) {
                    self.read_errors(now, socket);
                }
                if flags.intersects(PollFlags::IN) {
                    self.read_socket(now, socket);
                }
            }
            self.read_streams(now);
            self.read_rings(now);
            self.read_inlet(now, inlet);
            self.serve_queue();
            if self.queue.is_due(now) {
                let (passed, unread) = (self.read_share.get(), self.read_share.unread(&self.sockets));
                let shares = self.queue.pass(now, passed, unread, self.signals.busy());
                self.read_share.set(now, shares, &self.sockets);
            }
            if busy.is_some_and(|busy| busy <= now) {
                self.shard.handle(now, ShardInput::Busy(self.signals.busy()), &mut self.out);
            }
            if self.shard.deadline().is_some_and(|deadline| deadline <= now) {
                self.shard.handle(now, ShardInput::Timer, &mut self.out);
            }
            self.measure_period(now);
            self.flush();
        }
    }

    /// Reports the utilisation of an ended period to the shard.
    fn measure_period(&mut self, now: Instant) {
        let Some(mut meter) = self.meter.take() else { return };
        let all = |own| {
            self.peers.board.publish_work(self.index, own);
            self.peers.board.work()
        };
        if let Some((length, utilisation)) = meter.period(now, || self.work(), all) {
            self.shard.handle(now, ShardInput::Period { length, utilisation }, &mut self.out);
        }
        self.meter = Some(meter);
    }

    /// Sleeps until there is work. Sets `ready` to the events of the sockets, and returns the events of the inlet.
    fn wait(&mut self) -> PollFlags {
        let waker = &self.peers.wakers[self.index];
        let work = self.queue.len() > 0 || self.peers.receivers.iter().any(|ring| !ring.is_empty());
        // Part of the batch waits for room in the ring to another thread.
        let unread = self.streams.as_ref().is_some_and(|streams| streams.has_unread());
        let no_time = Timespec { tv_sec: 0, tv_nsec: 0 };
        let short = Timespec { tv_sec: 0, tv_nsec: RING_PAUSE_NS };
        let is_held_up = self.awaits_inlet || !self.stream_batch.is_empty() || !self.late.is_empty();
        let most = match (work || (unread && !is_held_up), is_held_up) {
            (true, _) => Some(&no_time),
            (false, true) => Some(&short),
            (false, false) => None,
        };
        // The buffer is reused.
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        let read = (0..self.sockets.len()).filter(|&socket| !self.is_quiet(socket));
        ready.extend(read.map(|socket| (socket as u16, PollFlags::empty())));
        let watched =
            |&(socket, _): &(u16, PollFlags)| PollFd::new(&self.sockets[usize::from(socket)], PollFlags::IN);
        // A vector of the needed length: an array for the limit of sockets would be copied at each wake-up.
        let mut fds = Vec::with_capacity(ready.len() + 4);
        fds.extend(ready.iter().map(watched));
        fds.push(PollFd::new(waker, PollFlags::IN));
        fds.push(self.alarm.watched());
        if let Some(inlet) = &self.inlet {
            fds.push(PollFd::new(inlet, PollFlags::IN));
        }
        if let Some(streams) = self.streams.as_ref().filter(|_| !is_held_up) {
            fds.push(streams.watched());
        }
        // After an interruption by a signal no socket is ready, and the loop repeats.
        let _ = poll(&mut fds, most);
        waker.awake();
        let inlet = fds.get(ready.len() + 2).filter(|_| self.inlet.is_some());
        let inlet = inlet.map_or(PollFlags::empty(), PollFd::revents);
        for ((_, flags), fd) in ready.iter_mut().zip(&fds) {
            *flags = fd.revents();
        }
        self.ready = ready;
        inlet
    }

    pub(crate) fn is_quiet(&self, socket: usize) -> bool {
        !self.quiet.is_empty() && self.quiet[socket % self.listeners]
    }

    pub(crate) fn read_board(&mut self, now: Instant) {
        if self.peers.receivers.is_empty() && self.processes.is_empty() {
            return;
        }
        let Self { shard, peers, index, other_loads, out, .. } = self;
        other_loads.clear();
        other_loads.extend((0..shard.balancer().nodes().len()).map(|slot| peers.board.others(*index, slot)));
        shard.handle(now, ShardInput::OtherLoads(other_loads), out);
    }

    pub(crate) fn write_board(&self) {
        if self.peers.receivers.is_empty() {
            return;
        }
        let balancer = self.shard.balancer();
        for slot in 0..balancer.nodes().len() {
            self.peers.board.publish(self.index, slot, balancer.load(Slot(slot as u16)).own);
        }
    }
}
