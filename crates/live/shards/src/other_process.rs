//! Calls that another process owns, and the transfer of their messages to it.

use crate::clock::Clock;
use crate::handover::{self, HEAD_MAX, Handed};
use balance::{Load, NodeId};
use base::{Flow, Instant};
use control::ProcessId;
use node::CallHash;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, sendmsg, shutdown};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use streams::Streams;

/// Time without progress after which another process counts as dead, even if it still exists.
const STANDSTILL: Duration = Duration::from_secs(2);

/// Largest datagram in bytes.
const LARGEST: usize = 65_535;

/// Another process whose calls' datagrams arrive at this process. All threads share this value.
#[derive(Debug)]
pub struct OtherProcess {
    id: ProcessId,
    hash: CallHash,
    /// Hashes of its calls, from [`balance::CallKey::call_id`].
    calls: HashSet<u64>,
    /// Sockets to its threads.
    ways: Vec<OwnedFd>,
    /// Its number for each of our listeners; `None`: it has no such listener.
    listeners: Vec<Option<u16>>,
    /// Whether it has ended.
    gone: AtomicBool,
    /// Time since which it takes no messages, in nanoseconds of our clock; 0 if it takes them.
    stuck: AtomicU64,
    clock: Clock,
    node_states: NodeStates,
    /// Its last report of remaining work. Traffic threads do not lock this.
    remainder: Mutex<Remainder>,
}

/// Result of [`OtherProcess::hand`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandOverResult {
    /// The other process has taken it.
    HandedOver,
    /// It belongs to the other process, which takes no messages now.
    Lost,
    /// It is for this process.
    Ours,
}

impl OtherProcess {
    /// Creates a process whose calls hash to `calls` by its `hash`. `ways` are sockets to its threads, `listeners` its
    /// numbers of our listeners.
    pub fn new(
        id: ProcessId,
        hash: CallHash,
        calls: HashSet<u64>,
        ways: Vec<OwnedFd>,
        listeners: Vec<Option<u16>>,
        clock: Clock,
    ) -> Self {
        let (gone, stuck) = (AtomicBool::new(false), AtomicU64::new(0));
        Self {
            id,
            hash,
            calls,
            ways,
            listeners,
            gone,
            stuck,
            clock,
            node_states: NodeStates::default(),
            remainder: Mutex::default(),
        }
    }

    /// Adds the states of nodes at that process.
    #[must_use]
    pub fn with_node_states(self, node_states: NodeStates) -> Self {
        Self { node_states, ..self }
    }

    /// Converts a flow to this process's numbers of listeners.
    fn ours(&self, flow: Flow) -> Flow {
        let place = self.listeners.iter().position(|its| *its == Some(flow.listener));
        Flow { listener: place.map_or(flow.listener, |place| place as u16), ..flow }
    }

    /// Converts a flow to the other process's numbers of listeners.
    fn its(&self, flow: Flow) -> Flow {
        let listener = self.listeners.get(usize::from(flow.listener)).copied().flatten();
        Flow { listener: listener.unwrap_or_default(), ..flow }
    }

