//! Listening sockets, and sockets that connect.

use base::Transport;
use route::Network;
use rustix::net::{Shutdown, shutdown};
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 4_096;
/// Idle time after which the kernel probes the peer.
const KEEPALIVE: Duration = Duration::from_mins(1);
/// Interval of the probes, and their number before the connection is closed.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
const PROBES_MAX: u32 = 3;
/// Longest time that sent data may stay unacknowledged: a request is answered or times out within 32 s.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// Kernel buffer of each direction in bytes (the kernel doubles it for its own needs). Without this setting the kernel
/// would hold megabytes of unread data, without any limit of ours.
const KERNEL_BUFFER: usize = 128 << 10;

/// Limits kernel buffers, and has the kernel close a connection whose peer has vanished. Accepted sockets inherit these
/// options from their listener.
fn prepare(socket: &Socket) -> io::Result<()> {
    socket.set_send_buffer_size(KERNEL_BUFFER)?;
    socket.set_recv_buffer_size(KERNEL_BUFFER)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
    socket.set_tcp_keepalive(&keepalive.with_interval(PROBE_INTERVAL).with_retries(PROBES_MAX))?;
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))
}

/// Listening socket of a thread.
#[derive(Debug)]
pub struct StreamListener {
    /// Index of its port.
    pub port: u16,
    /// Transport of its connections.
    pub transport: Transport,
    /// The socket.
    pub socket: TcpListener,
    /// Networks of load balancers that start each connection with a PROXY header.
    pub proxies: Vec<Network>,
}

impl StreamListener {
    /// Makes a listener from a socket of [`listen`], or of another process.
    pub fn new(port: u16, transport: Transport, socket: TcpListener, proxies: Vec<Network>) -> Self {
        Self { port, transport, socket, proxies }
    }

    /// Whether connections from this address start with a PROXY header.
    pub(super) fn expects_proxy_header(&self, from: IpAddr) -> bool {
        self.proxies.iter().any(|network| network.contains(from))
    }
}

/// Binds an address and listens. With `reuse_port` several threads can do so, and the kernel distributes connections.
pub fn listen(at: SocketAddr, reuse_port: bool) -> io::Result<TcpListener> {
    let socket =
        Socket::new(Domain::for_address(at), Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    if at.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Connections of an earlier process may linger.
    socket.set_reuse_address(true)?;
    if reuse_port {
        socket.set_reuse_port(true)?;
    }
    prepare(&socket)?;
    socket.bind(&SockAddr::from(at))?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Makes a listening socket, and all copies of it, refuse connections.
///
/// # Errors
/// As `shutdown(2)`.
pub fn close_listener(socket: impl AsFd) -> io::Result<()> {
    Ok(shutdown(socket, Shutdown::Read)?)
}

/// Makes a listening socket accept connections again.
///
/// # Errors
/// As `listen(2)`.
pub fn listen_again(socket: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::listen(socket, BACKLOG)?)
}

/// Starts to connect from this address, with any port.
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
