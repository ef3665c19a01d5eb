//! Sockets that accept connections, and sockets that are to become connections.

use base::Transport;
use route::Network;
use rustix::net::{Shutdown, shutdown};
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 4_096;
/// After so long without a word the kernel asks whether the other side is still there.
const KEEPALIVE: Duration = Duration::from_mins(1);
/// How often it asks, so many times, before it gives the connection up.
const ASKED_EVERY: Duration = Duration::from_secs(10);
const ASKED_MOST: u32 = 3;
/// So long may what was sent stay unacknowledged: a request is answered, or given up, in 32 s.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// Bytes that the kernel may hold of each direction (it doubles this for its own needs). Left alone it takes megabytes of
/// what a peer does not read, which nobody bounds.
const KERNEL_BUFFER: usize = 128 << 10;

/// Bounds what the kernel holds, and has it give up a connection whose other side is gone without a word. What is accepted
/// has it of its listener.
fn prepare(socket: &Socket) -> io::Result<()> {
    socket.set_send_buffer_size(KERNEL_BUFFER)?;
    socket.set_recv_buffer_size(KERNEL_BUFFER)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
    socket.set_tcp_keepalive(&keepalive.with_interval(ASKED_EVERY).with_retries(ASKED_MOST))?;
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))
}

/// A listening socket of a thread.
#[derive(Debug)]
pub struct StreamListener {
    /// Index of its port.
    pub port: u16,
    /// What is spoken there.
    pub transport: Transport,
    /// The socket.
    pub socket: TcpListener,
    /// Networks of load balancers that begin each connection with a PROXY header.
    pub proxies: Vec<Network>,
}

impl StreamListener {
    /// A socket that [`listen`] made, or another process.
    pub fn new(port: u16, transport: Transport, socket: TcpListener, proxies: Vec<Network>) -> Self {
        Self { port, transport, socket, proxies }
    }

    /// Whether connections from there begin with a PROXY header.
    pub(super) fn expects_proxy_header(&self, from: IpAddr) -> bool {
        self.proxies.iter().any(|network| network.contains(from))
    }
}

/// Binds an address and listens. With `reuse_port` several threads do so, and the kernel spreads connections over them.
pub fn listen(at: SocketAddr, reuse_port: bool) -> io::Result<TcpListener> {
    let socket =
        Socket::new(Domain::for_address(at), Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    if at.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Connections of a process before may linger.
    socket.set_reuse_address(true)?;
    if reuse_port {
        socket.set_reuse_port(true)?;
    }
    prepare(&socket)?;
    socket.bind(&SockAddr::from(at))?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Has a listening socket, and all copies of it, refuse whoever connects.
///
/// # Errors
/// As `shutdown(2)`.
pub fn close_listener(socket: impl AsFd) -> io::Result<()> {
    Ok(shutdown(socket, Shutdown::Read)?)
}

/// Has a listening socket accept connections again.
///
/// # Errors
/// As `listen(2)`.
pub fn listen_again(socket: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::listen(socket, BACKLOG)?)
}

/// Begins to connect from this address, with any port.
pub(super) fn connect(from: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket =
        Socket::new(Domain::for_address(to), Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    prepare(&socket)?;
    socket.bind(&SockAddr::from(SocketAddr::new(from, 0)))?;
    match socket.connect(&SockAddr::from(to)) {
        Err(error) if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {
            Err(error)
        }
        _ => Ok(socket.into()),
    }
}