    /// Waits for messages that the other process's threads give back, and passes each to `tell` with its flow. Returns
    /// when the process has ended.
    pub fn bring_back(&self, mut tell: impl FnMut(Flow, Handed<'_>)) {
        let mut buffer = vec![0; HEAD_MAX + LARGEST];
        while !self.gone.load(Ordering::Relaxed) {
            let mut watched: Vec<_> = self.ways.iter().map(|way| PollFd::new(way, PollFlags::IN)).collect();
            // The time-out serves to check whether the process has ended.
            let _ = poll(&mut watched, Some(&Timespec { tv_sec: 1, tv_nsec: 0 }));
            let ready: Vec<_> = watched.iter().map(|fd| !fd.revents().is_empty()).collect();
            for way in self.ways.iter().zip(ready).filter_map(|(way, ready)| ready.then_some(way)) {
                match recv(way, &mut buffer[..], RecvFlags::DONTWAIT) {
                    Ok((_, length)) => match handover::parse(&buffer[..length]) {
                        Some(handed) => tell(self.ours(handed.flow()), handed),
                        // Every message has at least a head. A shorter one means that the other end is closed.
                        None => return,
                    },
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(_) => return,
                }
            }
        }
    }

    /// Returns its process ID.
    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// Returns the states of nodes when it was taken over.
    pub fn node_states(&self) -> &NodeStates {
        &self.node_states
    }

    /// Notes that it has ended, or is given up. Its messages now belong to this process, and messages that it has not
    /// read are lost to it.
    pub fn end(&self) {
        self.gone.store(true, Ordering::Relaxed);
        for way in &self.ways {
            // A socket whose other end is gone needs no shutdown.
            let _ = shutdown(way, Shutdown::Both);
        }
    }

    /// Returns the number of its sessions, including ended ones that are remembered.
    pub fn sessions(&self) -> usize {
        self.calls.len()
    }

    /// Stores its report of remaining work.
    pub fn learn(&self, remainder: Remainder) {
        *self.remainder.lock().unwrap_or_else(PoisonError::into_inner) = remainder;
    }

    /// Returns its remaining work; `None` if it has ended.
    pub fn remainder(&self) -> Option<Remainder> {
        let is_there = !self.gone.load(Ordering::Relaxed);
        is_there.then(|| self.remainder.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Returns its calls for a successor of this process, if they have the same hash function.
    pub fn calls_by(&self, hash: CallHash) -> impl Iterator<Item = u64> + '_ {
        let are_its = self.hash == hash && !self.gone.load(Ordering::Relaxed);
        self.calls.iter().copied().filter(move |_| are_its)
    }

    /// Hands over a message if it belongs to a call of the other process. With `accepts_unknown`, a message of a call
    /// unknown here is handed over, too.
    pub fn hand(&self, handed: &Handed<'_>, accepts_unknown: bool) -> HandOverResult {
        let bytes = handed.bytes();
        if self.gone.load(Ordering::Relaxed) {
            return HandOverResult::Ours;
        }
        let Some(call_id) = wire::peek_call_id(bytes) else { return HandOverResult::Ours };
        if !accepts_unknown && !self.calls.contains(&self.hash.call_key(call_id).call_id()) {
            return HandOverResult::Ours;
        }
        let way = &self.ways[self.hash.shard_hash().shard_of(call_id, self.ways.len())];
        let sent = match *handed {
            Handed::Message { flow, .. } => push(way, &Handed::Message { flow: self.its(flow), bytes }),
            Handed::Unreachable { .. } | Handed::Send { .. } => push(way, handed),
        };
        match sent {
            Ok(()) => {
                self.stuck.store(0, Ordering::Relaxed);
                HandOverResult::HandedOver
            }
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => self.stuck(),
            Err(_) => {
                self.end();
                HandOverResult::Ours
            }
        }
    }

    /// Hands over a message to be sent by a connection of that process, if the flow names a connection. Returns whether
    /// it was taken.
    pub fn send(&self, flow: Flow, bytes: &[u8]) -> bool {
        let Some(number) = flow.connection.filter(|_| !self.gone.load(Ordering::Relaxed)) else {
            return false;
        };
        let way = &self.ways[Streams::thread_of(number, self.ways.len())];
        push(way, &Handed::Send { flow: self.its(flow), bytes }).is_ok()
    }

    fn stuck(&self) -> HandOverResult {
        let now = self.clock.now().as_nanos().max(1);
        let since = match self.stuck.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => now,
            Err(since) => since,
        };
        if Instant::from_nanos(now).saturating_since(Instant::from_nanos(since)) < STANDSTILL {
            return HandOverResult::Lost;
        }
        self.end();
        HandOverResult::Ours
    }
}

/// Sends a message as one packet through a socket pair.
fn push(way: &OwnedFd, handed: &Handed<'_>) -> Result<(), Errno> {
    let head = handover::head(handed);
    let parts = [IoSlice::new(&head), IoSlice::new(handed.bytes())];
    let mut none = SendAncillaryBuffer::default();
    sendmsg(way, &parts, &mut none, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).map(drop)
}

/// Calls that a process keeps after a takeover.
#[derive(Debug)]
pub struct KeptCalls {
    /// Hash function of Call-IDs.
    pub hash: CallHash,
    /// Hashes of the calls, from [`balance::CallKey::call_id`].
    pub calls: HashSet<u64>,
    /// For each port of this process, whether the successor has it.
    pub handed_on: Vec<bool>,
}

/// Socket by which a thread receives messages from the successor.
#[derive(Debug)]
pub struct Inlet {
    socket: OwnedFd,
    buffer: Vec<u8>,
    kept: Arc<KeptCalls>,
}

impl Inlet {
    /// Creates an inlet for the process at the other end of the socket.
    pub fn new(socket: OwnedFd, kept: Arc<KeptCalls>) -> Self {
        Self { socket, buffer: vec![0; HEAD_MAX + LARGEST], kept }
    }

