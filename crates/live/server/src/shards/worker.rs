//! The thread of a shard: receives, handles, sends, and takes commands.

use super::alarm::Alarm;
use super::board::Board;
use super::counts::{ShardCounts, ShardSnapshot, Traffic};
use super::handover::{Handed, Receiver, Sender};
use super::intake::{owner, take};
use super::late::LateHandovers;
use super::listen::MOST;
use super::signals::Signals;
use super::triage::{TriageQueue, Turn};
use super::wake::Waker;
use crate::clock::Clock;
use crate::records::Records;
use crate::socket::{BATCH, ReceiveBatch, SendBatch, UdpSocket, read_errors};
use crate::stores::{OnAnswer, Stores};
use crate::takeover::owned::{Inlet, OtherProcess};
use crate::utilisation::{Meter, ModelProcessor};
use ::control::ProcessId;
use arrayvec::ArrayVec;
use balance::{Load, NodeId, NodeRefusal, PoolId, SessionView, Sign, Slot};
use base::{Flow, Instant, Outbox, Peer};
use digest_auth::Judgement;
use node::{
    Explanation, Failure, HopName, Question, Resolved, Setup, Shard, ShardEvent, ShardInput, StoreAnswer,
};
use overload::MessageClass;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::sync::{Arc, Once};
use std::time::Duration;
use streams::tls::TlsSetup;
use streams::{ConnectionView, StreamBatch, Streams, Undelivered};
use tokio::sync::{mpsc as async_mpsc, oneshot};
use tracing::Level;

/// What the control task tells a shard, or asks it.
pub(crate) enum Command {
    /// All that is decided for the shards beside the traffic.
    SetUp(Arc<Setup>),
    /// Where a name leads that a shard asked for.
    Name(Arc<(HopName, Resolved)>),
    /// All figures.
    Snapshot(oneshot::Sender<ShardSnapshot>),
    /// How many sessions there are, and each node's load: costs the traffic next to nothing.
    Counts(oneshot::Sender<ShardCounts>),
    /// When the oldest call on each node began.
    OldestCalls(oneshot::Sender<Vec<Option<Instant>>>),
    /// Of each slot, whether a session or a lease is there.
    SlotsInUse(oneshot::Sender<Vec<bool>>),
    /// The session of this Call-ID.
    Session(Vec<u8>, oneshot::Sender<Option<SessionView>>),
    /// Where a request would go; only the shard that owns its call knows.
    Explain(Flow, Vec<u8>, oneshot::Sender<Explained>),
    /// The connections of the thread.
    Connections(oneshot::Sender<Vec<ConnectionView>>),
    /// Another process has this to be sent by a connection of the thread.
    Send(Flow, Box<[u8]>),
    /// This came by a connection of another process.
    Message(Flow, Box<[u8]>),
    /// What was sent by a connection of another process, and began so, did not arrive.
    Unreachable(Flow, Box<[u8]>),
    /// After so long connections that are left are closed at any moment of rest.
    Move(Duration),
    /// Certificates, and whom we trust, for connections from now on.
    Tls(Arc<TlsSetup>),
    /// What is left to the process that has taken over; answered when it is so.
    Quiet(Left, oneshot::Sender<()>),
    /// The calls that are kept here, for the process that takes over.
    Calls(oneshot::Sender<Vec<u64>>),
    /// Where datagrams of these calls come from when another process has taken over.
    Inlet(Option<Inlet>),
    /// A store has answered the question with this number.
    Answered(u64, StoreAnswer),
    /// The stores to be asked from now on.
    Stores(Option<Arc<Stores>>),
    /// Where records of calls go from now on.
    Records(Option<Arc<Records>>),
    /// The member in this slot can take so many new calls a second, from all shards together.
    Capacity(Slot, f64),
    /// A member of this pool has shown to take so many, while another process asked it.
    Learned(PoolId, NodeId, f64),
    /// Another shard has found out what a password is worth.
    Judged(Judgement),
    /// Another process has ended: its calls are ours.
    Gone(ProcessId),
    /// The thread ends.
    Stop,
}

/// What another process reads in place of this one.
#[derive(Clone, Debug)]
pub(crate) struct Left {
    /// Of each listener for datagrams, whether its sockets.
    pub(crate) datagrams: Vec<bool>,
    /// Whether the listeners for connections: none is accepted here any more.
    pub(crate) streams: bool,
}

