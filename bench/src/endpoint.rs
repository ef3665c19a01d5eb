//! A socket of the driver with its send queue.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sockets::{SendBatch, UdpSocket, read_errors};

/// Receive buffer of each socket: room for over a second of a run's traffic, so that the driver loses no datagram.
const RECEIVE_BUFFER: usize = 16 << 20;

/// Waits at most this many nanoseconds, less than a second. Returns which endpoints have received a datagram. ICMP
/// errors of earlier datagrams are read and dropped, since pending ones would end every wait at once.
pub fn wait_for<'a>(
    endpoints: impl Iterator<Item = &'a Endpoint>,
    nanoseconds: u64,
) -> io::Result<Vec<bool>> {
    let endpoints: Vec<&Endpoint> = endpoints.collect();
    let mut polled: Vec<PollFd<'_>> = endpoints
        .iter()
        .map(|endpoint| PollFd::from_borrowed_fd(endpoint.socket.as_fd(), PollFlags::IN))
        .collect();
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: nanoseconds.cast_signed() }))?;
    let seen: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
    for (endpoint, _) in endpoints.iter().zip(&seen).filter(|(_, flags)| flags.contains(PollFlags::ERR)) {
        read_errors(&endpoint.socket, |_, _, _| {})?;
    }
    Ok(seen.iter().map(|flags| flags.contains(PollFlags::IN)).collect())
}

/// A loopback socket with a send queue.
pub struct Endpoint {
    /// The socket.
    pub socket: UdpSocket,
    /// Its address.
    pub address: SocketAddr,
    arena: Vec<u8>,
    queue: Vec<(Range<usize>, SocketAddr)>,
}

impl Endpoint {
    /// Binds a port chosen by the kernel.
    pub fn bind() -> io::Result<Self> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let socket = UdpSocket::bind(any, false, RECEIVE_BUFFER)?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address, arena: Vec::new(), queue: Vec::new() })
    }

    /// Queues the message that `write` appends.
    pub fn send(&mut self, to: SocketAddr, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.arena.len();
        write(&mut self.arena);
        self.queue.push((start..self.arena.len(), to));
    }

    /// Sends the queue.
    pub fn flush(&mut self, batch: &mut SendBatch) {
        if !self.queue.is_empty() {
            // A datagram that the kernel refuses shows up as a failed call.
            batch.send(&self.socket, &self.arena, self.queue.drain(..));
            self.arena.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_unreachable_error_ends_one_wait_only() {
        let mut endpoint = Endpoint::bind().expect("loopback");
        let closed = Endpoint::bind().expect("loopback").address;
        endpoint.send(closed, |out| out.extend_from_slice(b"x"));
        endpoint.flush(&mut SendBatch::new());
        let wait = || wait_for([&endpoint].into_iter(), 200_000_000).expect("it waits");
        assert_eq!(wait(), [false], "the report has come before the system call that sent ended");
        let mut polled = [PollFd::from_borrowed_fd(endpoint.socket.as_fd(), PollFlags::IN)];
        let count = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("it looks");
        assert_eq!(count, 0, "{:?}", polled[0].revents());
    }
}
