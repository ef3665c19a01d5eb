//! The successor's side of a takeover. It takes the sockets over and regularly asks the predecessor for its remaining
//! work.

use super::exchange::{
    GREETING, Kept, Offer, PATIENCE, PERIOD, RELEASE, Taken, connect, is_served, receive, send, socket_paths,
};
use super::passing;
use crate::ask::Ask;
use ::control::ProcessId;
use base::{Peer, Transport};
use node::{CallHash, Port, Ports};
use shards::listen::datagram_ports;
use shards::{Clock, Command, Handed, OtherProcess, Remainder, WorkerHandle};
use sockets::UdpSocket;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use streams::Streams;
use tokio::sync::mpsc;

/// Question for the remaining work.
const ASK: u8 = b'?';

/// An accepted offer. The predecessor continues to read until [`Claim::confirm`].
pub(crate) struct Claim {
    stream: UnixStream,
    /// Path of the predecessor's Unix socket.
    path: PathBuf,
    pid: u32,
    /// Sockets by set and by our listener; `None`: the predecessor has no such listener.
    pub(crate) sets: Vec<Vec<Option<UdpSocket>>>,
    pub(crate) admin: Option<TcpListener>,
    pub(crate) streams: Vec<(Peer, TcpListener)>,
    taken: Taken,
    /// The predecessor's number for each of our listeners; `None`: it has no such listener.
    listeners: Vec<Option<u16>>,
}

/// Asks the process with the configuration at `path` for its sockets; `None` if there is no such process.
///
/// # Errors
/// If the process does not hand its sockets over.
pub(crate) fn claim(path: &Path, ports: &Ports) -> io::Result<Option<Claim>> {
    // A killed process leaves its socket file behind, but nothing listens there.
    let found = socket_paths(path).into_iter().find_map(|path| Some((connect(&path).ok()?, path)));
    let Some((mut stream, path)) = found else { return Ok(None) };
    match exchange(&mut stream) {
        Ok((offer, _)) if offer.is_of_other_network() => Err(of_other_network(&path)),
        Ok((offer, descriptors)) => Ok(Some(Claim::new((stream, path), &offer, descriptors, ports))),
        Err(error) => refused(&path, &error).map(|()| None),
    }
}

/// Returns an error unless the process has ended meanwhile.
fn refused(path: &Path, error: &io::Error) -> io::Result<()> {
    if !is_served(path) {
        return Ok(());
    }
    let text = format!(
        "another process has this configuration (`ss -xlp` shows the process that listens on {}) and does not hand \
         its sockets over: \
         {error}. Start again. If that process hangs, kill it first",
        path.display()
    );
    Err(io::Error::new(error.kind(), text))
}

fn of_other_network(path: &Path) -> io::Error {
    io::Error::other(format!(
        "a process in another network namespace, such as another container, has this configuration and listens on {}: its \
         sockets do not serve this network. Give each process its own folder, or stop the other process first",
        path.display()
    ))
}

/// Receives the offer and the descriptors of the process at the other end.
fn exchange(stream: &mut UnixStream) -> io::Result<(Offer, Vec<OwnedFd>)> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(GREETING)?;
    let offer: Offer = receive(stream)?;
    let count = offer.sets * offer.listeners.len() + usize::from(offer.admin) + offer.streams.len();
    let descriptors = passing::receive(stream, count)?;
    Ok((offer, descriptors))
}

impl Claim {
    fn new(
        (stream, path): (UnixStream, PathBuf),
        offer: &Offer,
        descriptors: Vec<OwnedFd>,
        ports: &Ports,
    ) -> Self {
        let mut descriptors = descriptors.into_iter();
        // Sockets of datagrams come first. Listeners of other transports may share their addresses.
        let datagrams = datagram_ports(ports);
        let place = |address: &SocketAddr| datagrams.clone().position(|port| port.local == *address);
        let places: Vec<Option<usize>> = offer.listeners.iter().map(place).collect();
        let mut sets = Vec::new();
        for _ in 0..offer.sets {
            let mut set: Vec<Option<UdpSocket>> = datagrams.clone().map(|_| None).collect();
            for (socket, place) in descriptors.by_ref().take(places.len()).zip(&places) {
                if let Some(place) = *place {
                    set[place] = Some(UdpSocket::from(socket));
                }
            }
            sets.push(set);
        }
        let admin = offer.admin.then(|| descriptors.next()).flatten().map(TcpListener::from);
        let at = |(transport, address): &(String, SocketAddr)| {
            Some(Peer::new(Transport::parse(transport.as_bytes())?, *address))
        };
        let is_served = |stream: &(String, SocketAddr)| {
            let is_it = |at: Peer| ports.iter().any(|port| Peer::new(port.transport, port.local) == at);
            at(stream).is_some_and(is_it)
        };
        let served = offer.streams.iter().map(is_served).collect();
        let streams = offer.streams.iter().zip(descriptors);
        let streams = streams.filter_map(|(stream, socket)| Some((at(stream)?, TcpListener::from(socket))));
        let streams = streams.collect();
        // Ports of connections are numbered after the ports of datagrams.
        let number = |port: &Port| offer.number_of(Peer::new(port.transport, port.local));
        let listeners = ports.iter().map(|port| number(port).map(|number| number as u16)).collect();
        let listeners_taken = places.iter().map(Option::is_some).collect();
        let taken = Taken { listeners: listeners_taken, streams: served };
        Self { stream, path, pid: offer.pid, sets, admin, streams, taken, listeners }
    }

