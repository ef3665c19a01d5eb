//! Commands of the control task to the thread of a shard, and reports in the other direction.

use super::counts::{ShardCounts, ShardSnapshot};
use crate::mirror::Mirror;
use crate::other_process::Inlet;
use crate::records::Records;
use crate::stores::Stores;
use balance::{NodeId, NodeRefusal, PoolId, SessionView, Sign, Slot};
use base::{Flow, Instant, Peer};
use control::ProcessId;
use dialog::{CallDescription, OpenCall};
use digest_auth::AttemptResult;
use node::{Explanation, HopName, KeptFailure, Resolved, Setup, StoreAnswer};
use sockets::Waker;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use streams::ConnectionView;
use streams::tls::TlsSetup;
use tokio::sync::oneshot;

/// A command or question of the control task to a shard.
pub enum Command {
    /// A new setup.
    SetUp(Arc<Setup>),
    /// Addresses of a name that a shard asked for.
    Name(Arc<(HopName, Resolved)>),
    /// Asks for all figures.
    Snapshot(oneshot::Sender<ShardSnapshot>),
    /// Asks for the number of sessions and each node's load, at almost no cost for the traffic.
    Counts(oneshot::Sender<ShardCounts>),
    /// Asks for the age of the oldest call of each node.
    OldestCalls(oneshot::Sender<Vec<Option<Instant>>>),
    /// Asks for each slot whether a session or a lease uses it.
    SlotsInUse(oneshot::Sender<Vec<bool>>),
    /// Asks for the session of this Call-ID.
    Session(Vec<u8>, oneshot::Sender<Option<SessionView>>),
    /// Asks where a request would go. Only the shard that owns the call knows.
    Explain(Flow, Vec<u8>, oneshot::Sender<Explained>),
    /// Asks for the oldest calls in progress, of pools with dialogs.
    OldestOpenCalls(Arc<CallFilter>, oneshot::Sender<Option<OpenCalls>>),
    /// Ends the calls with this Call-ID, of pools with dialogs. The reply is the number of ended dialogs.
    HangUp(Arc<[u8]>, oneshot::Sender<usize>),
    /// Asks for the last failed requests.
    Failures(oneshot::Sender<Vec<KeptFailure>>),
    /// Asks for the connections of the thread.
    Connections(oneshot::Sender<Vec<ConnectionView>>),
    /// A message of another process, to be sent by a connection of the thread.
    Send(Flow, Box<[u8]>),
    /// A message that arrived on a connection of another process.
    Message(Flow, Box<[u8]>),
    /// The first bytes of a message that could not be sent by a connection of another process.
    Unreachable(Flow, Box<[u8]>),
    /// Time after a takeover. When it is over, remaining connections are closed as soon as they are at rest, even if a
    /// dialog or binding depends on them.
    Move(Duration),
    /// Certificates and trusted authorities for new connections.
    Tls(Arc<TlsSetup>),
    /// Sockets that the successor reads from now on. Answered when they are no longer read here.
    Quiet(TakenSockets, oneshot::Sender<()>),
    /// Asks for the calls that this process keeps, for the successor.
    Calls(oneshot::Sender<Vec<u64>>),
    /// The socket by which the successor hands over datagrams of these calls.
    Inlet(Option<Inlet>),
    /// A store's answer to the question with this number.
    Answered(u64, StoreAnswer),
    /// The stores to use from now on.
    Stores(Option<Arc<Stores>>),
    /// The destination of call records from now on.
    Records(Option<Arc<Records>>),
    /// The queue of copies of messages from now on.
    Mirror(Option<Arc<Mirror>>),
    /// Capacity of the member in this slot, in new calls a second from all shards together.
    Capacity(Slot, f64),
    /// Capacity of a member of this pool that another process has measured.
    Learned(PoolId, NodeId, f64),
    /// Result of another shard's password verification.
    Judgement(AttemptResult),
    /// Another process has ended. Its calls now belong to this process.
    Gone(ProcessId),
    /// Ends the thread.
    Stop,
}

