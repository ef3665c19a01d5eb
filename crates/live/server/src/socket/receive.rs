//! The receive side: `recvmmsg` into buffers that stay where they are.

use std::io;
use std::net::SocketAddr;
use std::ptr;

use libc::{iovec, mmsghdr};

use super::errors::is_network_error;
use super::slot::{Name, Slot};
use super::{BATCH, UdpSocket};

/// Room for one datagram. The length field of UDP counts 16 bits and its own header of 8 octets (RFC 768), so 65,527
/// octets of payload are the most there can be, and none is ever cut.
pub(super) const ROOM: usize = 65_536;

/// Distance from one buffer to the next. Were it a power of two, the first octets of all the buffers, which are the
/// ones that are used, would compete for the same few cache sets; 17 lines of 64 octets more spread them over all.
pub(super) const STRIDE: usize = ROOM + 17 * 64;

/// Room for [`BATCH`] datagrams, and a vector to the room of each, which is good as long as the arena is not resized.
pub(super) fn room() -> (Vec<u8>, impl Iterator<Item = iovec>) {
    // Zeroed memory of this size comes fresh from the kernel: it is mapped, not written.
    let mut arena = vec![0_u8; BATCH * STRIDE];
    let base = arena.as_mut_ptr();
    let vector = move |i| iovec { iov_base: base.wrapping_add(i * STRIDE).cast(), iov_len: ROOM };
    (arena, (0..BATCH).map(vector))
}

/// Up to [`BATCH`] datagrams as one system call delivered them, valid until the next.
///
/// Takes 4 MiB of address space, of which only pages that a datagram has touched are ever backed by memory: some
/// 256 KiB where datagrams are of SIP's usual size.
pub struct ReceiveBatch {
    /// Number of valid entries.
    count: usize,
    // None of the three is ever resized: `headers` points into `slots`, and they into `arena`.
    headers: Vec<mmsghdr>,
    slots: Vec<Slot>,
    arena: Vec<u8>,
}

// SAFETY: the pointers within lead to memory that the same value owns, and nothing of it is tied to a thread.
unsafe impl Send for ReceiveBatch {}

impl ReceiveBatch {
    /// Empty buffers.
    pub fn new() -> Self {
        let (arena, vectors) = room();
        let mut slots: Vec<Slot> = vectors.map(|vector| Slot { name: Name::empty(), vector }).collect();
        let headers = slots.iter_mut().map(Slot::header).collect();
        Self { count: 0, headers, slots, arena }
    }

    /// Replaces the content by the datagrams that wait at `socket`, at most [`BATCH`], without blocking; returns how
    /// many. 0: none waits. [`BATCH`]: there may be more.
    ///
    /// Errors that the network reported for datagrams sent earlier are passed over here; they are on the error
    /// queue as well. What is left is a fault of the program or a machine out of memory.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        for header in &mut self.headers[..self.count] {
            // The kernel reduced it to the length of the address that it wrote.
            header.msg_hdr.msg_namelen = Name::SIZE;
        }
        self.count = 0;
        loop {
            // SAFETY: each of the `BATCH` headers points to the name and the vector of a slot of its own, and the
            // vector to `ROOM` octets of `arena` that no other shares; all of it lives, unmoved, as long as `self`,
            // which is borrowed mutably.
            let received = unsafe {
                libc::recvmmsg(
                    socket.raw(),
                    self.headers.as_mut_ptr(),
                    BATCH as libc::c_uint,
                    libc::MSG_DONTWAIT,
                    ptr::null_mut(),
                )
            };
            if let Ok(received) = usize::try_from(received) {
                self.count = received;
                return Ok(received);
            }
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(0),
                io::ErrorKind::Interrupted => {}
                // A pending network error is reported once, in place of data, and cleared by that.
                _ if is_network_error(&error) => {}
                _ => return Err(error),
            }
        }
    }

    /// Datagram `i` of the last [`ReceiveBatch::receive`], whole, and where it came from.
    ///
    /// # Panics
    /// If `i` is not below the number that `receive` returned.
    pub fn get(&self, i: usize) -> (&[u8], SocketAddr) {
        let header = &self.headers[..self.count][i];
        let length = (header.msg_len as usize).min(ROOM);
        let datagram = &self.arena[i * STRIDE..i * STRIDE + length];
        let from = self.slots[i].name.read().expect("a UDP socket is of one of the two families");
        (datagram, from)
    }

    /// All datagrams of the last [`ReceiveBatch::receive`], in the order of their arrival.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], SocketAddr)> {
        (0..self.count).map(|i| self.get(i))
    }
}

impl Default for ReceiveBatch {
    fn default() -> Self {
        Self::new()
    }
}