    /// Tells the predecessor to keep only its calls. From then on the caller reads the sockets. `None`: the predecessor
    /// has ended, and its calls with it.
    ///
    /// # Errors
    /// If the predecessor continues to read the sockets.
    pub(crate) fn confirm(
        mut self,
        clock: Clock,
        asks: mpsc::UnboundedSender<Ask>,
    ) -> io::Result<Option<(PredecessorLink, Arc<OtherProcess>)>> {
        let predecessor = match self.take(clock) {
            Ok(predecessor) => Arc::new(predecessor),
            Err(error) => return refused(&self.path, &error).map(|()| None),
        };
        let (pid, sessions) = (self.pid, predecessor.sessions());
        tracing::info!(pid, sessions, "taken over from the predecessor: its sessions stay there");
        let bond = PredecessorLink { stream: self.stream.try_clone()? };
        let (stream, watched) = (self.stream, Arc::clone(&predecessor));
        std::thread::Builder::new()
            .name("predecessor".to_owned())
            .spawn(move || watch(stream, &watched, &asks))?;
        Ok(Some((bond, predecessor)))
    }

    /// Sends the list of taken sockets and receives the kept calls. The predecessor has stopped reading by then.
    fn take(&mut self, clock: Clock) -> io::Result<OtherProcess> {
        send(&mut self.stream, &self.taken)?;
        let kept: Kept = receive(&mut self.stream)?;
        let ways = passing::receive(&self.stream, kept.threads)?;
        let mut bytes = Vec::new();
        Read::take(&mut self.stream, kept.calls * 8).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != kept.calls * 8 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (calls, _) = bytes.as_chunks();
        let calls = calls.iter().map(|call| u64::from_ne_bytes(*call)).collect();
        let hash = CallHash::from_words(kept.call_hash);
        let (id, listeners) = (ProcessId(self.pid), std::mem::take(&mut self.listeners));
        let predecessor = OtherProcess::new(id, hash, calls, ways, listeners, clock);
        Ok(predecessor.with_node_states(kept.node_states))
    }
}

/// Starts a thread that takes messages back from the predecessor. These are answers that leave by connections of this
/// process, and messages on connections of the predecessor that do not belong to its calls.
///
/// # Errors
/// If no thread can be started.
pub(crate) fn bring_back(process: &Arc<OtherProcess>, workers: Vec<WorkerHandle>) -> io::Result<()> {
    let process = Arc::clone(process);
    let run = move || {
        process.bring_back(|flow, handed| {
            let Some(number) = flow.connection else { return };
            let (worker, bytes) =
                (&workers[Streams::thread_of(number, workers.len())], handed.bytes().into());
            match handed {
                Handed::Send { .. } => worker.send(Command::Send(flow, bytes)),
                Handed::Message { .. } => worker.relay(flow, bytes),
                Handed::Unreachable { .. } => worker.send(Command::Unreachable(flow, bytes)),
            }
        });
    };
    std::thread::Builder::new().name("given-back".to_owned()).spawn(run).map(drop)
}

/// The connection to the predecessor.
pub(crate) struct PredecessorLink {
    stream: UnixStream,
}

impl PredecessorLink {
    /// Tells the predecessor not to read the sockets again when this process ends.
    pub(crate) fn release(&mut self) {
        // A predecessor that has ended needs no message.
        let _ = self.stream.write_all(&[RELEASE]);
    }
}

