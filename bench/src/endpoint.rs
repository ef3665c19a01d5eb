//! One socket of the driver and what waits to be sent from it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use server::socket::{SendBatch, UdpSocket};

/// Receive buffer of each socket: room for over a second of the traffic of a run, so that the driver loses nothing.
const RECEIVE_BUFFER: usize = 16 << 20;

/// Waits so many nanoseconds at most, less than a second; which of these have received anything.
pub fn wait_for<'a>(
    endpoints: impl Iterator<Item = &'a Endpoint>,
    nanoseconds: u64,
) -> io::Result<Vec<bool>> {
    let mut polled: Vec<PollFd<'_>> =
        endpoints.map(|endpoint| PollFd::from_borrowed_fd(endpoint.socket.as_fd(), PollFlags::IN)).collect();
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: nanoseconds.cast_signed() }))?;
    Ok(polled.iter().map(|fd| fd.revents().contains(PollFlags::IN)).collect())
}

/// A loopback socket with an outgoing queue.
pub struct Endpoint {
    /// The socket.
    pub socket: UdpSocket,
    /// Its address.
    pub address: SocketAddr,
    arena: Vec<u8>,
    queue: Vec<(Range<usize>, SocketAddr)>,
}

impl Endpoint {
    /// Binds a port that the kernel picks.
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

    /// Hands the queue to the kernel.
    pub fn flush(&mut self, batch: &mut SendBatch) {
        if !self.queue.is_empty() {
            // What the kernel refuses shows up as a call that does not complete.
            batch.send(&self.socket, &self.arena, self.queue.drain(..));
            self.arena.clear();
        }
    }
}