    /// Hands the successor a message that arrived on a connection of this process, unless it belongs to a call of this
    /// process. `Fate::Lost`: the successor takes no messages now.
    pub(crate) fn hand_on(&self, flow: Flow, bytes: &[u8]) -> HandOverResult {
        let kept = &self.kept;
        let Some(call_id) = wire::peek_call_id(bytes) else { return HandOverResult::Ours };
        let is_handed_on = kept.handed_on.get(usize::from(flow.listener)) == Some(&true);
        if !is_handed_on || kept.calls.contains(&kept.hash.call_key(call_id).call_id()) {
            return HandOverResult::Ours;
        }
        match push(&self.socket, &Handed::Message { flow, bytes }) {
            Ok(()) => HandOverResult::HandedOver,
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => HandOverResult::Lost,
            // The successor has ended.
            Err(_) => HandOverResult::Ours,
        }
    }

    /// Tells the successor that its message to be sent by a connection of this process did not arrive.
    pub fn tell_undelivered(&self, to: Flow, quoted: &[u8]) {
        if to.connection.is_some() {
            // If the successor takes no messages now, its transactions time out by themselves.
            let _ = push(&self.socket, &Handed::Unreachable { to, quoted });
        }
    }

    /// Returns the next message, if there is one; an error if the successor has ended.
    pub fn take(&mut self) -> io::Result<Option<Handed<'_>>> {
        match recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT) {
            Ok((_, length)) => match handover::parse(&self.buffer[..length]) {
                Some(handed) => Ok(Some(handed)),
                // Every message has at least a head. An empty one is the end.
                None => Err(io::ErrorKind::UnexpectedEof.into()),
            },
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Inlet {
    /// Hands the successor a message to be sent by its own connection. Returns whether it was taken.
    pub fn give_back(&self, flow: Flow, bytes: &[u8]) -> bool {
        push(&self.socket, &Handed::Send { flow, bytes }).is_ok()
    }
}

impl AsFd for Inlet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// States of the nodes at the predecessor, by the numbers of the nodes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NodeStates {
    /// Nodes that an operator has drained.
    pub drained: Vec<u32>,
    /// Nodes that the scaler of their pool has drained.
    pub drained_by_scaler: Vec<u32>,
    /// Dead nodes.
    pub dead: Vec<u32>,
    /// Measured capacities of members of pools with queues: name of the pool, node, calls a second.
    pub capacities: Vec<(String, u32, f64)>,
}

/// Remaining work of the predecessor.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Remainder {
    /// Calls, or requests of a proxy without a final response.
    pub calls: usize,
    /// Calls, transactions and work, by the number of the node.
    nodes: BTreeMap<u32, (u32, u32, u64)>,
}

impl Remainder {
    /// Adds the load of a thread.
    pub fn add(&mut self, loads: &[(NodeId, Load)]) {
        for &(NodeId(node), Load { calls, transactions, work }) in loads {
            let sum = self.nodes.entry(node).or_default();
            *sum = (sum.0 + calls, sum.1 + transactions, sum.2 + work);
        }
    }

    /// Adds the remaining work of another process.
    pub fn add_all(&mut self, other: &Self) {
        self.calls += other.calls;
        self.add(&other.loads().collect::<Vec<_>>());
    }

