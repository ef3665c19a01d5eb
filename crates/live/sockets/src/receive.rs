//! Receiving: `recvmmsg` into buffers that do not move.

use std::io;
use std::net::SocketAddr;
use std::ptr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libc::{cmsghdr, iovec, mmsghdr, timespec};

use super::errors::is_network_error;
use super::slot::{Name, Slot};
use super::{BATCH, UdpSocket};

/// Room for one datagram. The length field of UDP has 16 bits and includes its header of 8 octets (RFC 768), so the
/// longest payload has 65,527 octets and no datagram is truncated.
pub(super) const ROOM: usize = 65_536;

/// Distance between buffers. With a power of two, the first octets of all buffers, which are the ones in use, would
/// compete for the same few cache sets. 17 extra lines of 64 octets spread them over all sets.
pub(super) const STRIDE: usize = ROOM + 17 * 64;

/// Room for [`BATCH`] datagrams, and a vector to the room of each, valid as long as the arena is not resized.
pub(super) fn room() -> (Vec<u8>, impl Iterator<Item = iovec>) {
    // Zeroed memory of this size comes directly from the kernel: it is mapped, not written.
    let mut arena = vec![0_u8; BATCH * STRIDE];
    let base = arena.as_mut_ptr();
    let vector = move |i| iovec { iov_base: base.wrapping_add(i * STRIDE).cast(), iov_len: ROOM };
    (arena, (0..BATCH).map(vector))
}

/// Octets of the control message with the time of a datagram's arrival (`SCM_TIMESTAMPNS`).
// SAFETY: it computes a length, and reads no memory.
const STAMP: usize = unsafe { libc::CMSG_SPACE(size_of::<timespec>() as u32) } as usize;

/// Room for that control message, aligned as its header is.
#[derive(Clone, Copy)]
#[repr(C)]
union Control {
    header: cmsghdr,
    octets: [u8; STAMP],
}

/// Up to [`BATCH`] datagrams from one system call, valid until the next call.
///
/// Takes 4 MiB of address space. Only pages that a datagram has touched take memory: some 256 KiB with datagrams of
/// SIP's usual size.
pub struct ReceiveBatch {
    /// Number of valid entries.
    count: usize,
    /// Time of receipt since 1970, by the clock of the stamps.
    received: Duration,
    // None of the four is ever resized: `headers` points into `slots` and `controls`, and `slots` into `arena`.
    headers: Vec<mmsghdr>,
    slots: Vec<Slot>,
    controls: Vec<Control>,
    arena: Vec<u8>,
}

// SAFETY: the pointers within lead to memory that the same value owns, and nothing of it is tied to a thread.
unsafe impl Send for ReceiveBatch {}

impl ReceiveBatch {
    /// Makes empty buffers.
    pub fn new() -> Self {
        let (arena, vectors) = room();
        let mut slots: Vec<Slot> = vectors.map(|vector| Slot { name: Name::empty(), vector }).collect();
        let mut controls = vec![Control { octets: [0; STAMP] }; BATCH];
        let control = controls.iter_mut().map(|control| (&raw mut *control).cast());
        let headers = slots.iter_mut().zip(control).map(|(slot, control)| {
            let mut header = slot.header();
            (header.msg_hdr.msg_control, header.msg_hdr.msg_controllen) = (control, STAMP);
            header
        });
        let headers = headers.collect();
        Self { count: 0, received: Duration::ZERO, headers, slots, controls, arena }
    }

    /// Replaces the content by the datagrams that wait at `socket`, at most [`BATCH`], without blocking; returns their
    /// number. 0: none waits. [`BATCH`]: there may be more.
    ///
    /// Network errors about earlier datagrams are ignored here; they are in the error queue as well. Other errors mean
    /// a fault of the program or a machine out of memory.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        for header in &mut self.headers[..self.count] {
            // The kernel has reduced both to the lengths that it wrote.
            header.msg_hdr.msg_namelen = Name::SIZE;
            header.msg_hdr.msg_controllen = STAMP;
        }
        self.count = 0;
        loop {
            // SAFETY: each of the `BATCH` headers points to the name and the vector of its own slot, and to `STAMP`
            // octets of `controls`. The vector points to `ROOM` octets of `arena`. No other header or vector shares
            // these octets. All of it lives, unmoved, as long as `self`, which is borrowed mutably.
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
                self.received = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                return Ok(received);
            }
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(0),
                io::ErrorKind::Interrupted => {}
                // A pending network error is reported once, in place of data, and thereby cleared.
                _ if is_network_error(&error) => {}
                _ => return Err(error),
            }
        }
    }

    /// Datagram `i` of the last [`ReceiveBatch::receive`], complete, and its source.
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

    /// Time that datagram `i` of the last [`ReceiveBatch::receive`] had waited in the socket, by the system clock. Zero
    /// from a socket without time stamps ([`UdpSocket::stamp`]).
    ///
    /// # Panics
    /// As [`ReceiveBatch::get`].
    pub fn waited(&self, i: usize) -> Duration {
        let header = &self.headers[..self.count][i].msg_hdr;
        if header.msg_controllen < STAMP {
            return Duration::ZERO;
        }
        // SAFETY: the kernel has written a whole control message of `STAMP` octets, the only one that fits, so that its
        // header is initialised.
        let control = unsafe { &self.controls[i].header };
        if (control.cmsg_level, control.cmsg_type) != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
            return Duration::ZERO;
        }
        // SAFETY: the data of a control message of this type is a `timespec`, which lies within the `STAMP` octets of the
        // union; it is read without the alignment that the header alone promises.
        let stamp = unsafe { libc::CMSG_DATA(control).cast::<timespec>().read_unaligned() };
        let arrived = Duration::new(stamp.tv_sec.max(0) as u64, stamp.tv_nsec as u32);
        self.received.saturating_sub(arrived)
    }

    /// All datagrams of the last [`ReceiveBatch::receive`], in order of arrival.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], SocketAddr)> {
        (0..self.count).map(|i| self.get(i))
    }
}

impl Default for ReceiveBatch {
    fn default() -> Self {
        Self::new()
    }
}
