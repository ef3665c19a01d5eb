//! Probes over TCP and TLS. Each node that is asked so has a connection of its own, so that answers never pass through
//! the shards; it is kept while probes come.

use base::{Peer, Transport};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use streams::tls::in_plain_words;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use wire::{Framed, Framer};

/// Longest time for a connection, with its TLS handshake. What is decided by then is the time-out of the probe.
const CONNECT: Duration = Duration::from_secs(4);
/// A connection is closed after this time without a probe.
const IDLE: Duration = Duration::from_mins(1);
/// Longest answer, in bytes.
const LONGEST: usize = Transport::Tcp.longest();
/// Probes of a node that wait for its connection: one that is late counts as lost, and the next is under way.
const WAITING: usize = 4;
/// Messages that wait for the control task: whoever sends more waits.
const NEWS: usize = 256;

/// How a server shows over TLS who it is.
#[derive(Clone)]
pub(super) struct TlsPeer {
    /// Whose certificates are believed.
    pub(super) settings: Arc<ClientConfig>,
    /// What the certificate has to be for.
    pub(super) name: ServerName<'static>,
}

/// What is heard of a node.
pub(super) enum ProbeNews {
    /// A message came by the connection.
    Message { from: Peer, bytes: Vec<u8> },
    /// There is no connection, and why.
    NoConnection {
        to: Peer,
        why: String,
        /// The probe, where nobody takes connections, or not the one that is wanted.
        refused: Option<Vec<u8>>,
    },
}

/// The connections.
pub(super) struct StreamProbes {
    tasks: BTreeMap<Peer, mpsc::Sender<Outgoing>>,
    news_in: mpsc::Sender<ProbeNews>,
    news: mpsc::Receiver<ProbeNews>,
}

/// A probe on its way, with how the server shows who it is, if the way is one of TLS.
struct Outgoing {
    bytes: Vec<u8>,
    tls: Option<TlsPeer>,
}

impl StreamProbes {
    pub(super) fn new() -> Self {
        let (news_in, news) = mpsc::channel(NEWS);
        Self { tasks: BTreeMap::new(), news_in, news }
    }

    /// Sends a probe, from the address `local`.
    pub(super) fn send(&mut self, to: Peer, local: IpAddr, bytes: &[u8], tls: Option<TlsPeer>) {
        let mut probe = Outgoing { bytes: bytes.to_vec(), tls };
        if let Some(task) = self.tasks.get(&to) {
            match task.try_send(probe) {
                Ok(()) | Err(TrySendError::Full(_)) => return,
                // Its time was over.
                Err(TrySendError::Closed(unsent)) => probe = unsent,
            }
        }
        self.tasks.retain(|_, task| !task.is_closed());
        let (task, probes) = mpsc::channel(WAITING);
        task.try_send(probe).unwrap_or_else(|_| unreachable!("nothing waits in a new channel"));
        self.tasks.insert(to, task);
        let asked = Asked { node: to, local, probes, news: self.news_in.clone(), trouble: None };
        tokio::spawn(asked.run());
    }

    /// What was heard next.
    pub(super) async fn heard(&mut self) -> ProbeNews {
        match self.news.recv().await {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }
}

/// TCP, or TLS over it.
trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// An open connection.
struct Connection {
    stream: Box<dyn ByteStream>,
    framer: Framer,
    /// The probe that was sent last.
    sent: Vec<u8>,
}

/// A node that is asked over connections.
struct Asked {
    node: Peer,
    local: IpAddr,
    probes: mpsc::Receiver<Outgoing>,
    news: mpsc::Sender<ProbeNews>,
    /// Why there was no connection the last time: it is told once.
    trouble: Option<String>,
}

impl Asked {
    /// Until there has been no probe for long, or nobody sends any more.
    async fn run(mut self) {
        let mut connection: Option<Connection> = None;
        let mut idle = Box::pin(tokio::time::sleep(IDLE));
        let mut buffer = vec![0; 4 << 10];
        loop {
            tokio::select! {
                probe = self.probes.recv() => {
                    let Some(probe) = probe else { return };
                    connection = self.ask(connection, probe).await;
                    idle = Box::pin(tokio::time::sleep(IDLE));
                }
                read = read(connection.as_mut(), &mut buffer) => {
                    if let Err(error) = &read {
                        self.tell(in_plain_words(error), None).await;
                    }
                    let bytes = read.ok().filter(|length| *length > 0).map(|length| &buffer[..length]);
                    connection = self.take(connection, bytes.unwrap_or_default()).await;
                }
                () = &mut idle => return,
            }
        }
    }

