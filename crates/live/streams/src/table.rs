//! Connections of a thread: accepting, opening, reading, writing, closing.

mod accept;
mod failed;
mod memory;
mod send;

pub use failed::FailedHandshake;

use super::backoff::Backoff;
use super::batch::StreamBatch;
use super::connection::{Connection, ReadOn, Speech, Stage};
use super::counts::{CloseReason, StreamCounts};
use super::limits::ConnectionLimits;
use super::listener::StreamListener;
use super::settings::StreamSettings;
use super::way::Way;
use base::{Connection as Number, Flow, Instant, Peer};
use core::time::Duration;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Flag that marks a listener in the data of an event; no number of a connection has this bit.
const LISTENER: u64 = 1 << 32;
/// Events taken from the kernel at a time.
const EVENTS: usize = 128;
/// Bytes read from a socket at a time.
const SCRATCH: usize = 32 << 10;
/// Longest time from a request to its response (Timer B and F, RFC 3261 §17.1).
const ANSWERED_WITHIN: Duration = Duration::from_secs(32);

/// Message that was not delivered.
#[derive(Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// Its destination.
    pub to: Flow,
    /// Its first bytes; empty: any unanswered request that was sent on this flow.
    pub quoted: Box<[u8]>,
    /// Whether the failure shows that the peer is unreachable.
    pub is_unreachable: bool,
}

/// Connections of a thread.
pub struct Streams {
    epoll: OwnedFd,
    /// Index of this thread, and number of threads: the number of a connection tells its thread.
    index: u32,
    threads: u32,
    last_number: u32,
    locals: Vec<SocketAddr>,
    pub(super) listeners: Vec<StreamListener>,
    /// Whether the listeners are watched.
    is_accepting: bool,
    /// Time at which listeners are watched again after the kernel had no descriptor left.
    paused_until: Option<Instant>,
    /// Whether another process has taken over.
    is_leaving: bool,
    /// Time from which connections are closed as soon as they are at rest, since another process has taken over.
    moves_at: Option<Instant>,
    connections: HashMap<u32, Connection>,
    /// Connections that this thread has opened.
    by_way: HashMap<Way, u32>,
    /// Connections that servers have opened and that take requests, by the address that the server listens on.
    aliases: HashMap<Peer, u32>,
    /// Connections that peers have opened without sending a message so far, oldest first.
    silent: BTreeSet<(Instant, u32)>,
    /// Time of the next check of each connection.
    dues: BTreeSet<(Instant, u32)>,
    /// Connections with newly queued data in this batch.
    written: Vec<u32>,
    /// Connections with buffered data to read that their sockets do not report, in the order of their turns.
    unread: VecDeque<u32>,
    backoff: Backoff,
    /// Servers known to be dead.
    dead: BTreeSet<Peer>,
    limits: Arc<ConnectionLimits>,
    /// Settings of connections from now on.
    pub settings: StreamSettings,
    /// Counters.
    pub counts: StreamCounts,
    undelivered: Vec<Undelivered>,
    failed: Vec<FailedHandshake>,
    scratch: Box<[u8]>,
}

/// Arguments of [`Streams::new`].
pub struct StreamSetup {
    /// Index of the thread.
    pub index: usize,
    /// Number of threads.
    pub threads: usize,
    /// Local address of each port, in order.
    pub locals: Vec<SocketAddr>,
    /// Listening sockets of the thread.
    pub listeners: Vec<StreamListener>,
    /// Limits of all threads together.
    pub limits: Arc<ConnectionLimits>,
    /// Time limits and bounds.
    pub settings: StreamSettings,
}

/// Cause of a failure to get a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NotOpened {
    /// Local: it says nothing about the peer.
    Here,
    /// The peer.
    There,
}

/// Whether an error means that the system has no resources for another connection (accept(2), socket(2)).
fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    error.raw_os_error().is_some_and(|raw| shortages.iter().any(|shortage| shortage.raw_os_error() == raw))
}

/// First number of a thread's connections: random, so that numbers of one process mean nothing to another.
fn first_number(index: u32, threads: u32) -> u32 {
    (rand::random::<u32>() >> 1) / threads * threads + index
}

