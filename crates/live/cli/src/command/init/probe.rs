//! An OPTIONS to a server (RFC 3261 §11).

use base::Transport;
use control::Address;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::time::{Duration, Instant};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Interval of retransmissions, T1 of RFC 3261 §17.1.1.1.
const RESEND: Duration = Duration::from_millis(500);

/// Returns the status of the answer and how long it took.
///
/// # Errors
/// Why there is no answer.
pub(super) fn probe(address: &Address) -> Result<(u16, Duration), String> {
    let (transport, found) = match address {
        Address::Socket(peer) => (peer.transport, Some(peer.address)),
        Address::Host { transport, name, port } => {
            let port = port.unwrap_or(transport.default_port());
            let found = (&**name, port).to_socket_addrs().map_err(|error| format!("not found: {error}"));
            (*transport, found?.next())
        }
        Address::Srv(_) => return Err("SRV names are not probed".to_owned()),
    };
    let to = found.ok_or("its name has no address")?;
    let start = Instant::now();
    let answer = if transport == Transport::Udp { by_udp(to) } else { by_tcp(to) };
    match answer {
        Ok(answer) => {
            let status = answer.strip_prefix(b"SIP/2.0 ").and_then(|rest| rest.get(..3));
            let status = status.and_then(|digits| str::from_utf8(digits).ok()?.parse().ok());
            status.map(|status| (status, start.elapsed())).ok_or_else(|| "its answer is not SIP".to_owned())
        }
        Err(error) => Err(match error.kind() {
            ErrorKind::ConnectionRefused => "nothing listens there".to_owned(),
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                format!("no answer in {} s; perhaps it ignores OPTIONS", PATIENCE.as_secs())
            }
            _ => error.to_string(),
        }),
    }
}

fn by_udp(to: SocketAddr) -> io::Result<Vec<u8>> {
    let any = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(RESEND))?;
    let request = options(Transport::Udp, to, socket.local_addr()?);
    let (start, mut buffer) = (Instant::now(), vec![0; 65_535]);
    loop {
        socket.send(request.as_bytes())?;
        match socket.recv(&mut buffer) {
            Ok(length) => return Ok(buffer[..length].to_vec()),
            Err(error) if is_late(&error) && start.elapsed() < PATIENCE => {}
            Err(error) => return Err(error),
        }
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn by_tcp(to: SocketAddr) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(options(Transport::Tcp, to, stream.local_addr()?).as_bytes())?;
    let mut answer = vec![0; 4_096];
    let length = stream.read(&mut answer)?;
    answer.truncate(length);
    Ok(answer)
}

fn options(transport: Transport, to: SocketAddr, own: SocketAddr) -> String {
    let (name, id) = (transport.name(), std::process::id());
    format!(
        "OPTIONS sip:{to} SIP/2.0\r\nVia: SIP/2.0/{name} {own};rport;branch=z9hG4bK-init-{id}-{port}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:sarabande@{own}>;tag=init-{id}\r\nTo: <sip:{to}>\r\n\
         Call-ID: init-{id}-{to}\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n",
        port = own.port()
    )
}