    /// Sends a probe: a copy only where the connection is gone by which it was sent, since nothing is lost on one.
    async fn ask(&mut self, connection: Option<Connection>, probe: Outgoing) -> Option<Connection> {
        let Outgoing { bytes, tls } = probe;
        let mut connection = match connection {
            Some(open) if open.sent == bytes => return Some(open),
            Some(open) => open,
            None => {
                let opened = tokio::time::timeout(CONNECT, connect(self.node, self.local, tls)).await;
                self.opened(opened.ok()?, &bytes).await?
            }
        };
        connection.sent = bytes;
        connection.stream.write_all(&connection.sent).await.ok()?;
        connection.stream.flush().await.ok()?;
        Some(connection)
    }

    /// Takes a connection, or tells why there is none.
    async fn opened(
        &mut self,
        opened: Result<Box<dyn ByteStream>, Failure>,
        probe: &[u8],
    ) -> Option<Connection> {
        match opened {
            Ok(stream) => {
                return Some(Connection { stream, framer: Framer::new(LONGEST), sent: Vec::new() });
            }
            Err(Failure::Refused(why)) => self.tell(why, Some(probe.to_vec())).await,
            Err(Failure::Other(why)) => self.tell(why, None).await,
        }
        None
    }

    /// Tells why there is no connection.
    async fn tell(&mut self, why: String, refused: Option<Vec<u8>>) {
        if self.trouble.as_ref() != Some(&why) {
            tracing::warn!(member = %self.node, reason = %why, "no connection for a probe");
            self.trouble = Some(why.clone());
        }
        // The control task ends before those that it has begun.
        let _ = self.news.send(ProbeNews::NoConnection { to: self.node, why, refused }).await;
    }

    /// Takes bytes that came; none: the connection is closed.
    async fn take(&mut self, connection: Option<Connection>, bytes: &[u8]) -> Option<Connection> {
        let mut connection = connection?;
        if bytes.is_empty() {
            return None;
        }
        connection.framer.take(bytes);
        loop {
            match connection.framer.next().ok()? {
                Some(Framed::Message(message)) => {
                    self.trouble = None;
                    let news = ProbeNews::Message { from: self.node, bytes: message.to_vec() };
                    self.news.send(news).await.ok()?;
                }
                // RFC 5626 §3.5.1.
                Some(Framed::Ping) => connection.stream.write_all(b"\r\n").await.ok()?,
                Some(Framed::Pong) => {}
                None => return Some(connection),
            }
        }
    }
}

/// Why there is no connection.
enum Failure {
    /// Whoever is there takes none, or is not who it should be.
    Refused(String),
    /// The network does not lead there, for now at least.
    Other(String),
}

impl Failure {
    fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused(error.to_string()),
            _ => Self::Other(error.to_string()),
        }
    }
}

async fn connect(node: Peer, local: IpAddr, tls: Option<TlsPeer>) -> Result<Box<dyn ByteStream>, Failure> {
    let stream = connect_tcp(node.address, local).await.map_err(|error| Failure::of(&error))?;
    if node.transport != Transport::Tls {
        return Ok(Box::new(stream));
    }
    let Some(TlsPeer { settings, name }) = tls else {
        return Err(Failure::Refused("there are no settings of TLS".to_owned()));
    };
    let stream = TlsConnector::from(settings).connect(name, stream).await;
    stream.map(|stream| Box::new(stream) as _).map_err(|error| Failure::Refused(in_plain_words(&error)))
}

async fn connect_tcp(to: SocketAddr, local: IpAddr) -> io::Result<TcpStream> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.bind(SocketAddr::new(local, 0))?;
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Bytes of the connection; for ever without one.
async fn read(connection: Option<&mut Connection>, buffer: &mut [u8]) -> io::Result<usize> {
    match connection {
        Some(connection) => connection.stream.read(buffer).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
