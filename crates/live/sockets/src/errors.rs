//! ICMP errors about datagrams sent earlier (RFC 1122 §4.1.3.3, RFC 4443 §2.4).

use std::io;
use std::net::SocketAddr;
use std::ptr;

use libc::{c_int, c_void, cmsghdr, iovec, msghdr, sock_extended_err};

use super::slot::{Name, Slot};
use super::{BATCH, UdpSocket};

/// Room for the control message: its header, the error, and the address of the router that reported it.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 128]);

/// The kept part of a datagram that failed: its first header lines. ICMP sends back some hundred bytes at most.
const QUOTED: usize = 1024;

/// Takes at most [`BATCH`] entries from the error queue of `socket`. Reports for each the destination of the failed
/// datagram, the error and the returned first bytes of the datagram. The error is `ConnectionRefused` for a closed
/// port, or `HostUnreachable`, `NetworkUnreachable` or another one. Returns the number of entries; [`BATCH`]: there may
/// be more.
///
/// Call it on `POLLERR`, which stays set until the queue is empty. Anyone who can guess a port pair can forge an ICMP
/// error. So it is a reason to probe the destination, and no proof that it is gone.
pub fn read_errors(
    socket: &UdpSocket,
    mut report: impl FnMut(SocketAddr, io::Error, &[u8]),
) -> io::Result<usize> {
    let mut quoted = [0; QUOTED];
    for taken in 0..BATCH {
        let mut control = Control([0; 128]);
        let vector = iovec { iov_base: quoted.as_mut_ptr().cast(), iov_len: quoted.len() };
        let mut slot = Slot { name: Name::empty(), vector };
        let mut header = slot.header().msg_hdr;
        header.msg_control = (&raw mut control).cast();
        header.msg_controllen = size_of::<Control>();
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: `header` points to `slot`, to `quoted` and to `control`, all alive and not otherwise borrowed, with
        // the sizes they have.
        let received = unsafe { libc::recvmsg(socket.raw(), &raw mut header, flags) };
        if received < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(taken) } else { Err(error) };
        }
        if let (Some(to), Some(errno)) = (slot.name.read(), reported_error(&header)) {
            let length = (received as usize).min(QUOTED);
            report(to, io::Error::from_raw_os_error(errno), &quoted[..length]);
        }
    }
    Ok(BATCH)
}

/// The errno in the control messages of `header`, which the kernel has filled.
fn reported_error(header: &msghdr) -> Option<c_int> {
    // SAFETY: `header` was filled by a successful `recvmsg`, so that its control messages are whole, lie one after
    // the other in the room it points to, and the macros walk them as documented.
    unsafe {
        let mut next: *const cmsghdr = libc::CMSG_FIRSTHDR(header);
        while !next.is_null() {
            let kind = ((*next).cmsg_level, (*next).cmsg_type);
            if matches!(kind, (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR))
            {
                let data: *const c_void = libc::CMSG_DATA(next).cast();
                return Some(ptr::read_unaligned(data.cast::<sock_extended_err>()).ee_errno.cast_signed());
            }
            next = libc::CMSG_NXTHDR(header, next);
        }
    }
    None
}

/// Whether Linux makes this error from an ICMP message, and returns it from any later call.
pub(super) fn is_network_error(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::ENOPROTOOPT
                | libc::EOPNOTSUPP
                | libc::EPROTO
                | libc::EMSGSIZE
                | libc::EACCES
        )
    )
}