/// What a shard tells the control task.
#[derive(Debug)]
pub(crate) enum Report {
    /// What the traffic says about a node.
    Sign(Sign),
    /// A shard wants to know where this name leads.
    LookUp(HopName),
    /// So many new calls found no member that takes any.
    NoServer(u64),
    /// So many new calls to this pool found every member at this limit.
    AtLimit(PoolId, NodeRefusal, u64),
    /// So many new calls found no room in the session table.
    NoRoom(u64),
    /// ICMP: a datagram to this peer did not arrive.
    Unreachable(Peer),
    /// The thread ended although nobody asked it to.
    Died,
}

/// An answer to [`Command::Explain`].
pub(crate) enum Explained {
    /// What would happen, or how the request would be refused.
    Here(Result<Box<Explanation>, String>),
    /// The call belongs to the shard with this index.
    Elsewhere(usize),
}

/// How the control task reaches a shard.
#[derive(Clone)]
pub(crate) struct WorkerHandle {
    commands: mpsc::Sender<Command>,
    waker: Arc<Waker>,
}

impl WorkerHandle {
    pub(crate) fn new(waker: Arc<Waker>) -> (Self, mpsc::Receiver<Command>) {
        let (commands, receiver) = mpsc::channel();
        (Self { commands, waker }, receiver)
    }

    /// Queues a command for the thread. A command for a thread that has ended is lost.
    pub(crate) fn send(&self, command: Command) {
        let _ = self.commands.send(command);
        self.waker.wake();
    }
}

/// What a shard has in common with the others.
pub(crate) struct Peers {
    pub(crate) board: Arc<Board>,
    /// To each other shard, `None` at the own index.
    pub(crate) senders: Vec<Option<Sender>>,
    pub(crate) receivers: Vec<Receiver>,
    pub(crate) wakers: Vec<Arc<Waker>>,
}

/// One thread: its sockets, its shard, and the way to the others.
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) clock: Clock,
    /// Rings when the shard's timers are due.
    pub(crate) alarm: Alarm,
    /// One of each listener, in their order; more such sets where a process with more threads was taken over.
    pub(crate) sockets: Vec<UdpSocket>,
    pub(crate) listeners: usize,
    /// The sockets that are read, and what each had at the last wake-up.
    pub(crate) ready: Vec<(u16, PollFlags)>,
    /// Of each listener, whether another process reads its sockets; empty: none.
    pub(crate) quiet: Vec<bool>,
    pub(crate) inlet: Option<Inlet>,
    /// Another process is about to take over. Connections are not read meanwhile, so that each call belongs to one of the two.
    pub(crate) awaits_inlet: bool,
    /// Other processes whose calls' datagrams come here.
    pub(crate) processes: Vec<Arc<OtherProcess>>,
    pub(crate) shard: Shard,
    pub(crate) peers: Peers,
    pub(crate) commands: mpsc::Receiver<Command>,
    /// How this thread is reached.
    pub(crate) handle: WorkerHandle,
    /// How the other threads are.
    pub(crate) others: Vec<WorkerHandle>,
    pub(crate) stores: Option<Arc<Stores>>,
    /// Where records of calls go, if any are kept.
    pub(crate) records: Option<Arc<Records>>,
    pub(crate) reports: async_mpsc::UnboundedSender<Report>,
    pub(crate) receive: ReceiveBatch,
    pub(crate) send: SendBatch,
    pub(crate) out: Outbox<ShardEvent>,
    /// What the other threads last had on each node, by slot; kept for its memory.
    pub(crate) other_loads: Vec<Load>,
    pub(crate) traffic: Traffic,
    pub(crate) signals: Signals,
    /// When each socket was last read dry.
    pub(crate) dry: Vec<Instant>,
    /// Messages that were read and not handled yet.
    pub(crate) queue: TriageQueue,
    /// The connections, where there are listeners for them.
    pub(crate) streams: Option<Box<Streams>>,
    /// What was read from them and not handled yet.
    pub(crate) stream_batch: StreamBatch,
    /// What waits for room in the rings to the threads whose connections it leaves by.
    pub(crate) late: LateHandovers,
    /// How long the thread has worked since it last looked at its connections: longer no message of theirs has waited.
    pub(crate) worked: Duration,
    /// Where the state of calls is shared out with neighbours, they want to know how busy we are.
    pub(crate) meter: Option<Meter>,
    /// What they are told of in place of the process's own processors.
    pub(crate) model: Option<ModelProcessor>,
}

