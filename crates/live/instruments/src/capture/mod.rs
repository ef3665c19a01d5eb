//! Messages of a server on this host as they pass its interfaces, whatever program it is.
//!
//! - `filter`: the packets that the kernel hands over,
//! - `own`: where a server listens.

mod filter;
mod own;

use sockets::{Packet, PacketBatch, PacketSocket};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

pub(crate) use own::listening;

/// Octets of room for packets that are not yet fetched: of 20,000 calls a second a third of a second.
const RECEIVE_BUFFER: usize = 64 << 20;

/// Most addresses of a server.
pub(crate) const SERVERS_MAX: usize = filter::MOST;

/// A capture of one thread.
pub(crate) struct Capture {
    socket: PacketSocket,
    batch: PacketBatch,
}

impl Capture {
    /// Of a server at these addresses, at one interface or at all.
    pub(crate) fn open(
        interface: Option<&str>,
        servers: &[SocketAddr],
        next_ports: &[u16],
    ) -> io::Result<Self> {
        let filter = filter::filter(servers, next_ports);
        let socket = PacketSocket::open(interface, &filter, RECEIVE_BUFFER)?;
        Ok(Self { socket, batch: PacketBatch::new() })
    }

    /// Passes on a batch of packets that wait; says whether there were any. An interface that goes down is no error:
    /// it may come back.
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

    /// Packets that were lost since this was asked last.
    pub(crate) fn lost(&self) -> io::Result<u64> {
        self.socket.lost_packets()
    }
}

impl AsFd for Capture {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
