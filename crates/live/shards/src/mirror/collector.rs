//! The connection to the collector.

use super::shared::{Packets, Shared};
use config::HepTarget;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Pause after an error.
const PAUSE: Duration = Duration::from_secs(1);
/// Interval of warnings about the same collector.
const WARN_EVERY: Duration = Duration::from_mins(1);
/// Longest wait for a connection, and for a collector that does not read.
const PATIENCE: Duration = Duration::from_secs(5);

/// The collector. After an error its name is looked up again.
pub(super) struct Collector {
    to: HepTarget,
    link: Option<Link>,
    shared: Arc<Shared>,
    warned: Option<Instant>,
}

enum Link {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl Collector {
    pub(super) fn new(to: HepTarget, shared: Arc<Shared>) -> Self {
        Self { to, link: None, shared, warned: None }
    }

    /// Sends packets, in the order of their messages. Waits for a connection; meanwhile the queue may overflow. Returns
    /// false if the queue is closed and the collector cannot be reached.
    pub(super) fn send(&mut self, packets: &Packets) -> bool {
        let count = packets.ends.len();
        if count == 0 {
            return true;
        }
        let mut sent = 0;
        let outcome = self.take_link().and_then(|mut link| {
            match &mut link {
                Link::Udp(socket) => {
                    for packet in packets.iter() {
                        socket.send(packet)?;
                        sent += 1;
                    }
                }
                Link::Tcp(stream) => {
                    stream.write_all(&packets.bytes)?;
                    sent = count;
                }
            }
            Ok(link)
        });
        self.shared.counters.sent.fetch_add(sent as u64, Relaxed);
        self.shared.counters.lost.fetch_add((count - sent) as u64, Relaxed);
        match outcome {
            Ok(link) => self.link = Some(link),
            Err(_) if self.shared.is_closed.load(Relaxed) => return false,
            Err(error) => self.pause(&error),
        }
        true
    }

    fn take_link(&mut self) -> io::Result<Link> {
        if let Some(link) = self.link.take() {
            return Ok(link);
        }
        loop {
            match open(&self.to) {
                Err(error) if !self.shared.is_closed.load(Relaxed) => self.pause(&error),
                opened => return opened,
            }
        }
    }

    fn pause(&mut self, error: &io::Error) {
        if self.warned.is_none_or(|warned| warned.elapsed() >= WARN_EVERY) {
            self.warned = Some(Instant::now());
            tracing::warn!(to = %self.to, %error, "[hep] the collector cannot be reached: copies wait, then are lost");
        }
        sleep(PAUSE);
    }
}

fn open(to: &HepTarget) -> io::Result<Link> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
    for address in (&*to.host, to.port).to_socket_addrs()? {
        match open_at(to, address) {
            Ok(link) => return Ok(link),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn open_at(to: &HepTarget, address: SocketAddr) -> io::Result<Link> {
    if to.is_tcp {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        return Ok(Link::Tcp(stream));
    }
    let any = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(address)?;
    Ok(Link::Udp(socket))
}