/// Most sockets of a thread.
pub(crate) const MOST_SOCKETS: usize = 4 * MOST;
/// Batches of one socket or ring that are read at a wake-up where messages wait in the queue of the thread. Then what has
/// been read gets its turn.
const READ_MOST: usize = 16;
/// How long a thread waits for room in the ring to another one.
const RING_PAUSE_NS: i64 = 500_000;
/// Bytes to be sent that are not left to wait for the end of the batch.
const MUCH: usize = 1 << 20;
/// Entries looked at in one go when the oldest calls are asked for.
const WALK: usize = 4_096;

/// By how much the clocks of stamps and of the thread may differ over one wait.
const STAMP_SLACK: Duration = Duration::from_millis(10);

/// How long a datagram of a batch has waited. No datagram has waited longer than since its socket was last read dry
/// (`at_most`): a stamp that says so is of before the clock of the machine was set, or of another clock than the process
/// has been given, and tells nothing.
fn waited(batch: &ReceiveBatch, index: usize, at_most: Duration) -> Duration {
    Some(batch.waited(index)).filter(|waited| *waited <= at_most).unwrap_or_default()
}

/// Whether anybody reads what [`Worker::flush`] says of requests that failed.
pub(crate) fn tells_failures() -> bool {
    tracing::enabled!(Level::DEBUG)
}

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
    fn renew_meter(&mut self) {
        let (threads, work) = (self.peers.senders.len(), self.shard.ledger());
        let anew = || Meter::new(self.clock.now(), threads, (self.model, work));
        self.meter = self.shard.shares_state().then(|| self.meter.take().unwrap_or_else(anew));
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
            let Self { meter, shard, .. } = &mut self;
            if let Some((length, utilisation)) =
                meter.as_mut().and_then(|meter| meter.period(now, || shard.ledger()))
            {
                self.shard.handle(now, ShardInput::Period { length, utilisation }, &mut self.out);
            }
            self.flush();
        }
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

    fn is_quiet(&self, socket: usize) -> bool {
        !self.quiet.is_empty() && self.quiet[socket % self.listeners]
    }

    fn read_socket(&mut self, now: Instant, socket: usize) {
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
    fn take_all(&mut self, now: Instant, listener: u16, own: &[usize], at_most: Duration) {
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
    fn queue_up(&mut self, listener: u16, own: &[usize], at_most: Duration) {
        let now = self.clock.now();
        for &index in own {
            let (bytes, from) = self.receive.get(index);
            let (waited, flow) = (waited(&self.receive, index, at_most), Flow::udp(listener, from));
            self.queue.push(now, waited, flow, bytes, self.shard.may_have_priority(flow));
        }
    }

    /// Handles a batch of what waits, in the order of its classes.
    fn serve_queue(&mut self) {
        let Some(rules) = self.shard.triage().filter(|_| self.queue.len() > 0) else { return };
        let (begun, late) = (self.clock.now(), self.shard.late());
        let (mut now, mut refusing, refused_before) =
            (begun, Duration::ZERO, self.shard.refused_by_overload());
        for _ in 0..BATCH {
            let waiting = self.queue.len();
            let Self { shard, out, traffic, processes, queue, clock, .. } = self;
            let Some(turn) = queue.pop(now, &rules, late) else { break };
            let refused = shard.refused_by_overload();
            let Turn { waited, class, .. } = turn;
            if class.is_new() {
                shard.handle(now, ShardInput::Waited { waited, queue: waiting, class }, out);
            }
            let handed = Handed::Message { flow: turn.flow, bytes: turn.bytes };
            take(shard, processes, traffic, now, &handed, out);
            let after = clock.now();
            if shard.refused_by_overload() > refused {
                refusing += after.saturating_since(now);
            }
            now = after;
            self.flush_if_much();
        }
        // What is sent takes longer than what is decided.
        let (sent, to_send) = (self.traffic.sent, self.clock.now());
        self.flush();
        now = self.clock.now();
        let (sent, refused) = (self.traffic.sent - sent, self.shard.refused_by_overload() - refused_before);
        if refused > 0 {
            let part = (refused as f64 / sent.max(1) as f64).min(1.0);
            refusing += now.saturating_since(to_send).mul_f64(part);
            self.queue.on_refused(now, refusing);
        }
    }

    /// Gives the datagrams of a batch that belong to other shards to those, and returns which are left. Before any
    /// work is done: a shard that is up, since the same burst got it up, takes them before it sleeps again, and most
    /// need not be woken for them when the work is done.
    fn hand_over(&mut self, listener: u16, count: usize) -> ArrayVec<usize, BATCH> {
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

    fn read_rings(&mut self, now: Instant) {
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
                    _ => take(shard, processes, traffic, now, &handed, out),
                }
                self.flush_if_much();
            }
        }
    }

    /// What the process that has taken over hands back, as it belongs to calls of this one.
    fn read_inlet(&mut self, now: Instant, flags: PollFlags) {
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
                Ok(Some(handed)) => take(shard, processes, traffic, now, &handed, out),
                Ok(None) => return,
                // The other process has ended; the control task hears of it, too.
                Err(_) => self.inlet = None,
            }
            self.flush_if_much();
        }
    }

    /// A CANCEL that is searched for becomes one datagram a member: a batch of them must not pile up.
    pub(super) fn flush_if_much(&mut self) {
        if self.out.bytes().len() > MUCH {
            self.flush();
        }
    }

    /// What ICMP said about datagrams to nodes and next hops; the rest of the world may be as unreachable as it likes. The
    /// kernel tells any of the threads, by addresses.
    fn read_errors(&mut self, now: Instant, socket: usize) {
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

    /// Sends what the batch brought, and tells the others. Records of calls are written first: what acknowledges their end is
    /// among what is sent.
    pub(super) fn flush(&mut self) {
        // Empty where no users are served, and takes no memory then.
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
                ShardEvent::Sign(sign) => Report::Sign(sign),
                ShardEvent::LookUp(name) => Report::LookUp(name),
                ShardEvent::NoServer(refused) => Report::NoServer(refused),
                ShardEvent::AtLimit { pool, by, refused } => Report::AtLimit(pool, by, refused),
                ShardEvent::NoRoom(refused) => Report::NoRoom(refused),
                ShardEvent::Failed(failure) => {
                    // Not through the control task: there are as many as strangers please.
                    let Failure { method, call_id, from, cause } = *failure;
                    tracing::debug!(method, call_id, %from, "{cause}");
                    continue;
                }
                told @ (ShardEvent::NoRecordRoute(_) | ShardEvent::NoFeedback(_) | ShardEvent::NoPath(_)) => {
                    tell_once(&told);
                    continue;
                }
                ShardEvent::WrongPassword(wrong) => {
                    tracing::warn!(from = %wrong.from, user = &*wrong.user, "wrong password, or no such user");
                    continue;
                }
                ShardEvent::Judged(judgement) => {
                    self.others.iter().for_each(|other| other.send(Command::Judged(*judgement)));
                    continue;
                }
            });
        }
        if let (false, Some(to)) = (records.is_empty(), &self.records) {
            to.write(&records, self.clock.now());
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
                    self.tell_unreachable(to.remote());
                }
                if let Some(inlet) = &self.inlet {
                    inlet.tell_undelivered(to, &quoted);
                }
                self.tell_undelivered(now, to, &quoted);
            }
            self.flush();
        }
    }

    fn send_datagrams(&mut self) {
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

    /// Asks a store. What is known at once goes back to the shard at once.
    fn ask(&mut self, Question { number, about }: Question) {
        let Some(stores) = &self.stores else { return };
        let later = || -> OnAnswer {
            let handle = self.handle.clone();
            Box::new(move |answer| handle.send(Command::Answered(number, answer)))
        };
        if let Some(answer) = stores.ask(about, later) {
            self.tell(ShardInput::Answer { number, answer: Box::new(answer) });
        }
    }

    /// The shard is told something; what it sends for that waits for the end of the batch.
    fn tell(&mut self, input: ShardInput<'_>) {
        self.shard.handle(self.clock.now(), input, &mut self.out);
    }

    fn read_board(&mut self, now: Instant) {
        if self.peers.receivers.is_empty() && self.processes.is_empty() {
            return;
        }
        let Self { shard, peers, index, other_loads, out, .. } = self;
        other_loads.clear();
        other_loads.extend((0..shard.balancer().nodes().len()).map(|slot| peers.board.others(*index, slot)));
        shard.handle(now, ShardInput::OtherLoads(other_loads), out);
    }

    fn write_board(&self) {
        if self.peers.receivers.is_empty() {
            return;
        }
        let balancer = self.shard.balancer();
        for slot in 0..balancer.nodes().len() {
            self.peers.board.publish(self.index, slot, balancer.load(Slot(slot as u16)).own);
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::SetUp(setup) => {
                self.tell(ShardInput::SetUp(&setup));
                self.admit(&setup);
                self.renew_meter();
                self.flush();
            }
            Command::Name(answer) => self.tell(ShardInput::Name { name: &answer.0, answer: &answer.1 }),
            // Whoever asked may have gone; then nobody misses the answer.
            Command::Snapshot(reply) => drop(reply.send(self.snapshot())),
            Command::Counts(reply) => drop(reply.send(self.counts())),
            Command::OldestCalls(reply) => drop(reply.send(self.oldest_calls())),
            Command::SlotsInUse(reply) => drop(reply.send(self.slots_in_use())),
            Command::Session(call_id, reply) => {
                let _ = reply.send(self.session(&call_id));
            }
            Command::Explain(flow, bytes, reply) => {
                let shards = self.peers.senders.len();
                let now = self.clock.now();
                let _ = reply.send(match owner(&self.shard, &bytes, self.index, shards) {
                    Some(owner) => Explained::Elsewhere(owner),
                    None => {
                        Explained::Here(self.shard.explain(now, flow, &bytes, &mut self.out).map(Box::new))
                    }
                });
                // It may have asked for a name.
                self.flush();
            }
            Command::Connections(reply) => {
                let list = self.streams.as_ref().map(|streams| streams.list()).unwrap_or_default();
                let _ = reply.send(list);
            }
            Command::Send(flow, bytes) => {
                if let Some(streams) = &mut self.streams {
                    streams.send(self.clock.now(), flow, &bytes);
                }
                self.flush();
            }
            Command::Message(flow, bytes) => self.take_relayed(flow, bytes),
            Command::Unreachable(to, quoted) => {
                self.tell_undelivered(self.clock.now(), to, &quoted);
                self.flush();
            }
            Command::Move(wait) => {
                let now = self.clock.now();
                if let Some(streams) = &mut self.streams {
                    streams.move_at(now, now + wait);
                }
            }
            Command::Tls(tls) => {
                if let Some(streams) = &mut self.streams {
                    streams.settings.tls = Some(tls);
                }
            }
            Command::Quiet(left, reply) => {
                self.leave(left);
                let _ = reply.send(());
            }
            Command::Calls(reply) => {
                while self.peers.receivers.iter().any(|ring| !ring.is_empty()) {
                    self.read_rings(self.clock.now());
                    self.flush();
                }
                let mut calls = Vec::new();
                self.shard.calls(|key| calls.push(key.call_id()));
                let _ = reply.send(calls);
            }
            Command::Inlet(inlet) => (self.inlet, self.awaits_inlet) = (inlet, false),
            Command::Answered(number, answer) => {
                self.tell(ShardInput::Answer { number, answer: Box::new(answer) });
                self.flush();
            }
            Command::Capacity(slot, capacity) => {
                self.tell(ShardInput::Capacity { slot, capacity });
                self.flush();
            }
            Command::Learned(pool, node, capacity) => self.tell(ShardInput::Learned { pool, node, capacity }),
            Command::Judged(judgement) => self.tell(ShardInput::Judged(&judgement)),
            Command::Stores(stores) => self.stores = stores,
            Command::Records(records) => self.records = records,
            Command::Gone(process) => {
                // What it had is off the board.
                self.read_board(self.clock.now());
                self.processes.retain(|known| known.id() != process);
            }
            Command::Stop => {}
        }
    }

    /// Another process reads these sockets from now on.
    fn leave(&mut self, Left { datagrams, streams: leaves }: Left) {
        if let Some(streams) = &mut self.streams {
            streams.leave(self.clock.now(), leaves);
            self.awaits_inlet = leaves;
        }
        self.quiet = if datagrams.contains(&true) { datagrams } else { Vec::new() };
    }

    fn counts(&mut self) -> ShardCounts {
        let now = self.clock.now();
        let overload = self.shard.overload_report(now);
        let neighbours = self.shard.neighbour_reports(now);
        let (balancer, proxy) = (self.shard.balancer(), self.shard.proxy_report());
        let slots = (0..).map(Slot).zip(balancer.nodes());
        ShardCounts {
            table: balancer.counts(),
            transactions: self.shard.open_transactions(),
            loads: slots.clone().map(|(slot, node)| (node.id, balancer.load(slot).own)).collect(),
            rooms: slots.clone().map(|(slot, _)| balancer.room(self.clock.now(), slot)).collect(),
            assigned: slots
                .map(|(slot, _)| balancer.stats(slot))
                .map(|stats| stats.assigned - stats.moved)
                .collect(),
            without_takers: self.shard.counters().without_takers,
            at_limit: self.shard.counters().at_limit,
            proxy,
            home: self.shard.home_report(),
            overload,
            neighbours,
            unread: self.queue.len(),
            relayed: self.streams.as_ref().map_or(0, |streams| streams.unanswered()),
            queues: self.shard.queue_reports(),
        }
    }

    fn snapshot(&mut self) -> ShardSnapshot {
        let counts = self.counts();
        let balancer = self.shard.balancer();
        let stats = (0..self.slots()).map(|slot| balancer.stats(Slot(slot as u16)).clone()).collect();
        let lost = self.sockets.iter().filter_map(|socket| socket.lost_datagrams().ok()).map(u64::from).sum();
        ShardSnapshot {
            counters: self.shard.counters(),
            ledger: self.shard.ledger(),
            counts,
            stats,
            traffic: Traffic { receive_lost: lost, ..self.traffic },
            signals: self.signals.figures(self.clock.now()),
            triage: self.queue.counts,
            streams: self.streams.as_ref().map(|streams| streams.counts),
        }
    }

    fn oldest_calls(&mut self) -> Vec<Option<Instant>> {
        let mut oldest: Vec<Option<Instant>> = vec![None; self.slots()];
        self.walk(|session| {
            if session.is_call {
                let oldest = &mut oldest[session.slot.index()];
                *oldest = Some(oldest.map_or(session.created, |then| then.min(session.created)));
            }
        });
        oldest
    }

    /// The session with this Call-ID; of several the one that began first.
    fn session(&mut self, call_id: &[u8]) -> Option<SessionView> {
        let key = self.shard.tokens().call_key(call_id);
        let mut first: Option<SessionView> = None;
        self.walk(|session| {
            if session.key.call_id() == key.call_id()
                && first.is_none_or(|first| session.created < first.created)
            {
                first = Some(session);
            }
        });
        first
    }

    fn slots_in_use(&mut self) -> Vec<bool> {
        let mut used = vec![false; self.slots()];
        self.walk(|session| used[session.slot.index()] = true);
        for (used, (_, load)) in used.iter_mut().zip(self.counts().loads) {
            *used |= load != Load::default();
        }
        used
    }

    fn slots(&self) -> usize {
        self.shard.balancer().nodes().len()
    }

    /// Walks the whole table, but stops for the traffic every few thousand entries.
    fn walk(&mut self, mut visit: impl FnMut(SessionView)) {
        let mut from = Some(0);
        while let Some(start) = from {
            from = self.shard.balancer().sessions(start, WALK, &mut visit);
            if from.is_some() {
                let now = self.clock.now();
                self.read_board(now);
                for socket in 0..self.sockets.len() {
                    self.read_socket(now, socket);
                }
                self.read_rings(now);
                self.flush();
            }
        }
    }
}

