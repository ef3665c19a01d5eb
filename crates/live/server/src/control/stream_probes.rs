//! Probes over TCP and TLS. Each probed node has its own connection, so that answers never pass through the shards. The
//! connection is kept as long as probes are sent.

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

/// Time limit of opening a connection, TLS handshake included. The probe itself has timed out by then.
const CONNECT: Duration = Duration::from_secs(4);
/// Time without a probe after which a connection is closed.
const IDLE: Duration = Duration::from_mins(1);
/// Limit of an answer in bytes.
const LONGEST: usize = Transport::Tcp.longest();
/// Limit of probes of a node that wait for its connection. A late probe counts as lost, and the next one is on its way.
const WAITING: usize = 4;
/// Limit of messages that wait for the control task. Beyond it, readers wait.
const NEWS: usize = 256;

/// The settings by which the certificate of a server is verified.
#[derive(Clone)]
pub(super) struct TlsPeer {
    /// TLS settings with the trusted authorities.
    pub(super) settings: Arc<ClientConfig>,
    /// Name that the certificate must be for.
    pub(super) name: ServerName<'static>,
}

/// A message or an error from a node.
pub(super) enum ProbeNews {
    /// A message that arrived on the connection.
    Message { from: Peer, bytes: Vec<u8> },
    /// No connection could be opened.
    NoConnection {
        to: Peer,
        why: String,
        /// The probe, if the node refused the connection or showed the wrong certificate.
        refused: Option<Vec<u8>>,
    },
}

pub(super) struct StreamProbes {
    tasks: BTreeMap<Peer, mpsc::Sender<Outgoing>>,
    news_in: mpsc::Sender<ProbeNews>,
    news: mpsc::Receiver<ProbeNews>,
}

/// A probe to be sent, with the settings for TLS if it goes over TLS.
struct Outgoing {
    bytes: Vec<u8>,
    tls: Option<TlsPeer>,
}

impl StreamProbes {
    pub(super) fn new() -> Self {
        let (news_in, news) = mpsc::channel(NEWS);
        Self { tasks: BTreeMap::new(), news_in, news }
    }

    /// Sends a probe from the address `local`.
    pub(super) fn send(&mut self, to: Peer, local: IpAddr, bytes: &[u8], tls: Option<TlsPeer>) {
        let mut probe = Outgoing { bytes: bytes.to_vec(), tls };
        if let Some(task) = self.tasks.get(&to) {
            match task.try_send(probe) {
                Ok(()) | Err(TrySendError::Full(_)) => return,
                // The task has ended after its idle time.
                Err(TrySendError::Closed(unsent)) => probe = unsent,
            }
        }
        self.tasks.retain(|_, task| !task.is_closed());
        let (task, probes) = mpsc::channel(WAITING);
        task.try_send(probe).unwrap_or_else(|_| unreachable!("nothing waits in a new channel"));
        self.tasks.insert(to, task);
        let asked = ProbedNode { node: to, local, probes, news: self.news_in.clone(), trouble: None };
        tokio::spawn(asked.run());
    }

    pub(super) async fn heard(&mut self) -> ProbeNews {
        match self.news.recv().await {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }
}

/// A byte stream: TCP, or TLS over TCP.
trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

struct Connection {
    stream: Box<dyn ByteStream>,
    framer: Framer,
    /// The probe that was sent last.
    sent: Vec<u8>,
}

/// A node that is probed over connections.
struct ProbedNode {
    node: Peer,
    local: IpAddr,
    probes: mpsc::Receiver<Outgoing>,
    news: mpsc::Sender<ProbeNews>,
    /// Cause of the last failure to connect, so that it is logged once.
    trouble: Option<String>,
}

impl ProbedNode {
    /// Runs until no probe was sent for [`IDLE`], or the sender is gone.
    async fn run(mut self) {
        let mut connection: Option<Connection> = None;
        let mut idle = Box::pin(tokio::time::sleep(IDLE));
        let mut buffer = vec![0; 4 << 10];
        loop {
            tokio::select! {
                probe = self.probes.recv() => {
                    let Some(probe) = probe else { return };
                    connection = self.send_probe(connection, probe).await;
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

    /// Sends a probe. A retransmission is sent only over a new connection, since an open connection loses nothing.
    async fn send_probe(&mut self, connection: Option<Connection>, probe: Outgoing) -> Option<Connection> {
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

    /// Returns the opened connection, or reports why it could not be opened.
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

    /// Reports why there is no connection.
    async fn tell(&mut self, why: String, refused: Option<Vec<u8>>) {
        if self.trouble.as_ref() != Some(&why) {
            tracing::warn!(member = %self.node, reason = %why, "no connection for a probe");
            self.trouble = Some(why.clone());
        }
        // The control task may end before this task.
        let _ = self.news.send(ProbeNews::NoConnection { to: self.node, why, refused }).await;
    }

    /// Processes received bytes. No bytes: the connection is closed.
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
                // RFC 5626 §3.5.1: a ping is answered with CRLF.
                Some(Framed::Ping) => connection.stream.write_all(b"\r\n").await.ok()?,
                Some(Framed::Pong) => {}
                None => return Some(connection),
            }
        }
    }
}

/// Cause of a failed connection.
enum Failure {
    /// The node accepts no connection, or its certificate is wrong.
    Refused(String),
    /// The network does not reach the node now.
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
        return Err(Failure::Refused("there are no TLS settings".to_owned()));
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

/// Reads bytes of the connection; waits forever without one.
async fn read(connection: Option<&mut Connection>, buffer: &mut [u8]) -> io::Result<usize> {
    match connection {
        Some(connection) => connection.stream.read(buffer).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
