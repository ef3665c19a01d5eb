//! Captures the messages of any server on this host at its interfaces.
//!
//! - `filter`: selects the packets in the kernel,
//! - `own`: finds the addresses at which a server listens.

mod filter;
mod own;

use sockets::{Packet, PacketBatch, PacketSocket};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

pub(crate) use own::listening;

/// Buffer for packets that are not read yet, in octets: a third of a second of 20,000 calls a second.
const RECEIVE_BUFFER: usize = 64 << 20;

/// Most addresses of a server.
pub(crate) const SERVERS_MAX: usize = filter::MOST;

/// A capture of one thread.
pub(crate) struct Capture {
    socket: PacketSocket,
    batch: PacketBatch,
}

impl Capture {
    /// Captures packets of a server at these addresses, at one interface or at all.
    pub(crate) fn open(
        interface: Option<&str>,
        servers: &[SocketAddr],
        next_ports: &[u16],
    ) -> io::Result<Self> {
        let filter = filter::filter(servers, next_ports);
        let socket = PacketSocket::open(interface, &filter, RECEIVE_BUFFER)?;
        Ok(Self { socket, batch: PacketBatch::new() })
    }

    /// Reads a batch of waiting packets. Returns whether there were any. An interface that goes down is no error,
    /// because it may come back.
    pub(crate) fn read(&mut self, packet: impl FnMut(Packet<'_>)) -> io::Result<bool> {
        match self.batch.receive(&self.socket) {
            Ok(0) => Ok(false),
            Ok(_) => {
                self.batch.iter().for_each(packet);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NetworkDown => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the number of packets that were lost since the last call.
    pub(crate) fn lost(&self) -> io::Result<u64> {
        self.socket.lost_packets()
    }
}

impl AsFd for Capture {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
