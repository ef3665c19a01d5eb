//! The predecessor's side of a takeover. It waits for a successor, hands over sockets and state, and reads its sockets
//! again if the successor dies.

use super::exchange::{
    GREETING, Kept, Near, Offer, PATIENCE, RELEASE, Succession, Taken, network_namespace, receive, send,
    socket_paths,
};
use super::passing;
use crate::ask::Ask;
use crate::figures::PoolName;
use base::Peer;
use control::ListedMember;
use node::{CallHash, QueueMember};
use rustix::net::sockopt::{set_socket_send_buffer_size, set_socket_send_buffer_size_force, socket_peercred};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use shards::{
    AllShards, Command, Inlet, KeptCalls, NodeStates, OtherProcess, Remainder, TakenSockets, WorkerHandle,
};
use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use streams::{close_listener, listen_again};
use tokio::sync::{mpsc, oneshot};

/// Send buffer of the socket pair to a thread of the predecessor: room for a burst that the thread cannot read at once.
const BACKLOG: usize = 4 << 20;

/// Sockets and state that a successor gets.
pub(crate) struct Holdings {
    pub(crate) listeners: Vec<SocketAddr>,
    /// Copies of all sockets: each set has one socket for each address.
    pub(crate) sets: Vec<Vec<OwnedFd>>,
    pub(crate) admin: Option<OwnedFd>,
    /// Copies of the listening sockets of connections.
    pub(crate) streams: Vec<(Peer, OwnedFd)>,
    pub(crate) workers: Vec<WorkerHandle>,
    pub(crate) hash: CallHash,
    pub(crate) processes: Vec<Arc<OtherProcess>>,
}

/// The Unix socket on which this process waits for successors.
struct SuccessorListener {
    listener: UnixListener,
    path: PathBuf,
}

impl SuccessorListener {
    /// Listens at `path`, replacing the socket of any other process.
    fn open(path: PathBuf) -> io::Result<Self> {
        let draft = path.with_added_extension(std::process::id().to_string());
        let _ = fs::remove_file(&draft);
        let listener = UnixListener::bind(Near::to(&draft)?.path())?;
        let moved = fs::set_permissions(&draft, Permissions::from_mode(0o600))
            .and_then(|()| fs::rename(&draft, &path));
        if moved.is_err() {
            let _ = fs::remove_file(&draft);
        }
        moved.map(|()| Self { listener, path })
    }
}

/// Starts a thread that waits for successors of the process with the configuration at `path`.
pub(crate) fn start(path: &Path, holdings: Holdings, asks: mpsc::UnboundedSender<Ask>) {
    let path = socket_paths(path).remove(0);
    let socket = match SuccessorListener::open(path.clone()) {
        Ok(socket) => socket,
        Err(error) => {
            tracing::warn!(file = %path.display(), %error, "the socket for a successor cannot be opened: \
                a restart will refuse calls");
            return;
        }
    };
    let serve = move || serve(socket, &holdings, &asks);
    if let Err(error) = std::thread::Builder::new().name("takeover".to_owned()).spawn(serve) {
        tracing::warn!(%error, "no thread to wait for a successor: a restart will refuse calls");
    }
}

fn serve(mut socket: SuccessorListener, holdings: &Holdings, asks: &mpsc::UnboundedSender<Ask>) {
    loop {
        let Ok((mut stream, _)) = socket.listener.accept() else {
            // No descriptors are left. A successor would find none either.
            std::thread::sleep(PATIENCE);
            continue;
        };
        if let Err(error) = holdings.hand_over(&mut stream, asks) {
            tracing::warn!(%error, "another process asked for the sockets and did not take them: this process \
                continues");
            continue;
        }
        let tell = |succession| drop(asks.send(Ask::Succession(succession)));
        tell(Succession::Started);
        if holdings.accompany(&mut stream) {
            return tell(Succession::Over);
        }
        tracing::warn!("the successor has ended: this process reads its sockets again");
        holdings.resume();
        tell(Succession::GivenBack);
        match SuccessorListener::open(socket.path.clone()) {
            Ok(again) => socket = again,
            Err(error) => {
                tracing::warn!(%error, "cannot wait for further successors");
                return;
            }
        }
    }
}

