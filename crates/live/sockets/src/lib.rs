//! UDP by the batch, and packets by the batch ([`PacketSocket`]): the only crate of the program that holds `unsafe`.
//! Beside them [`Waker`], which wakes a thread that waits for its sockets.
//!
//! A shard owns one [`UdpSocket`], one [`ReceiveBatch`] and one [`SendBatch`] and, each time the socket is readable,
//!
//! 1. drains the error queue ([`read_errors`]) when `poll` says `POLLERR`: ICMP answers to what it sent before,
//! 2. calls [`ReceiveBatch::receive`] and looks at each datagram in place,
//! 3. writes what it has to send into one byte arena and hands all of it to [`SendBatch::send`].
//!
//! Two system calls then carry up to [`BATCH`] datagrams each way, nothing is allocated, and datagrams are read in
//! place in the receive buffer. The standard library has no batched calls and no error queue, hence this crate;
//! everything else (`poll`, socket options) goes through the safe wrappers of `rustix` and `socket2`.
#![allow(
    unsafe_code,
    reason = "recvmmsg, sendmmsg, the error queue, getifaddrs and packet sockets have no safe wrapper"
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
pub use udp::UdpSocket;
pub use wake::Waker;

/// Datagrams per system call, in each direction.
///
/// A call to the kernel costs some 100-200 ns before the first datagram: over 64 of them that is 2-3 ns each, and
/// nothing more is to be won. It also bounds the work, and so the delay of the first answer, of one wake-up.
pub const BATCH: usize = 64;
