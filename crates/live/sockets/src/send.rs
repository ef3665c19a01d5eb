//! The send side: `sendmmsg` of octets that stay where they are.

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

/// Longest wait for room in a full send buffer: at most once a [`SendBatch::send`], since meanwhile nothing is
/// received. One millisecond drains 1 Mbit of a 1 Gbit/s link, some 150 datagrams; a longer jam is for the peers'
/// retransmissions to repair.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Tries of one message while network errors about others stand in its way: each failing try clears one.
const TRIES: u32 = 3;

/// Outcome for the messages of one [`SendBatch::send`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendReport {
    /// Taken by the kernel.
    pub sent: usize,
    /// Refused by it: no room, no route, not permitted, too long, another family than the socket's.
    pub dropped: usize,
}

/// Message headers for [`BATCH`] datagrams, used over and over.
pub struct SendBatch {
    // Never resized: `headers` points into `slots`.
    headers: Vec<mmsghdr>,
    slots: Vec<Slot>,
}

// SAFETY: the pointers within lead to memory that the same value owns, or to octets of an earlier call, and those are
// overwritten before they are used again; nothing of it is tied to a thread.
unsafe impl Send for SendBatch {}

impl SendBatch {
    /// Unused headers.
    pub fn new() -> Self {
        let nothing =
            || Slot { name: Name::empty(), vector: iovec { iov_base: ptr::null_mut(), iov_len: 0 } };
        let mut slots: Vec<Slot> = (0..BATCH).map(|_| nothing()).collect();
        let headers = slots.iter_mut().map(Slot::header).collect();
        Self { headers, slots }
    }

    /// [`SendBatch::send_each`] of messages that lie in one `arena`, each a range of it and where it goes.
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

    /// Sends each message to where it goes, in the order given; any number of them. A message that the kernel
    /// refuses is counted and does not keep the others back. Blocks for a millisecond at most.
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

/// One call of [`SendBatch::send`] under way.
struct Sending<'a> {
    socket: &'a UdpSocket,
    report: SendReport,
    /// The one wait for room is used up.
    waited: bool,
}

impl Sending<'_> {
    /// Sends `headers`, or drops them one at a time.
    ///
    /// # Safety
    /// Each must point to a slot that holds an address and to octets, all of them alive.
    unsafe fn send_all(&mut self, headers: &mut [mmsghdr]) {
        let mut done = 0;
        let mut tries = 0;
        while done < headers.len() {
            let rest = &mut headers[done..];
            // SAFETY: what the headers point to is alive, by the contract of this function; the kernel reads it and
            // writes only `msg_len` of the headers, which are borrowed mutably.
            let sent = unsafe {
                libc::sendmmsg(
                    self.socket.raw(),
                    rest.as_mut_ptr(),
                    rest.len() as libc::c_uint,
                    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                )
            };
            if let Ok(sent) = usize::try_from(sent) {
                // Fewer than asked for: the next one failed, and the next call says why.
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

    /// Whether the first message not yet sent may pass now, after it has failed `tries` times.
    fn worth_another_try(&mut self, error: &io::Error, tries: u32) -> bool {
        match error.kind() {
            io::ErrorKind::Interrupted => true,
            io::ErrorKind::WouldBlock if !self.waited => {
                self.waited = true;
                let mut room = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::OUT)];
                // Whether there is room shows at the next try, whatever this returns.
                let _ = poll(&mut room, Some(&PATIENCE));
                true
            }
            // The answer of ICMP to a datagram sent earlier, perhaps to somebody else: reported once, in place of
            // sending this one. Where this one's own route fails the same way, the tries run out.
            _ => is_network_error(error) && tries < TRIES,
        }
    }
}