/// Returns the state of the members at this process; `None` if the process ends.
fn node_states(asks: &mpsc::UnboundedSender<Ask>, workers: &[WorkerHandle]) -> Option<NodeStates> {
    let (reply, answer) = oneshot::channel();
    asks.send(Ask::View(reply)).ok()?;
    let view = answer.blocking_recv().ok()?;
    let those = |is_meant: fn(&ListedMember) -> bool| {
        view.members.iter().filter(|member| is_meant(member)).map(|member| member.node.id.0).collect()
    };
    let counts = ask_each(workers, |_, reply| Command::Counts(reply))?;
    let node_at =
        |slot| view.members.iter().find(|member| member.slot == slot).map(|member| member.node.id.0);
    let of_pool = |pool: &PoolName| {
        let known = AllShards(&counts).queue(pool.id).unwrap_or_default().members.into_iter();
        let known = known.filter(|member| member.is_known);
        let of = |member: QueueMember| Some((pool.name.clone(), node_at(member.slot)?, member.capacity));
        known.filter_map(of).collect::<Vec<_>>()
    };
    Some(NodeStates {
        capacities: view.pools.iter().flat_map(of_pool).collect(),
        drained: those(|member| member.drains.operator),
        drained_by_scaler: those(|member| member.drains.scaler),
        dead: those(|member| !member.node.is_up()),
    })
}

/// Asks all threads at the same time. Blocks until they have answered.
fn ask_each<T>(
    workers: &[WorkerHandle],
    question: impl Fn(usize, oneshot::Sender<T>) -> Command,
) -> Option<Vec<T>> {
    let ask = |(index, worker): (usize, &WorkerHandle)| {
        let (reply, answer) = oneshot::channel();
        worker.send(question(index, reply));
        answer
    };
    let asked: Vec<_> = workers.iter().enumerate().map(ask).collect();
    asked.into_iter().map(|answer| answer.blocking_recv().ok()).collect()
}

