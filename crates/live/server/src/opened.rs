//! The sockets of a process: taken over from the predecessor, or newly opened.

use crate::capacity;
use crate::start_error::StartError;
use crate::takeover::claim::Claim;
use base::Peer;
use config::Config;
use node::{Port, Ports};
use route::Network;
use shards::MOST_SOCKETS;
use shards::listen::{RECEIVE_BUFFER, datagram_ports, listener_of, open, open_one};
use sockets::{UdpSocket, cannot_listen};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use streams::StreamListener;
use streams::listen;
use tokio::net::TcpListener;

pub(crate) struct Opened {
    /// Addresses of the sockets of one set.
    pub(crate) listeners: Vec<SocketAddr>,
    /// By thread; each has one or more sets.
    pub(crate) sockets: Vec<Vec<UdpSocket>>,
    /// By thread; each has at least one listener for each port with connections.
    pub(crate) streams: Vec<Vec<StreamListener>>,
    pub(crate) admin: Option<TcpListener>,
    /// Listener for capacity updates; also `None` while the predecessor has the address.
    pub(crate) capacity: Option<TcpListener>,
    pub(crate) claim: Option<Claim>,
}

impl Opened {
    pub(crate) fn new(
        config: &Config,
        ports: &Ports,
        threads: usize,
        mut claim: Option<Claim>,
    ) -> Result<Self, StartError> {
        let taken = claim.as_mut().and_then(|claim| claim.admin.take());
        let admin = admin(config.admin.listen, taken)?;
        let capacity = capacity(config, claim.is_some())?;
        let sockets = match &mut claim {
            None => open_all(ports, threads)?,
            Some(claim) => adopt(std::mem::take(&mut claim.sets), ports, threads)?,
        };
        if let Some(granted) = sockets.iter().flatten().find_map(|socket| socket.receive_buffer().ok())
            && let Some(text) = too_small(granted)
        {
            tracing::warn!("{text}");
        }
        let taken = claim.as_mut().map(|claim| std::mem::take(&mut claim.streams)).unwrap_or_default();
        let streams = streams(config, ports, threads, taken)?;
        let listeners = datagram_ports(ports).map(|port| port.local).collect();
        Ok(Self { listeners, sockets, streams, admin, capacity, claim })
    }

    /// Returns copies of all listening sockets of connections, each with its port.
    pub(crate) fn stream_copies(&self, ports: &Ports) -> io::Result<Vec<(Peer, OwnedFd)>> {
        let all = self.streams.iter().flatten();
        all.map(|listener| {
            let copy = listener.socket.try_clone().map(OwnedFd::from)?;
            Ok((Peer::new(listener.transport, ports[listener.port].local), copy))
        })
        .collect()
    }

    /// Returns copies of all datagram sockets, by sets. The sets have the order in which they were bound, so that the
    /// first sets belong to the threads in their order at a successor, too ([`shards::steer`]).
    pub(crate) fn copies(&self) -> io::Result<Vec<Vec<OwnedFd>>> {
        // There may be no listener for datagrams at all.
        let size = self.listeners.len().max(1);
        let rounds = 0..self.sockets.iter().map(|sockets| sockets.len() / size).max().unwrap_or_default();
        let sets =
            rounds.flat_map(|round| self.sockets.iter().filter_map(move |of| of.chunks(size).nth(round)));
        sets.map(|set| set.iter().map(UdpSocket::copy).collect()).collect()
    }
}

/// Returns a warning if the kernel has granted a smaller receive buffer than requested.
fn too_small(granted: usize) -> Option<String> {
    (granted < RECEIVE_BUFFER).then(|| {
        let (granted, asked) = (granted >> 10, RECEIVE_BUFFER >> 10);
        format!(
            "the kernel grants a receive buffer of {granted} KiB, not of {asked} KiB: datagrams are lost in a burst. \
             Set \
             net.core.rmem_max = {RECEIVE_BUFFER} (packaging/90-sarabande.conf goes to /etc/sysctl.d; then `sysctl --system`) and restart"
        )
    })
}

/// Returns the predecessor's listener if it has this address, otherwise a new one.
fn admin(
    address: Option<SocketAddr>,
    taken: Option<std::net::TcpListener>,
) -> Result<Option<TcpListener>, StartError> {
    let Some(address) = address else { return Ok(None) };
    let taken = taken.filter(|taken| taken.local_addr().is_ok_and(|local| local == address));
    let advice = "`ss -ltnp` shows the process that has it; otherwise set [admin] listen";
    let listener = taken.map_or_else(|| std::net::TcpListener::bind(address), Ok);
    let listener = listener.and_then(|listener| {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    });
    listener.map(Some).map_err(|error| StartError::Admin(cannot_listen(address, &error, advice)))
}