/// Logs what a shard tells once of another element.
fn tell_once(event: &ShardEvent) {
    match *event {
        ShardEvent::NoRecordRoute(member) => tell_unrecorded(member),
        ShardEvent::NoFeedback(neighbour) => tell_deaf(neighbour),
        ShardEvent::NoPath(proxy) => tell_pathless(proxy),
        _ => {}
    }
}

/// Says that a neighbour does not answer our offer of overload control.
fn tell_deaf(neighbour: SocketAddr) {
    tracing::warn!(
        %neighbour,
        "this neighbour of [overload] does not answer our offer of overload control (RFC 7339); turn it on there, or \
         remove its network from `neighbours`"
    );
}

/// Says once, whichever thread hears of it first, that a proxy passes REGISTERs on without Path.
fn tell_pathless(proxy: SocketAddr) {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        tracing::warn!(
            %proxy,
            "REGISTERs come through a proxy that adds no Path (RFC 3327): with [registrar] reach = \"source\" calls to their users go to \
             the proxy, which has to know the way on. If it is a Sarabande with [proxy], it does not, and sends them back here (404, 482): \
             reach = \"contact\" sends them to the phones. docs/registrar.md says more"
        );
    });
}

/// Says once, whichever thread hears of it first, that a member answers calls without Record-Route.
fn tell_unrecorded(member: SocketAddr) {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        tracing::warn!(
            %member,
            "member answers calls without the Record-Route of their INVITE (RFC 3261 section 12.1.1): what follows in them finds it as \
             long as this process knows the call, and after a crash goes elsewhere. `sipp -sn uas` does so: docs/load.md has a remedy"
        );
    });
}