impl Holdings {
    /// Hands the sockets to the successor at the other end of `stream`. This process continues.
    fn hand_over(&self, stream: &mut UnixStream, asks: &mpsc::UnboundedSender<Ask>) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let peer = socket_peercred(&*stream)?;
        if peer.uid != rustix::process::geteuid() && !peer.uid.is_root() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the other process belongs to another user",
            ));
        }
        let mut greeting = vec![0; GREETING.len()];
        stream.read_exact(&mut greeting)?;
        if greeting != GREETING {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the other process has another version"));
        }
        let offer = Offer {
            pid: std::process::id(),
            network: network_namespace(),
            listeners: self.listeners.clone(),
            sets: self.sets.len(),
            admin: self.admin.is_some(),
            streams: self
                .streams
                .iter()
                .map(|(at, _)| (at.transport.name().to_owned(), at.address))
                .collect(),
        };
        send(stream, &offer)?;
        let streams = self.streams.iter().map(|(_, socket)| socket);
        let sockets = self.sets.iter().flatten().chain(&self.admin).chain(streams);
        passing::send(stream, &sockets.map(AsFd::as_fd).collect::<Vec<_>>())?;
        let taken: Taken = receive(stream)?;
        let node_states =
            node_states(asks, &self.workers).ok_or_else(|| io::Error::other("this process is ending"))?;
        let handed = self.cease(stream, taken, node_states);
        if handed.is_err() {
            self.resume();
        }
        handed
    }

    /// Stops reading the taken sockets and sends the list of kept calls. The successor starts to read once it has
    /// received the whole list.
    fn cease(&self, stream: &mut UnixStream, mut taken: Taken, node_states: NodeStates) -> io::Result<()> {
        let ended = || io::Error::other("a thread has ended");
        // Sockets that the successor does not take are read here as long as there are calls.
        taken.listeners.resize(self.listeners.len(), false);
        let left = TakenSockets { datagrams: taken.listeners.clone(), streams: true };
        ask_each(&self.workers, |_, reply| Command::Quiet(left.clone(), reply)).ok_or_else(ended)?;
        // Listeners that the successor does not take are closed. Clients are then refused instead of waiting in vain.
        for (_, (_, socket)) in (0..).zip(&self.streams).filter(|(index, _)| !taken.serves(*index)) {
            close_listener(socket)?;
        }
        // Messages that one thread has read and handed to another are in its ring by now.
        let calls = ask_each(&self.workers, |_, reply| Command::Calls(reply)).ok_or_else(ended)?;
        let mut calls: Vec<u64> = calls.into_iter().flatten().collect();
        calls.extend(self.processes.iter().flat_map(|process| process.calls_by(self.hash)));
        let kept = KeptCalls {
            hash: self.hash,
            calls: calls.iter().copied().collect(),
            handed_on: self.ports_of(&taken),
        };
        let ways = self.inlets(&Arc::new(kept))?;
        let (threads, call_hash) = (ways.len(), self.hash.words());
        let kept = Kept { threads, call_hash, calls: calls.len() as u64, node_states };
        send(stream, &kept)?;
        passing::send(stream, &ways.iter().map(AsFd::as_fd).collect::<Vec<_>>())?;
        let bytes: Vec<u8> = calls.iter().flat_map(|call| call.to_ne_bytes()).collect();
        stream.write_all(&bytes)
    }

    /// Answers the successor until it ends. Returns whether the successor released this process before that.
    fn accompany(&self, stream: &mut UnixStream) -> bool {
        let mut released = false;
        let mut asked = [0];
        // The successor asks regularly while it runs, but may be stopped for a while.
        let _ = stream.set_read_timeout(None);
        loop {
            match stream.read(&mut asked) {
                Ok(0) => return released,
                Ok(_) if asked[0] == RELEASE => released = true,
                Ok(_) => {
                    // If a thread has ended, the process ends too, and no thread is left to read the sockets.
                    let Some(remainder) = self.remainder() else { return true };
                    // A successor that cannot take the answer may have sent a release before.
                    let _ = send(stream, &remainder);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return released,
            }
        }
    }

    /// Returns the remaining work of this process and of its predecessor; `None` if a thread has ended.
    fn remainder(&self) -> Option<Remainder> {
        let mut remainder = Remainder::default();
        for counts in ask_each(&self.workers, |_, reply| Command::Counts(reply))? {
            remainder.calls += counts.open();
            remainder.add(&counts.loads);
        }
        for process in &self.processes {
            process.remainder().iter().for_each(|left| remainder.add_all(left));
        }
        Some(remainder)
    }

    /// Returns for each port whether the successor has taken it. Ports of datagrams come first. A port of connections
    /// may have several sockets.
    fn ports_of(&self, taken: &Taken) -> Vec<bool> {
        let mut ports: Vec<(Peer, bool)> = Vec::new();
        for (index, (at, _)) in self.streams.iter().enumerate() {
            match ports.iter_mut().find(|(known, _)| known == at) {
                Some((_, is_taken)) => *is_taken &= taken.serves(index),
                None => ports.push((*at, taken.serves(index))),
            }
        }
        taken.listeners.iter().copied().chain(ports.into_iter().map(|(_, is_taken)| is_taken)).collect()
    }

    /// Gives each thread a new inlet. Returns the other ends.
    fn inlets(&self, kept: &Arc<KeptCalls>) -> io::Result<Vec<OwnedFd>> {
        let mut ways = Vec::new();
        for worker in &self.workers {
            // SEQPACKET keeps datagrams whole and in order, and reports when the other side is gone.
            let (way, inlet) =
                socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
            for end in [&way, &inlet] {
                if set_socket_send_buffer_size_force(end, BACKLOG).is_err() {
                    set_socket_send_buffer_size(end, BACKLOG)?;
                }
            }
            worker.send(Command::Inlet(Some(Inlet::new(inlet, Arc::clone(kept)))));
            ways.push(way);
        }
        Ok(ways)
    }

    fn resume(&self) {
        for worker in &self.workers {
            worker.send(Command::Inlet(None));
        }
        // The successor may have had another key or another number of threads.
        shards::steer(&self.sets, self.hash, self.workers.len());
        for (at, socket) in &self.streams {
            if let Err(error) = listen_again(socket) {
                tracing::error!(%error, address = %at.address, "this address is no longer served: restart");
            }
        }
        let none = TakenSockets { datagrams: vec![false; self.listeners.len()], streams: false };
        // The end of a thread is handled elsewhere.
        let _ = ask_each(&self.workers, |_, reply| Command::Quiet(none.clone(), reply));
    }
}
