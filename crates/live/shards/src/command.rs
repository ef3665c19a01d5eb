//! What the control task tells the thread of a shard, and what it hears.

use super::counts::{ShardCounts, ShardSnapshot};
use crate::other_process::Inlet;
use crate::records::Records;
use crate::stores::Stores;
use balance::{NodeId, NodeRefusal, PoolId, SessionView, Sign, Slot};
use base::{Flow, Instant, Peer};
use control::ProcessId;
use digest_auth::Judgement;
use node::{Explanation, HopName, Resolved, Setup, StoreAnswer};
use sockets::Waker;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use streams::ConnectionView;
use streams::tls::TlsSetup;
use tokio::sync::oneshot;

/// What the control task tells a shard, or asks it.
pub enum Command {
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
    Quiet(TakenSockets, oneshot::Sender<()>),
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
    Judgement(Judgement),
    /// Another process has ended: its calls are ours.
    Gone(ProcessId),
    /// The thread ends.
    Stop,
}

/// What another process reads in place of this one.
#[derive(Clone, Debug)]
pub struct TakenSockets {
    /// Of each listener for datagrams, whether its sockets.
    pub datagrams: Vec<bool>,
    /// Whether the listeners for connections: none is accepted here any more.
    pub streams: bool,
}

/// What a shard tells the control task.
#[derive(Debug)]
pub enum Report {
    /// What the traffic says about a node.
    Sign(Sign),
    /// A shard wants to know where this name leads.
    LookUp(HopName),
    /// So many new calls to this pool found no member that takes any.
    NoServer(PoolId, u64),
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
pub enum Explained {
    /// What would happen, or how the request would be refused.
    Here(Result<Box<Explanation>, String>),
    /// The call belongs to the shard with this index.
    Elsewhere(usize),
}

/// How the control task reaches a shard.
#[derive(Clone)]
pub struct WorkerHandle {
    commands: mpsc::Sender<Command>,
    /// How many messages of other processes wait, for whichever thread.
    relayed: Arc<AtomicUsize>,
    waker: Arc<Waker>,
}

/// So many messages of other processes may wait; then nothing more is read of theirs, and their connections wait.
const RELAYED_MOST: usize = 1_024;
/// How long to wait until the threads have taken some.
const RELAYED_PAUSE: Duration = Duration::from_millis(1);

impl WorkerHandle {
    /// One for the thread with this waker, and where that finds its commands. `relayed` is common to all threads.
    pub(crate) fn new(waker: Arc<Waker>, relayed: Arc<AtomicUsize>) -> (Self, mpsc::Receiver<Command>) {
        let (commands, receiver) = mpsc::channel();
        (Self { commands, relayed, waker }, receiver)
    }

    /// Queues what came by a connection of another process, once there is room for it.
    pub fn relay(&self, flow: Flow, bytes: Box<[u8]>) {
        while self.relayed.load(Ordering::Relaxed) >= RELAYED_MOST {
            std::thread::sleep(RELAYED_PAUSE);
        }
        self.pass_on(flow, bytes);
    }

    /// The same from another thread that has taken it, and does not wait.
    pub fn pass_on(&self, flow: Flow, bytes: Box<[u8]>) {
        self.relayed.fetch_add(1, Ordering::Relaxed);
        self.send(Command::Message(flow, bytes));
    }

    /// The thread has taken one of these.
    pub fn took_relayed(&self) {
        self.relayed.fetch_sub(1, Ordering::Relaxed);
    }

    /// Queues a command for the thread. A command for a thread that has ended is lost.
    pub fn send(&self, command: Command) {
        let _ = self.commands.send(command);
        self.waker.wake();
    }
}