/// Returns the listener for capacity updates. A predecessor closes its listener after the takeover, and monitors
/// connect again.
fn capacity(config: &Config, has_predecessor: bool) -> Result<Option<TcpListener>, StartError> {
    let Some(capacity) = &config.capacity else { return Ok(None) };
    match capacity::bind(capacity.listen) {
        Err(error) if has_predecessor && error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        listener => listener.map(Some).map_err(StartError::Capacity),
    }
}

/// Opens a set of sockets for each thread. The kernel distributes datagrams over the sockets of an address, so all are
/// bound before any thread reads, in the order of the threads. A first socket without `SO_REUSEPORT` ensures that no
/// other process has the address.
fn open_all(ports: &Ports, threads: usize) -> io::Result<Vec<Vec<UdpSocket>>> {
    drop(open(ports, false)?);
    // `SO_REUSEPORT` is set even for one thread, since a successor may have more threads.
    (0..threads).map(|_| open(ports, true)).collect()
}

/// Returns the listening sockets of each thread, taken over or new. The kernel distributes connections over the sockets
/// of an address.
fn streams(
    config: &Config,
    ports: &Ports,
    threads: usize,
    mut taken: Vec<(Peer, std::net::TcpListener)>,
) -> Result<Vec<Vec<StreamListener>>, StartError> {
    let mut of_threads: Vec<Vec<StreamListener>> = (0..threads).map(|_| Vec::new()).collect();
    let ports = (0..).zip(ports.iter()).filter(|(_, port)| port.transport.is_reliable());
    for (index, port) in ports {
        let proxies = proxies(config, port);
        let is_it = |(at, _): &mut (Peer, _)| *at == Peer::new(port.transport, port.local);
        let before: Vec<_> = taken.extract_if(.., is_it).map(|(_, socket)| socket).collect();
        if before.is_empty() {
            // A first socket without `SO_REUSEPORT` ensures that no other process has the address.
            drop(open_stream(port, false)?);
        }
        let missing = threads.saturating_sub(before.len());
        let new = (0..missing).map(|_| open_stream(port, true));
        for (at, socket) in before.into_iter().map(Ok).chain(new).enumerate() {
            let listener = StreamListener::new(index, port.transport, socket?, proxies.clone());
            of_threads[at % threads].push(listener);
        }
    }
    Ok(of_threads)
}

fn open_stream(port: &Port, reuse_port: bool) -> io::Result<std::net::TcpListener> {
    listen(port.local, reuse_port).map_err(|error| {
        let taken = "`ss -ltnp` shows the process that has it";
        cannot_listen(port.local, &error, taken)
    })
}

/// Returns the networks of the load balancers in front of a port.
fn proxies(config: &Config, port: &Port) -> Vec<Network> {
    let listeners = &config.listen.listeners;
    let index = listener_of(listeners, port);
    index.map(|index| listeners[index].proxy_protocol.clone()).unwrap_or_default()
}

/// Distributes the sets of a predecessor, which may have had more or fewer threads. Every socket must be read, since
/// the kernel continues to distribute datagrams over all of them. As in [`open_all`], the first socket of an address
/// belongs to the first thread, and so on.
fn adopt(
    sets: Vec<Vec<Option<UdpSocket>>>,
    ports: &Ports,
    threads: usize,
) -> io::Result<Vec<Vec<UdpSocket>>> {
    let most = sets.len().div_ceil(threads) * datagram_ports(ports).count();
    if most > MOST_SOCKETS {
        let text = format!(
            "the predecessor has {} threads, and a thread of this process would have to read {most} of its sockets: \
             set [listen] \
             threads at least as high as there, or stop the predecessor first",
            sets.len()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let mut of_threads: Vec<Vec<UdpSocket>> = (0..threads).map(|_| Vec::new()).collect();
    for (index, set) in sets.into_iter().enumerate() {
        for (socket, port) in set.into_iter().zip(datagram_ports(ports)) {
            let socket = match socket {
                Some(socket) => socket,
                None => open_one(port, true)?,
            };
            of_threads[index % threads].push(socket);
        }
    }
    for sockets in of_threads.iter_mut().filter(|sockets| sockets.is_empty()) {
        *sockets = open(ports, true)?;
    }
    Ok(of_threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_receive_buffer_is_reported_with_its_remedy() {
        assert_eq!(too_small(4 << 20), None);
        let text = too_small(208 << 10).expect("less is granted");
        assert!(text.contains("grants a receive buffer of 208 KiB, not of 4096 KiB"), "{text}");
        assert!(text.contains("net.core.rmem_max = 4194304"), "{text}");
    }
}