    /// Returns the loads of all nodes.
    pub fn loads(&self) -> impl Iterator<Item = (NodeId, Load)> + '_ {
        self.nodes.keys().map(|&node| (NodeId(node), self.load(NodeId(node))))
    }

    fn load(&self, NodeId(node): NodeId) -> Load {
        let (calls, transactions, work) = self.nodes.get(&node).copied().unwrap_or_default();
        Load { calls, transactions, work }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Connection, Transport};
    use node::{TokenKey, Tokens};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::net::SocketAddr;
    use std::num::NonZeroU32;

    fn pair(kept: &Arc<KeptCalls>) -> (OwnedFd, Inlet) {
        let (way, inlet) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        (way, Inlet::new(inlet, Arc::clone(kept)))
    }

    /// Returns a process with two threads and the call "its". Its listener 7 is our listener 0.
    fn other() -> (OtherProcess, [Inlet; 2]) {
        let hash = Tokens::new(TokenKey([1; 16]), &[], Duration::from_hours(1)).call_hash();
        let calls = HashSet::from([hash.call_key(b"its").call_id()]);
        let handed_on = (0..=7).map(|port| port == 7).collect();
        let kept = Arc::new(KeptCalls { hash, calls: calls.clone(), handed_on });
        let ((first, one), (second, two)) = (pair(&kept), pair(&kept));
        let other =
            OtherProcess::new(ProcessId(1), hash, calls, vec![first, second], vec![Some(7)], Clock::start());
        (other, [one, two])
    }

    fn bytes(call_id: &str) -> Vec<u8> {
        format!("OPTIONS sip:a SIP/2.0\r\nCall-ID: {call_id}\r\n\r\n").into_bytes()
    }

    fn from() -> SocketAddr {
        "192.0.2.1:5060".parse().unwrap()
    }

    fn hand(other: &OtherProcess, call_id: &str, is_stray: bool) -> HandOverResult {
        let bytes = bytes(call_id);
        other.hand(&Handed::Message { flow: Flow::udp(0, from()), bytes: &bytes }, is_stray)
    }

    #[test]
    fn it_gets_messages_of_its_calls_and_of_unknown_calls() {
        let (other, mut inlets) = other();
        assert_eq!(hand(&other, "ours", false), HandOverResult::Ours);
        for (call_id, is_stray) in [("its", false), ("ours", true)] {
            assert_eq!(hand(&other, call_id, is_stray), HandOverResult::HandedOver);
            let owner = other.hash.shard_hash().shard_of(call_id.as_bytes(), 2);
            let expected = bytes(call_id);
            let expected = Handed::Message { flow: Flow::udp(7, from()), bytes: &expected };
            assert_eq!(inlets[owner].take().unwrap(), Some(expected));
            assert_eq!(inlets[1 - owner].take().unwrap(), None);
        }
        let quoted = bytes("its");
        let error = Handed::Unreachable { to: Flow::udp(0, from()), quoted: &quoted };
        assert_eq!(other.hand(&error, false), HandOverResult::HandedOver);
        let owner = other.hash.shard_hash().shard_of(b"its", 2);
        assert_eq!(inlets[owner].take().unwrap(), Some(error));
        drop(other);
        assert!(inlets[owner].take().is_err(), "the successor is gone");
    }

    #[test]
    fn its_calls_belong_to_this_process_once_it_has_ended() {
        let (other, inlets) = other();
        drop(inlets);
        assert_eq!(hand(&other, "its", false), HandOverResult::Ours);
        assert_eq!(hand(&other, "ours", true), HandOverResult::Ours);
    }

    /// Returns a flow of one of its connections. Its listener 7 is our listener 0.
    fn connected(number: u32, listener: u16) -> Flow {
        let connection = NonZeroU32::new(number).map(Connection);
        Flow { transport: Transport::Tcp, connection, ..Flow::udp(listener, from()) }
    }

    #[test]
    fn messages_on_its_connections_that_are_not_its_own_are_handed_on() {
        let (other, [inlet, _second]) = other();
        assert_eq!(inlet.hand_on(connected(4, 7), &bytes("its")), HandOverResult::Ours);
        assert_eq!(
            inlet.hand_on(connected(4, 6), &bytes("ours")),
            HandOverResult::Ours,
            "the other process has no such listener"
        );
        assert_eq!(inlet.hand_on(connected(4, 7), &bytes("ours")), HandOverResult::HandedOver);
        inlet.tell_undelivered(connected(4, 7), b"BYE");
        let mut handed_back = Vec::new();
        drop(inlet);
        other.bring_back(|flow, handed| {
            handed_back.push((flow, matches!(handed, Handed::Message { .. }), handed.bytes().to_vec()));
        });
        let flow = connected(4, 0);
        assert_eq!(handed_back, [(flow, true, bytes("ours")), (flow, false, b"BYE".to_vec())]);
    }

    #[test]
    fn it_sends_given_messages_by_its_connections() {
        let (other, mut inlets) = other();
        assert!(other.send(connected(3, 0), b"x"));
        assert_eq!(inlets[1].take().unwrap(), Some(Handed::Send { flow: connected(3, 7), bytes: b"x" }));
        assert!(!other.send(Flow::udp(0, from()), b"x"), "the flow names no connection");
    }

    #[test]
    fn a_process_without_progress_is_not_awaited() {
        let (other, inlets) = other();
        while hand(&other, "its", false) == HandOverResult::HandedOver {}
        // Until the process is given up, its messages are lost, as with a full ring.
        while hand(&other, "its", false) == HandOverResult::Lost {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(hand(&other, "its", false), HandOverResult::Ours);
        // When the process continues, it sees that the waiting messages are no longer for it.
        for inlet in &inlets {
            let mut watched = [PollFd::new(inlet, PollFlags::IN)];
            poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
            assert!(watched[0].revents().contains(PollFlags::HUP));
        }
    }
}
