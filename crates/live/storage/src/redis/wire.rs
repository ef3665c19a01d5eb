//! Connection to a Redis server that limits the size of an answer, and the time to send a request and read its answer.
//! It uses the client library's commands, errors, and parser of replies.

use ::redis::{Cmd, ConnectionAddr, ConnectionInfo, Parser, RedisError, RedisResult, Value, cmd};
use core::time::Duration;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;
use streams::tls::in_plain_words;

/// Longest answer, in bytes. A record has at most some 64 KiB, like the REGISTER that it came from. A much longer
/// answer is not a record, and is not read to its end.
const ANSWER_MAX: usize = 1 << 20;

#[derive(Debug)]
enum Stream {
    Tcp(Timed),
    Tls(Box<StreamOwned<ClientConnection, Timed>>),
    Unix(UnixStream),
}

/// A socket with a deadline for reads and writes, which also holds for each of the several reads of a TLS record.
#[derive(Debug)]
struct Timed {
    socket: TcpStream,
    until: Instant,
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.socket.set_read_timeout(Some(left(self.until)?))?;
        self.socket.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, buffer: &[u8]) -> Result<usize> {
        self.socket.set_write_timeout(Some(left(self.until)?))?;
        self.socket.write(buffer)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Stream {
    fn connect(address: &ConnectionAddr, tls: Option<Arc<ClientConfig>>, until: Instant) -> Result<Self> {
        match address {
            ConnectionAddr::Unix(path) => UnixStream::connect(path).map(Self::Unix),
            ConnectionAddr::Tcp(host, port) => {
                let socket = connect(host, *port, until)?;
                socket.set_nodelay(true)?;
                let timed = Timed { socket, until };
                match tls {
                    None => Ok(Self::Tcp(timed)),
                    Some(tls) => secure(host, tls, timed).map(Self::Tls),
                }
            }
            _ => Err(Error::new(ErrorKind::Unsupported, "expected redis://, rediss:// or redis+unix://")),
        }
    }
}

/// A readable and writable stream.
trait Duplex: Read + Write {}

impl<S: Read + Write> Duplex for S {}

impl Stream {
    /// Sets the deadline of the next read or write.
    fn until(&mut self, until: Instant) -> Result<&mut dyn Duplex> {
        Ok(match self {
            Self::Tcp(timed) => {
                timed.until = until;
                timed
            }
            Self::Tls(stream) => {
                stream.sock.until = until;
                &mut **stream
            }
            Self::Unix(stream) => {
                let time = Some(left(until)?);
                stream.set_read_timeout(time)?;
                stream.set_write_timeout(time)?;
                stream
            }
        })
    }
}

/// Connects to the first reachable address of the name.
fn connect(host: &str, port: u16, until: Instant) -> Result<TcpStream> {
    let mut last = Error::new(ErrorKind::NotFound, "its name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, left(until)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Starts TLS, which requires a certificate for this host.
fn secure(
    host: &str,
    tls: Arc<ClientConfig>,
    timed: Timed,
) -> Result<Box<StreamOwned<ClientConnection, Timed>>> {
    let name = ServerName::try_from(host.to_owned()).map_err(Error::other)?;
    let connection = ClientConnection::new(tls, name).map_err(Error::other)?;
    let mut stream = StreamOwned::new(connection, timed);
    while stream.conn.is_handshaking() {
        let shaken = stream.conn.complete_io(&mut stream.sock);
        shaken.map_err(|error| Error::new(error.kind(), in_plain_words(&error)))?;
    }
    Ok(Box::new(stream))
}

/// Time until the deadline; never zero, which a socket does not accept as a timeout.
fn left(until: Instant) -> Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// A stream with a deadline and a limit of bytes to read.
struct Bounded<'a> {
    stream: &'a mut Stream,
    until: Instant,
    bytes: usize,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let room = buffer.len().min(self.bytes);
        if room == 0 && !buffer.is_empty() {
            let text = format!("an answer of more than {ANSWER_MAX} bytes");
            return Err(Error::new(ErrorKind::InvalidData, text));
        }
        let buffer = &mut buffer[..room];
        let read = self.stream.until(self.until)?.read(buffer)?;
        self.bytes -= read;
        Ok(read)
    }
}

impl Write for Bounded<'_> {
    fn write(&mut self, buffer: &[u8]) -> Result<usize> {
        self.stream.until(self.until)?.write(buffer)
    }

    /// TLS may hold bytes that the socket did not accept at once.
    fn flush(&mut self) -> Result<()> {
        self.stream.until(self.until)?.flush()
    }
}

/// A connection that is logged in. After an error the state is unknown, and the connection must be dropped.
pub(crate) struct Connection {
    stream: Stream,
    parser: Parser,
}

impl Connection {
    /// Connects, with TLS if there are settings for it, logs in and selects the database, all within `timeout`. Only
    /// name resolution may take longer.
    pub(super) fn open(
        info: &ConnectionInfo,
        tls: Option<Arc<ClientConfig>>,
        timeout: Duration,
    ) -> RedisResult<Self> {
        let until = Instant::now() + timeout;
        let stream = Stream::connect(info.addr(), tls, until)?;
        let mut connection = Self { stream, parser: Parser::new() };
        let settings = info.redis_settings();
        if let Some(password) = settings.password() {
            let log_in = |user: Option<&str>| cmd("AUTH").arg(user).arg(password).to_owned();
            let logged_in = connection.ask(&log_in(settings.username()), until);
            // A server before version 6 has no users.
            let knows_no_users = |error: &RedisError| {
                settings.username().is_some()
                    && error.detail().is_some_and(|detail| detail.contains("wrong number of arguments"))
            };
            match logged_in {
                Err(error) if knows_no_users(&error) => connection.ask(&log_in(None), until)?,
                other => other?,
            };
        }
        if settings.db() != 0 {
            connection.ask(cmd("SELECT").arg(settings.db()), until)?;
        }
        Ok(connection)
    }

    /// Sends a command, and reads its answer; an error reply is an error.
    pub(super) fn ask(&mut self, command: &Cmd, until: Instant) -> RedisResult<Value> {
        self.send(&command.get_packed_command(), until)?;
        self.receive(until)?.extract_error()
    }

    /// Sends commands.
    pub(super) fn send(&mut self, commands: &[u8], until: Instant) -> RedisResult<()> {
        let mut stream = Bounded { stream: &mut self.stream, until, bytes: 0 };
        Ok(stream.write_all(commands).and_then(|()| stream.flush())?)
    }

    /// Reads the answer to the next command.
    pub(super) fn receive(&mut self, until: Instant) -> RedisResult<Value> {
        self.parser.parse_value(Bounded { stream: &mut self.stream, until, bytes: ANSWER_MAX })
    }
}
