//! UDP in batches, and packet capture in batches ([`PacketSocket`]): the only crate of the program with `unsafe`. Also
//! [`Waker`], which wakes a thread that waits for its sockets.
//!
//! A shard owns one [`UdpSocket`], one [`ReceiveBatch`] and one [`SendBatch`]. Each time the socket is readable, it
//!
//! 1. drains the error queue ([`read_errors`]) if `poll` says `POLLERR`: ICMP errors about earlier datagrams,
//! 2. calls [`ReceiveBatch::receive`] and handles each datagram in place,
//! 3. writes its messages into one byte arena and passes all of it to [`SendBatch::send`].
//!
//! Two system calls then carry up to [`BATCH`] datagrams each way, nothing is allocated, and datagrams are read in
//! place in the receive buffer. The standard library has no batched calls and no error queue, hence this crate.
//! Everything else (`poll`, socket options) uses the safe wrappers of `rustix` and `socket2`.
#![allow(
    unsafe_code,
    reason = "recvmmsg, sendmmsg, the error queue, getifaddrs, packet sockets and BPF programs have no safe wrapper"
)]

mod errors;
mod interfaces;
mod listen;
mod packet;
mod receive;
mod send;
mod slot;
mod udp;
mod wake;

#[cfg(test)]
mod tests;

pub use errors::read_errors;
pub use interfaces::{local_addresses, source_address_for};
pub use listen::cannot_listen;
pub use packet::{Packet, PacketBatch, PacketSocket};
pub use receive::ReceiveBatch;
pub use send::{SendBatch, SendReport};
pub use socket2::SockFilter;
pub use udp::{UdpSocket, attach_program};
pub use wake::Waker;

/// Datagrams per system call, in each direction.
///
/// A system call costs some 100-200 ns before the first datagram: over 64 of them that is 2-3 ns each, so a larger
/// batch gains nothing. The limit also bounds the work of one wake-up, and so the delay of its first response.
pub const BATCH: usize = 64;
