//! The sockets of a process: those of the process before, if it hands them over, and new ones.

use crate::capacity;
use crate::shards::MOST_SOCKETS;
use crate::shards::listen::{cannot_listen, open, open_one};
use crate::socket::UdpSocket;
use crate::start_error::StartError;
use crate::takeover::claim::Claim;
use config::Config;
use node::Ports;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use tokio::net::TcpListener;

pub(crate) struct Opened {
    /// The addresses of a set of sockets.
    pub(crate) listeners: Vec<SocketAddr>,
    /// Of each thread, one set or more.
    pub(crate) sockets: Vec<Vec<UdpSocket>>,
    pub(crate) admin: Option<TcpListener>,
    /// Of updates of capacity; `None` as well where the process before still has the address.
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
        let buffer = config.listen.receive_buffer;
        let sockets = match &mut claim {
            None => open_all(ports, threads, buffer)?,
            Some(claim) => adopt(std::mem::take(&mut claim.sets), ports, threads, buffer)?,
        };
        if let Some(granted) = sockets.iter().flatten().find_map(|socket| socket.receive_buffer().ok())
            && let Some(text) = too_small(granted, buffer)
        {
            tracing::warn!("{text}");
        }
        let listeners = ports.iter().map(|port| port.local).collect();
        Ok(Self { listeners, sockets, admin, capacity, claim })
    }

    /// Copies of all sockets, by sets.
    pub(crate) fn copies(&self) -> io::Result<Vec<Vec<OwnedFd>>> {
        let sets = self.sockets.iter().flat_map(|sockets| sockets.chunks(self.listeners.len()));
        sets.map(|set| set.iter().map(UdpSocket::copy).collect()).collect()
    }
}

/// What is said where the kernel has granted less room for datagrams than the configuration asks for.
fn too_small(granted: usize, wanted: usize) -> Option<String> {
    (granted < wanted).then(|| {
        let (granted, asked) = (granted >> 10, wanted >> 10);
        format!(
            "[listen] receive_buffer: the kernel grants {granted} KiB of {asked} KiB: in a burst datagrams are lost. Set \
             net.core.rmem_max = {wanted} (packaging/90-sarabande.conf goes to /etc/sysctl.d; then `sysctl --system`) and restart"
        )
    })
}

/// The listener of the process before, if it listens there, or else a new one.
fn admin(
    address: Option<SocketAddr>,
    taken: Option<std::net::TcpListener>,
) -> Result<Option<TcpListener>, StartError> {
    let Some(address) = address else { return Ok(None) };
    let taken = taken.filter(|taken| taken.local_addr().is_ok_and(|local| local == address));
    let advice = "does it run already? `ss -ltnp` tells; otherwise set [admin] listen";
    let listener = taken.map_or_else(|| std::net::TcpListener::bind(address), Ok);
    let listener = listener.and_then(|listener| {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    });
    listener.map(Some).map_err(|error| StartError::Admin(cannot_listen(address, &error, advice)))
}

/// The listener of updates of capacity. A process before leaves it once its sockets are taken over: monitors connect
/// again.
fn capacity(config: &Config, has_predecessor: bool) -> Result<Option<TcpListener>, StartError> {
    let Some(capacity) = &config.capacity else { return Ok(None) };
    match capacity::bind(capacity.listen) {
        Err(error) if has_predecessor && error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        listener => listener.map(Some).map_err(StartError::Capacity),
    }
}

/// A set of sockets for each thread. The kernel spreads datagrams over the sockets of an address; all are bound
/// before any thread reads, and a first one without `SO_REUSEPORT` makes sure that no other process has the address.
fn open_all(ports: &Ports, threads: usize, buffer: usize) -> io::Result<Vec<Vec<UdpSocket>>> {
    drop(open(ports, false, buffer)?);
    // With it, even where there is only one: a process that takes over may have more threads.
    (0..threads).map(|_| open(ports, true, buffer)).collect()
}

/// The sets of another process, which had more or fewer threads. None may be left unread: the kernel goes on to
/// spread datagrams over them.
fn adopt(
    sets: Vec<Vec<Option<UdpSocket>>>,
    ports: &Ports,
    threads: usize,
    buffer: usize,
) -> io::Result<Vec<Vec<UdpSocket>>> {
    let most = sets.len().div_ceil(threads) * ports.len();
    if most > MOST_SOCKETS {
        let text = format!(
            "the process before has {} threads, and one of ours would have to read {most} of its sockets: set [listen] \
             threads no lower than there, or stop it first",
            sets.len()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let mut of_threads: Vec<Vec<UdpSocket>> = (0..threads).map(|_| Vec::new()).collect();
    for (index, set) in sets.into_iter().enumerate() {
        for (socket, port) in set.into_iter().zip(ports.iter()) {
            let socket = match socket {
                Some(socket) => socket,
                None => open_one(port, true, buffer)?,
            };
            of_threads[index % threads].push(socket);
        }
    }
    for sockets in of_threads.iter_mut().filter(|sockets| sockets.is_empty()) {
        *sockets = open(ports, true, buffer)?;
    }
    Ok(of_threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_room_than_asked_for_is_told_with_its_remedy() {
        assert_eq!(too_small(4 << 20, 4 << 20), None);
        let text = too_small(208 << 10, 4 << 20).expect("less is granted");
        assert!(text.contains("grants 208 KiB of 4096 KiB"), "{text}");
        assert!(text.contains("net.core.rmem_max = 4194304"), "{text}");
    }
}