/// Conditions on calls in progress, all of which must hold.
#[derive(Clone, Debug, Default)]
pub struct CallFilter {
    /// Part of the Call-ID, of the URIs of From and To, or of the Request-URI.
    pub text: Option<String>,
    /// Name of the pool.
    pub pool: Option<String>,
    /// Server that answered.
    pub member: Option<SocketAddr>,
    /// Maximum number of calls.
    pub limit: usize,
}

impl CallFilter {
    /// Whether a call with these parties fulfils the conditions.
    pub(crate) fn has(&self, about: &CallDescription, member: Option<SocketAddr>) -> bool {
        let texts = [about.call_id(), about.from(), about.to(), about.uri()];
        let is_part = |text: &String| texts.iter().any(|all| String::from_utf8_lossy(all).contains(&**text));
        self.text.as_ref().is_none_or(is_part)
            && self.pool.as_ref().is_none_or(|pool| pool.as_bytes() == about.pool())
            && self.member.is_none_or(|wanted| member == Some(wanted))
    }
}

/// Calls in progress that a filter selects.
#[derive(Clone, Debug)]
pub struct OpenCalls {
    /// The oldest ones.
    pub oldest: Vec<OpenCall>,
    /// Number of all.
    pub count: usize,
}

/// Sockets that another process reads instead of this one.
#[derive(Clone, Debug)]
pub struct TakenSockets {
    /// For each listener of datagrams, whether its sockets are taken.
    pub datagrams: Vec<bool>,
    /// Whether the listeners of connections are taken, so that this process accepts none.
    pub streams: bool,
}

/// A report of a shard to the control task.
#[derive(Debug)]
pub enum ShardReport {
    /// A sign of a node's health from the traffic.
    Sign(Sign),
    /// A request for the addresses of this name.
    LookUp(HopName),
    /// Number of new calls to this pool for which no member took calls.
    NoServer(PoolId, u64),
    /// Number of new calls to this pool for which every member was at this limit.
    AtLimit(PoolId, NodeRefusal, u64),
    /// Number of new calls for which the session table was full.
    NoRoom(u64),
    /// A datagram to this peer did not arrive (ICMP).
    Unreachable(Peer),
    /// The thread ended without being told to.
    Died,
}

/// An answer to [`Command::Explain`].
pub enum Explained {
    /// The decision, or the refusal of the request.
    Here(Result<Box<Explanation>, String>),
    /// The call belongs to the shard with this index.
    Elsewhere(usize),
}

/// The control task's connection to a shard.
#[derive(Clone)]
pub struct WorkerHandle {
    commands: mpsc::Sender<Command>,
    /// Number of waiting messages of other processes, over all threads.
    relayed: Arc<AtomicUsize>,
    waker: Arc<Waker>,
}

/// Limit of waiting messages of other processes. At the limit their messages are not read, and their connections wait.
const RELAYED_MOST: usize = 1_024;
/// Pause before the limit is checked again.
const RELAYED_PAUSE: Duration = Duration::from_millis(1);

impl WorkerHandle {
    /// Creates a handle for the thread with this waker, and the receiver of its commands. `relayed` is shared by all
    /// threads.
    pub(crate) fn new(waker: Arc<Waker>, relayed: Arc<AtomicUsize>) -> (Self, mpsc::Receiver<Command>) {
        let (commands, receiver) = mpsc::channel();
        (Self { commands, relayed, waker }, receiver)
    }

    /// Queues a message that arrived on a connection of another process. Blocks while the limit is reached.
    pub fn relay(&self, flow: Flow, bytes: Box<[u8]>) {
        while self.relayed.load(Ordering::Relaxed) >= RELAYED_MOST {
            std::thread::sleep(RELAYED_PAUSE);
        }
        self.pass_on(flow, bytes);
    }

    /// Queues such a message for another thread without blocking.
    pub fn pass_on(&self, flow: Flow, bytes: Box<[u8]>) {
        self.relayed.fetch_add(1, Ordering::Relaxed);
        self.send(Command::Message(flow, bytes));
    }

    /// Notes that the thread has taken one of these messages.
    pub fn took_relayed(&self) {
        self.relayed.fetch_sub(1, Ordering::Relaxed);
    }

    /// Queues a command for the thread. A command for a thread that has ended is lost.
    pub fn send(&self, command: Command) {
        let _ = self.commands.send(command);
        self.waker.wake();
    }
}