impl Streams {
    /// Makes a thread's connections, initially none, and starts to accept.
    pub fn new(setup: StreamSetup) -> io::Result<Self> {
        let StreamSetup { index, threads, locals, listeners, limits, settings } = setup;
        let mut streams = Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            index: index as u32,
            threads: threads as u32,
            last_number: first_number(index as u32, threads as u32),
            locals,
            listeners,
            is_accepting: false,
            paused_until: None,
            is_leaving: false,
            moves_at: None,
            connections: HashMap::new(),
            by_way: HashMap::new(),
            aliases: HashMap::new(),
            silent: BTreeSet::new(),
            dues: BTreeSet::new(),
            written: Vec::new(),
            unread: VecDeque::new(),
            backoff: Backoff::default(),
            dead: BTreeSet::new(),
            limits,
            settings,
            counts: StreamCounts::default(),
            undelivered: Vec::new(),
            failed: Vec::new(),
            scratch: vec![0; SCRATCH].into(),
        };
        streams.set_accepting(true);
        Ok(streams)
    }

    /// Index of the thread that owns this connection.
    pub fn thread_of(Number(number): Number, threads: usize) -> usize {
        number.get() as usize % threads
    }

    /// Descriptor to poll: readable when a connection or listener has an event.
    pub fn watched(&self) -> PollFd<'_> {
        PollFd::new(&self.epoll, PollFlags::IN)
    }

    /// Whether there are data to read that no socket reports.
    pub fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Time of the next call of [`on_time`](Self::on_time).
    pub fn deadline(&self) -> Option<Instant> {
        Instant::earliest(self.dues.first().map(|(due, _)| *due), self.paused_until)
    }

    /// Accepts connections and reads available data into the batch. Connections that wait for their turn get the first
    /// half of the batch, so that neither they nor the others starve.
    pub fn turn(&mut self, now: Instant, batch: &mut StreamBatch) {
        for _ in 0..self.unread.len() {
            if batch.is_half_full() {
                break;
            }
            let Some(number) = self.unread.pop_front() else { break };
            if let Some(connection) = self.connections.get_mut(&number) {
                connection.is_unread = false;
            }
            self.read(now, number, batch);
        }
        let mut space = [const { MaybeUninit::uninit() }; EVENTS];
        let no_time = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Interrupted by a signal: the sockets report again.
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut space, Some(&no_time)) else { return };
        for &mut event in events {
            let Event { data, flags, .. } = event;
            let data = data.u64();
            if data & LISTENER != 0 {
                self.accept(now, (data & !LISTENER) as usize);
                continue;
            }
            let number = data as u32;
            if flags.intersects(EventFlags::OUT) {
                self.on_writable(now, number);
            }
            if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
                self.read(now, number, batch);
            }
        }
        self.free_memory(now);
    }

    /// A free number for a connection of this thread.
    fn number(&mut self) -> u32 {
        loop {
            self.last_number = self.last_number.checked_add(self.threads).unwrap_or(self.index);
            if self.last_number != 0 && !self.connections.contains_key(&self.last_number) {
                return self.last_number;
            }
        }
    }

    fn enter(&mut self, now: Instant, number: u32, mut connection: Connection) -> Result<(), CloseReason> {
        let flags = connection.wanted();
        connection.interest = flags;
        connection.due = now + self.settings.handshake;
        connection.is_leaving = self.is_leaving;
        if let Some(carrier) = connection.carrier() {
            let data = EventData::new_u64(number.into());
            epoll::add(&self.epoll, carrier.socket(), data, flags).map_err(|_| CloseReason::Error)?;
        }
        self.dues.insert((connection.due, number));
        if connection.is_silent {
            self.silent.insert((connection.since, number));
        }
        self.counts.open[connection.flow.transport as usize] += 1;
        self.connections.insert(number, connection);
        self.settle(now, number);
        Ok(())
    }

    fn read(&mut self, now: Instant, number: u32, batch: &mut StreamBatch) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        if batch.is_full() {
            return self.read_later(number);
        }
        let mut read = Ok(ReadOn::Dry);
        if let Speech::Proxied(..) = connection.speech {
            read = connection
                .read_proxy_header(now, &mut self.scratch, &self.settings)
                .map(|known| if known { ReadOn::More } else { ReadOn::Dry });
        } else if connection.stage != Stage::Connecting {
            let before = batch.len();
            read = connection.read(now, &mut self.scratch, batch);
            if connection.is_silent && batch.len() > before {
                connection.is_silent = false;
                self.silent.remove(&(connection.since, number));
            }
            if let Some(server) = connection.alias() {
                self.aliases.insert(server, number);
            }
        }
        match read {
            Ok(ReadOn::Dry) => {}
            Ok(ReadOn::More) => self.read_later(number),
            Err(reason) => return self.close(now, number, reason),
        }
        self.after_turn(now, number);
    }

    /// Gives the connection another turn.
    fn read_later(&mut self, number: u32) {
        if let Some(connection) = self.connections.get_mut(&number)
            && !std::mem::replace(&mut connection.is_unread, true)
        {
            self.unread.push_back(number);
        }
    }

    /// Handles a socket that accepts more, or the result of opening a connection.
    fn on_writable(&mut self, now: Instant, number: u32) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        if connection.stage == Stage::Connecting {
            let outcome = connection.carrier().map(|carrier| carrier.socket().take_error());
            if let Some(Ok(None)) = outcome {
                connection.stage = Stage::Opening;
            } else {
                return self.close(now, number, CloseReason::Error);
            }
        }
        self.after_turn(now, number);
    }

    /// Writes queued data, and updates the state of a connection.
    fn after_turn(&mut self, now: Instant, number: u32) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        if let Err(reason) = connection.write_out(now) {
            return self.close(now, number, reason);
        }
        self.settle(now, number);
    }

    /// Updates whether it is open, the events of its socket, and the time of its next check.
    fn settle(&mut self, now: Instant, number: u32) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let opens = match connection.opens(now) {
            Ok(opens) => opens,
            Err(reason) => return self.close(now, number, reason),
        };
        if opens {
            if let Some(kind) = connection.carrier().and_then(|carrier| carrier.tls()?.handshake_kind()) {
                let is_resumed = kind == rustls::HandshakeKind::Resumed;
                self.counts.resumed += u64::from(is_resumed);
                self.counts.handshakes += u64::from(!is_resumed);
            }
            if let Some(way) = &connection.way {
                self.counts.opened += 1;
                self.backoff.succeeded(way);
            }
        }
        let wanted = connection.wanted();
        if wanted != connection.interest {
            connection.interest = wanted;
            if let Some(carrier) = connection.carrier() {
                let data = EventData::new_u64(number.into());
                let _ = epoll::modify(&self.epoll, carrier.socket(), data, wanted);
            }
        }
        let due = connection.next_look(now, &self.settings, self.moves_at);
        if due < connection.due {
            self.dues.remove(&(connection.due, number));
            connection.due = due;
            self.dues.insert((due, number));
        }
        self.count_held(number);
    }

    /// Writes the data queued since the last call to the sockets.
    pub fn flush(&mut self, now: Instant) {
        let mut written = std::mem::take(&mut self.written);
        for number in written.drain(..) {
            self.after_turn(now, number);
        }
        self.written = written;
        self.free_memory(now);
    }

    fn close(&mut self, now: Instant, number: u32, reason: CloseReason) {
        let Some(mut connection) = self.connections.remove(&number) else { return };
        let flow = connection.flow;
        self.note_failed(now, &mut connection, reason);
        if !matches!(reason, CloseReason::Peer | CloseReason::Error) {
            connection.send_close_notification();
        }
        self.dues.remove(&(connection.due, number));
        self.silent.remove(&(connection.since, number));
        let alias = connection.alias().filter(|server| self.aliases.get(server) == Some(&number));
        if let Some(server) = alias {
            self.aliases.remove(&server);
        }
        self.counts.open[flow.transport as usize] -= 1;
        self.counts.held -= connection.counted as u64;
        let is_ours = connection.way.is_some();
        let is_unreachable = is_ours && connection.stage != Stage::Open;
        if let Some(way) = connection.way.take() {
            self.by_way.remove(&way);
            if is_unreachable {
                self.counts.connect_failed += 1;
                self.backoff.failed(now, way);
            }
        }
        if !is_unreachable {
            self.counts.close(reason);
        }
        let sent_by = if is_ours { Flow { connection: None, ..flow } } else { flow };
        for quoted in connection.unsent {
            self.undelivered.push(Undelivered { to: sent_by, quoted, is_unreachable });
        }
        let waits = connection.asked.is_some_and(|asked| now < asked + ANSWERED_WITHIN);
        if connection.stage == Stage::Open && waits {
            // It is not known here which requests are unanswered.
            self.undelivered.push(Undelivered { to: sent_by, quoted: [].into(), is_unreachable });
            if let Some(server) = alias {
                let to = Flow { peer: server.address, connection: None, ..flow };
                self.undelivered.push(Undelivered { to, quoted: [].into(), is_unreachable });
            }
        }
    }

    /// Takes the messages that were not delivered since the last call.
    pub fn take_undelivered(&mut self) -> Vec<Undelivered> {
        std::mem::take(&mut self.undelivered)
    }

    /// Closes connections whose time is over, and queues keep-alives.
    pub fn on_time(&mut self, now: Instant) {
        if self.paused_until.is_some_and(|until| until <= now) {
            self.paused_until = None;
            self.set_accepting(!self.is_leaving);
        }
        while let Some(&(due, number)) = self.dues.first().filter(|(due, _)| *due <= now) {
            self.dues.remove(&(due, number));
            let Some(connection) = self.connections.get_mut(&number) else { continue };
            match connection.keep_alive(now, &self.settings) {
                Ok(true) => self.written.push(number),
                Ok(false) => {}
                Err(reason) => {
                    self.close(now, number, reason);
                    continue;
                }
            }
            let (end, reason) = connection.end(now, &self.settings, self.moves_at);
            if end <= now {
                self.close(now, number, if self.is_leaving { CloseReason::Stop } else { reason });
            } else {
                connection.due = connection.next_look(now, &self.settings, self.moves_at);
                self.dues.insert((connection.due, number));
            }
        }
    }

    /// Updates the set of dead servers, and closes the connections to newly dead ones. A process that hangs keeps its
    /// connections, and its unanswered requests must go elsewhere.
    pub fn know_dead(&mut self, now: Instant, dead: BTreeSet<Peer>) {
        let is_lost = |peer: Peer| dead.contains(&peer) && !self.dead.contains(&peer);
        let leads_to = |connection: &Connection| connection.alias().unwrap_or(connection.flow.remote());
        let lost = self.connections.iter().filter(|(_, connection)| is_lost(leads_to(connection)));
        let lost: BTreeSet<_> = lost.map(|(number, _)| *number).collect();
        self.dead = dead;
        for number in lost {
            self.close(now, number, CloseReason::Dead);
        }
    }

    /// Stops or resumes accepting connections. While another process accepts them, idle connections that no dialog or
    /// binding depends on are closed, so that their clients connect to the other process.
    pub fn leave(&mut self, now: Instant, leaves: bool) {
        (self.is_leaving, self.moves_at) = (leaves, None);
        self.set_accepting(!leaves);
        self.connections.values_mut().for_each(|connection| connection.is_leaving = leaves);
        self.settle_all(now);
    }

    /// Sets the time from which remaining connections are closed as soon as they are at rest, whatever depends on them.
    pub fn move_at(&mut self, now: Instant, at: Instant) {
        // The process may have got its sockets back meanwhile.
        if self.is_leaving {
            self.moves_at = Some(at);
            self.settle_all(now);
        }
    }

    fn settle_all(&mut self, now: Instant) {
        for number in self.connections.keys().copied().collect::<Vec<_>>() {
            self.settle(now, number);
        }
    }

    /// Number of requests without a final response on connections of this process, if another one has taken over.
    pub fn unanswered(&self) -> usize {
        let all = self.connections.values().filter(|_| self.is_leaving);
        all.map(|connection| connection.unanswered.len()).sum()
    }

    /// Whether a dialog or binding depends on a connection of this process, if another one has taken over.
    pub fn has_dialogs(&self, now: Instant) -> bool {
        self.is_leaving && self.connections.values().any(|connection| connection.dialogs.is_any(now))
    }

    /// Closes all connections.
    pub fn stop(&mut self, now: Instant) {
        for number in self.connections.keys().copied().collect::<Vec<_>>() {
            self.close(now, number, CloseReason::Stop);
        }
    }

    /// All connections.
    pub fn list(&self) -> Vec<ConnectionView> {
        let view = |connection: &Connection| ConnectionView {
            flow: connection.flow,
            is_ours: connection.way.is_some(),
            is_open: connection.stage == Stage::Open,
            since: connection.since,
        };
        self.connections.values().map(view).collect()
    }
}

/// A connection for display.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionView {
    /// Flow to the peer.
    pub flow: Flow,
    /// Whether this process opened it.
    pub is_ours: bool,
    /// Whether it is ready for messages.
    pub is_open: bool,
    /// Time at which it was accepted, or its opening started.
    pub since: Instant,
}
