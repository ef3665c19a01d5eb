//! One bound UDP socket.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;

use libc::{c_int, c_void, socklen_t};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use socket2::{Domain, Protocol, SockAddr, SockFilter, Socket, Type};

/// Non-blocking UDP socket of one thread.
///
/// - An IPv6 socket receives IPv6 only, so that no peer appears as an IPv4-mapped address.
/// - ICMP errors are kept in its error queue, with the destination that they are about ([`super::read_errors`]).
/// - With `reuse_port` several threads bind the same address; the kernel distributes datagrams by a hash of both
///   addresses, or by a program ([`attach_program`]). ICMP errors are distributed by the hash, and may reach another thread than
///   the sender.
#[derive(Debug)]
pub struct UdpSocket {
    socket: Socket,
}

impl UdpSocket {
    /// Binds `addr` (port 0: the kernel chooses one) and requests a receive buffer of `receive_buffer` octets.
    ///
    /// The kernel grants the full size with `CAP_NET_ADMIN`, else at most `net.core.rmem_max`. Fails as `bind(2)` does:
    /// address in use, not local, not permitted.
    pub fn bind(addr: SocketAddr, reuse_port: bool, receive_buffer: usize) -> io::Result<Self> {
        let domain = Domain::for_address(addr);
        let socket = Socket::new(domain, Type::DGRAM.nonblocking().cloexec(), Some(Protocol::UDP))?;
        if addr.is_ipv6() {
            socket.set_only_v6(true)?;
            set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?;
        } else {
            set_option(&socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1)?;
        }
        if reuse_port {
            socket.set_reuse_port(true)?;
        }
        set_buffer(&socket, receive_buffer)?;
        socket.bind(&SockAddr::from(addr))?;
        Ok(Self { socket })
    }

    /// Duplicates the descriptor, for another process.
    pub fn copy(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone().map(OwnedFd::from)
    }

    /// Bound address, with the port that the kernel chose.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// Size of the receive buffer in octets, as granted by the kernel.
    pub fn receive_buffer(&self) -> io::Result<usize> {
        // socket(7): the kernel doubles the requested size to have room for its bookkeeping, and reports the double.
        self.socket.recv_buffer_size().map(|octets| octets / 2)
    }

    /// Number of datagrams that the kernel has dropped since the bind, because the receive buffer was full, their
    /// checksum was wrong, or a filter dropped them ([`Self::set_filter`]). Wraps at 2^32.
    pub fn lost_datagrams(&self) -> io::Result<u32> {
        // linux/sock_diag.h: nine counters of the socket's memory, SK_MEMINFO_DROPS is the last.
        const DROPS: usize = 8;
        let mut counters = [0_u32; DROPS + 1];
        let mut length = size_of_val(&counters) as socklen_t;
        let into = counters.as_mut_ptr().cast::<c_void>();
        // SAFETY: the descriptor is open as long as `self`, and the kernel writes at most `length` octets, the size
        // of the array, in which any octets are a value.
        let result = unsafe {
            libc::getsockopt(self.raw(), libc::SOL_SOCKET, libc::SO_MEMINFO, into, &raw mut length)
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(counters[DROPS]) }
    }

    /// Makes the kernel drop each datagram for which this program in classic BPF returns 0. The program sees the UDP
    /// header and the payload. It replaces an earlier one at once; `None` removes it.
    ///
    /// # Errors
    /// `OutOfMemory` if the kernel's translations of the old and the new program are together larger than
    /// `net.core.optmem_max`: then the old one stays. `InvalidInput` if the program is invalid.
    pub fn set_filter(&self, program: Option<&[SockFilter]>) -> io::Result<()> {
        let Some(program) = program else {
            let is_absent = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
            return self
                .socket
                .detach_filter()
                .or_else(|error| if is_absent(&error) { Ok(()) } else { Err(error) });
        };
        self.socket.attach_filter(program)
    }

    /// Enables time stamps of arrival for datagrams ([`super::ReceiveBatch::waited`]).
    pub fn stamp(&self) -> io::Result<()> {
        set_option(&self.socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
    }

    /// Registers the socket with the runtime, for datagrams and errors. To be called on a Tokio runtime.
    pub fn watch(self) -> io::Result<AsyncFd<Self>> {
        // SAFETY: the descriptor is open and the same for as long as `self`, which the result owns and lends only
        // by reference, is alive.
        unsafe { AsyncFd::register_with_interest(self, Interest::READABLE | Interest::ERROR) }
            .map_err(Into::into)
    }

    pub(super) fn raw(&self) -> c_int {
        self.socket.as_raw_fd()
    }
}

/// A socket that another process has bound like [`UdpSocket::bind`].
impl From<OwnedFd> for UdpSocket {
    fn from(socket: OwnedFd) -> Self {
        Self { socket: socket.into() }
    }
}

impl AsRawFd for UdpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Makes the kernel choose a socket for each datagram by a program in classic BPF. The program sees the payload and
/// returns the number of a socket, in the order in which the sockets of the address were bound. If the number is too
/// high, the kernel chooses by the hash of both addresses. The program replaces an earlier one of these sockets.
///
/// # Errors
/// `OutOfMemory` if the kernel's translation is larger than `net.core.optmem_max`; `InvalidInput` if the program is
/// invalid, or the socket was bound without `reuse_port`.
pub fn attach_program(socket: impl AsFd, program: &[SockFilter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        // `SockFilter` has the layout of `sock_filter`.
        filter: program.as_ptr().cast_mut().cast(),
    };
    set_value(socket.as_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &program)
}

/// Requests a receive buffer of that many octets; see [`UdpSocket::bind`].
pub(super) fn set_buffer(socket: &Socket, octets: usize) -> io::Result<()> {
    let octets = c_int::try_from(octets).unwrap_or(c_int::MAX);
    if set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, octets).is_err() {
        set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, octets)?;
    }
    Ok(())
}

/// Sets an integer option that `socket2` does not support.
pub(super) fn set_option(socket: &Socket, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    set_value(socket.as_fd(), level, option, &value)
}

fn set_value<T>(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let from = ptr::from_ref(value).cast::<c_void>();
    // SAFETY: the descriptor is open, and the kernel reads no more than the size of `value`, which outlives the call.
    // So does a program that it points to.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, from, size_of::<T>() as socklen_t) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