/// Asks the predecessor for its remaining work.
fn ask(stream: &mut UnixStream) -> io::Result<Remainder> {
    stream.write_all(&[ASK])?;
    receive(stream)
}

/// Asks the predecessor regularly until it ends.
fn watch(mut stream: UnixStream, predecessor: &OtherProcess, asks: &mpsc::UnboundedSender<Ask>) {
    let error = loop {
        match ask(&mut stream) {
            Ok(remainder) => {
                predecessor.learn(remainder);
                let _ = asks.send(Ask::Process(predecessor.id()));
            }
            Err(error) => break error,
        }
        std::thread::sleep(PERIOD);
    };
    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
        tracing::warn!("the predecessor does not answer: its calls are treated as if it had been killed");
    }
    // A predecessor that was only stopped must not read the sockets again.
    let _ = stream.write_all(&[RELEASE]);
    predecessor.end();
    let _ = asks.send(Ask::Process(predecessor.id()));
}

#[cfg(test)]
mod tests {
    use super::super::exchange::network_namespace;
    use super::*;
    use std::os::unix::net::UnixListener;

    /// Claims sockets from `predecessor`, which acts on the listener and the accepted connection. `then` gets the
    /// result.
    fn meet<T>(
        name: &str,
        predecessor: impl FnOnce(UnixListener, UnixStream) + Send + 'static,
        then: impl FnOnce(io::Result<Option<Claim>>) -> T,
    ) -> T {
        let file = std::env::temp_dir().join(format!("sarabande-claim-{}-{name}.toml", std::process::id()));
        let listener = UnixListener::bind(&socket_paths(&file)[0]).unwrap();
        let other = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            predecessor(listener, stream);
        });
        let outcome = then(claim(&file, &Ports::default()));
        std::fs::remove_file(&socket_paths(&file)[0]).unwrap();
        other.join().unwrap();
        outcome
    }

    /// Offers no sockets, and reads which are taken.
    fn offer(stream: &mut UnixStream) {
        offer_from(network_namespace(), stream);
        let _: Taken = receive(stream).unwrap();
    }

    fn offer_from(network: Option<u64>, stream: &mut UnixStream) {
        let mut greeting = [0; GREETING.len()];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(greeting, *GREETING);
        let (listeners, streams) = (Vec::new(), Vec::new());
        let nothing = Offer { pid: 1, network, listeners, sets: 0, admin: false, streams };
        send(stream, &nothing).unwrap();
    }

    fn confirm(claim: Claim) -> io::Result<bool> {
        claim.confirm(Clock::start(), mpsc::unbounded_channel().0).map(|predecessor| predecessor.is_some())
    }

    #[test]
    fn a_killed_process_is_no_predecessor() {
        let at_once = |listener: UnixListener, stream: UnixStream| {
            drop(listener);
            drop(stream);
        };
        assert!(meet("at-once", at_once, |claim| claim.unwrap().is_none()));
        let later = |listener: UnixListener, mut stream: UnixStream| {
            offer(&mut stream);
            drop(listener);
            drop(stream);
        };
        assert!(!meet("later", later, |claim| confirm(claim.unwrap().unwrap())).unwrap());
    }

    /// Containers can share a folder but not a network.
    #[test]
    fn a_process_of_another_network_is_no_predecessor() {
        let claim_from = |name: &str, network: Option<u64>| {
            let elsewhere = move |_: UnixListener, mut stream: UnixStream| offer_from(network, &mut stream);
            meet(name, elsewhere, |claim| claim.map(|claim| claim.is_some()))
        };
        let other = network_namespace().map(|own| own + 1);
        let error = claim_from("elsewhere", other).unwrap_err().to_string();
        assert!(error.contains("another network namespace") && error.contains(".sock"), "{error}");
    }

    #[test]
    fn a_process_that_keeps_its_sockets_is_named() {
        let refuses = |listener: UnixListener, stream: UnixStream| {
            drop(stream);
            // The claim checks whether the process still listens.
            let _ = listener.accept();
        };
        let error = meet("refuses", refuses, |claim| claim.map(|_| ())).unwrap_err().to_string();
        assert!(error.contains("does not hand its sockets over") && error.contains(".sock"), "{error}");
        let thinks_better = |listener: UnixListener, mut stream: UnixStream| {
            offer(&mut stream);
            drop(stream);
            let _ = listener.accept();
        };
        let error =
            meet("later-refuses", thinks_better, |claim| confirm(claim.unwrap().unwrap())).unwrap_err();
        assert!(error.to_string().contains("does not hand its sockets over"), "{error}");
    }
}
