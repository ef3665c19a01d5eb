//! Sending with `sendmmsg`, without copying the octets.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr;

use libc::{iovec, mmsghdr};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::errors::is_network_error;
use super::slot::{Name, Slot};
use super::{BATCH, UdpSocket};

/// Longest wait for room in a full send buffer: at most once for each [`SendBatch::send`], since nothing is received
/// meanwhile. One millisecond drains 1 Mbit of a 1 Gbit/s link, some 150 datagrams. Retransmissions of the peers repair
/// losses in a longer congestion.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Attempts to send one message while network errors about others are pending: each failed attempt clears one error.
const TRIES: u32 = 3;

/// Result of one [`SendBatch::send`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendReport {
    /// Number of messages that the kernel accepted.
    pub sent: usize,
    /// Number of messages that the kernel refused: no room, no route, not permitted, too long, or another address
    /// family.
    pub dropped: usize,
}

/// Message headers for [`BATCH`] datagrams, reused by each call.
pub struct SendBatch {
    // Never resized: `headers` points into `slots`.
    headers: Vec<mmsghdr>,
    slots: Vec<Slot>,
}

// SAFETY: the pointers within lead to memory that the same value owns, or to octets of an earlier call. The latter
// pointers are overwritten before they are used again. Nothing of the value is tied to a thread.
unsafe impl Send for SendBatch {}

impl SendBatch {
    /// Makes unused headers.
    pub fn new() -> Self {
        let nothing =
            || Slot { name: Name::empty(), vector: iovec { iov_base: ptr::null_mut(), iov_len: 0 } };
        let mut slots: Vec<Slot> = (0..BATCH).map(|_| nothing()).collect();
        let headers = slots.iter_mut().map(Slot::header).collect();
        Self { headers, slots }
    }

    /// Calls [`SendBatch::send_each`] for messages in one `arena`, each a range of it with its destination.
    ///
    /// # Panics
    /// If a range does not lie within `arena`.
    pub fn send(
        &mut self,
        socket: &UdpSocket,
        arena: &[u8],
        messages: impl IntoIterator<Item = (Range<usize>, SocketAddr)>,
    ) -> SendReport {
        self.send_each(socket, messages.into_iter().map(|(range, to)| (&arena[range], to)))
    }

    /// Sends any number of messages to their destinations, in the given order. A message that the kernel refuses is
    /// counted and does not delay the others. Blocks for a millisecond at most.
    pub fn send_each<'a>(
        &mut self,
        socket: &UdpSocket,
        messages: impl IntoIterator<Item = (&'a [u8], SocketAddr)>,
    ) -> SendReport {
        let mut sending = Sending { socket, report: SendReport::default(), waited: false };
        let mut count = 0;
        for (octets, to) in messages {
            let slot = &mut self.slots[count];
            // The kernel only reads what it sends; the field is not const because receiving shares the type.
            slot.vector = iovec { iov_base: octets.as_ptr().cast_mut().cast(), iov_len: octets.len() };
            self.headers[count].msg_hdr.msg_namelen = slot.name.write(to);
            count += 1;
            if count == BATCH {
                // SAFETY: all the headers have just been set, to octets that live through this function.
                unsafe { sending.send_all(&mut self.headers) };
                count = 0;
            }
        }
        // SAFETY: the first `count` headers have just been set, to octets that live through this function.
        unsafe { sending.send_all(&mut self.headers[..count]) };
        sending.report
    }
}

impl Default for SendBatch {
    fn default() -> Self {
        Self::new()
    }
}

/// A call of [`SendBatch::send`] in progress.
struct Sending<'a> {
    socket: &'a UdpSocket,
    report: SendReport,
    /// Whether the one wait for room was used.
    waited: bool,
}

impl Sending<'_> {
    /// Sends `headers`, or drops them one at a time.
    ///
    /// # Safety
    /// Each header must point to a slot that holds an address, and to octets, all of them alive.
    unsafe fn send_all(&mut self, headers: &mut [mmsghdr]) {
        let mut done = 0;
        let mut tries = 0;
        while done < headers.len() {
            let rest = &mut headers[done..];
            // SAFETY: the data that the headers point to are alive, by the contract of this function; the kernel reads
            // them and writes only `msg_len` of the headers, which are borrowed mutably.
            let sent = unsafe {
                libc::sendmmsg(
                    self.socket.raw(),
                    rest.as_mut_ptr(),
                    rest.len() as libc::c_uint,
                    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                )
            };
            if let Ok(sent) = usize::try_from(sent) {
                // Fewer than requested: the next message failed, and the next call returns the error.
                done += sent;
                self.report.sent += sent;
                tries = 0;
                continue;
            }
            tries += 1;
            if !self.worth_another_try(&io::Error::last_os_error(), tries) {
                self.report.dropped += 1;
                done += 1;
                tries = 0;
            }
        }
    }

    /// Whether the first unsent message may pass now, after `tries` failed attempts.
    fn worth_another_try(&mut self, error: &io::Error, tries: u32) -> bool {
        match error.kind() {
            io::ErrorKind::Interrupted => true,
            io::ErrorKind::WouldBlock if !self.waited => {
                self.waited = true;
                let mut room = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::OUT)];
                // The next attempt shows whether there is room, whatever this returns.
                let _ = poll(&mut room, Some(&PATIENCE));
                true
            }
            // An ICMP error about an earlier datagram, possibly to another destination: reported once, in place of
            // sending this one. If this destination itself fails, the attempts run out.
            _ => is_network_error(error) && tries < TRIES,
        }
    }
}
