//! The thread of a shard: receives, handles, sends, and takes commands.

mod inspect;
mod intake;
mod obey;
mod receive;
mod send;
mod stream_turn;

use crate::alarm::Alarm;
use crate::board::Board;
use crate::clock::Clock;
use crate::command::{Command, Report, WorkerHandle};
use crate::counts::Traffic;
use crate::handover::{Receiver, Sender};
use crate::late::LateHandovers;
use crate::listen::MOST;
use crate::other_process::{Inlet, OtherProcess};
use crate::records::Records;
use crate::signals::Signals;
use crate::stores::Stores;
use crate::triage::TriageQueue;
use crate::utilisation::{Meter, ModelProcessor, Work};
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

/// What a shard has in common with the others.
pub(crate) struct Peers {
    pub board: Arc<Board>,
    /// To each other shard, `None` at the own index.
    pub senders: Vec<Option<Sender>>,
    pub receivers: Vec<Receiver>,
    pub wakers: Vec<Arc<Waker>>,
}

/// One thread: its sockets, its shard, and the way to the others.
pub(crate) struct Worker {
    pub index: usize,
    pub clock: Clock,
    /// Rings when the shard's timers are due.
    pub alarm: Alarm,
    /// One of each listener, in their order; more such sets where a process with more threads was taken over.
    pub sockets: Vec<UdpSocket>,
    pub listeners: usize,
    /// The sockets that are read, and what each had at the last wake-up.
    pub ready: Vec<(u16, PollFlags)>,
    /// Of each listener, whether another process reads its sockets; empty: none.
    pub quiet: Vec<bool>,
    pub inlet: Option<Inlet>,
    /// Another process is about to take over. Connections are not read meanwhile, so that each call belongs to one of the two.
    pub awaits_inlet: bool,
    /// Other processes whose calls' datagrams come here.
    pub processes: Vec<Arc<OtherProcess>>,
    /// The connections of these processes that messages have come by.
    pub relayed: HashSet<Connection>,
    pub shard: Shard,
    pub peers: Peers,
    pub commands: mpsc::Receiver<Command>,
    /// How this thread is reached.
    pub handle: WorkerHandle,
    /// How the other threads are.
    pub others: Vec<WorkerHandle>,
    pub stores: Option<Arc<Stores>>,
    /// Where records of calls go, if any are kept.
    pub records: Option<Arc<Records>>,
    pub reports: async_mpsc::UnboundedSender<Report>,
    pub receive: ReceiveBatch,
    pub send: SendBatch,
    pub out: Outbox<ShardEvent>,
    /// What the other threads last had on each node, by slot; kept for its memory.
    pub other_loads: Vec<Load>,
    pub traffic: Traffic,
    pub signals: Signals,
    /// When each socket was last read dry.
    pub dry: Vec<Instant>,
    /// Messages that were read and not handled yet.
    pub queue: TriageQueue,
    /// The connections, where there are listeners for them.
    pub streams: Option<Box<Streams>>,
    /// What was read from them and not handled yet.
    pub stream_batch: StreamBatch,
    /// What waits for room in the rings to the threads whose connections it leaves by.
    pub late: LateHandovers,
    /// How long the thread has worked since it last looked at its connections: longer no message of theirs has waited.
    pub worked: Duration,
    /// Where the state of calls is shared out with neighbours, they want to know how busy we are.
    pub meter: Option<Meter>,
    /// What they are told of in place of the process's own processors.
    pub model: Option<ModelProcessor>,
}

/// Most sockets of a thread.
pub const MOST_SOCKETS: usize = 4 * MOST;
/// How long a thread waits for room in the ring to another one.
const RING_PAUSE_NS: i64 = 500_000;

/// Reports a panic of the thread to the control task.
struct PanicReport(async_mpsc::UnboundedSender<Report>);

impl Drop for PanicReport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.send(Report::Died);
        }
    }
}

impl Worker {
    /// Says on what its utilisation is measured: the process's processors, or a model.
    pub(crate) fn measure(&mut self, model: Option<ModelProcessor>) {
        self.model = model;
        self.renew_meter();
    }

    /// Neighbours are told of utilisation, if there are any.
    pub(crate) fn renew_meter(&mut self) {
        let meter = self.meter.take();
        let Some(every) = self.shard.sharing_period() else { return };
        let threads = self.peers.senders.len();
        let anew = || Meter::new(self.clock.now(), every, threads, self.model, self.work());
        let mut meter = meter.unwrap_or_else(anew);
        meter.take_every(every);
        self.meter = Some(meter);
    }

    /// What this thread has done so far.
    fn work(&self) -> Work {
        Work::of_this_thread(self.shard.ledger(), self.traffic.sent)
    }

    /// Runs until [`Command::Stop`].
    pub(crate) fn run(mut self) {
        let _panic_report = PanicReport(self.reports.clone());
        let mut now = self.clock.now();
        self.signals.on_woken(now);
        loop {
            // Before the last look at commands and rings: what is left there from now on wakes us.
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
            let deadlines = [self.shard.deadline(), period, busy, streams];
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

    /// Tells the shard how busy the process was in a period that is over.
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

    /// Sleeps until there is something to do. What the sockets have is in `ready`, what the inlet has is told.
    fn wait(&mut self) -> PollFlags {
        let waker = &self.peers.wakers[self.index];
        let work = self.queue.len() > 0 || self.peers.receivers.iter().any(|ring| !ring.is_empty());
        // What is left of the batch waits for room in the ring to another thread.
        let unread = self.streams.as_ref().is_some_and(|streams| streams.has_unread());
        let no_time = Timespec { tv_sec: 0, tv_nsec: 0 };
        let short = Timespec { tv_sec: 0, tv_nsec: RING_PAUSE_NS };
        let is_held_up = self.awaits_inlet || !self.stream_batch.is_empty() || !self.late.is_empty();
        let most = match (work || (unread && !is_held_up), is_held_up) {
            (true, _) => Some(&no_time),
            (false, true) => Some(&short),
            (false, false) => None,
        };
        // Its memory is kept.
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        let read = (0..self.sockets.len()).filter(|&socket| !self.is_quiet(socket));
        ready.extend(read.map(|socket| (socket as u16, PollFlags::empty())));
        let watched =
            |&(socket, _): &(u16, PollFlags)| PollFd::new(&self.sockets[usize::from(socket)], PollFlags::IN);
        // As long as is needed: there are few sockets, and an array for as many as there may be is copied at each wake-up.
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
        // Interrupted by a signal: nothing is ready, look again.
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
