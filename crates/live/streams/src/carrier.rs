//! Bytes of a connection, with or without TLS. Reads go to the socket at once; writes wait in a bounded queue until the
//! socket accepts them.

use super::tls::in_plain_words;
use rustix::io::ioctl_fionread;
use rustls::Connection as TlsConnection;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Plain bytes given to TLS at a time: one record (RFC 8446 §5.1).
const RECORD: usize = 16 << 10;

/// Maximum number of bytes of an incomplete handshake that TLS may hold (RFC 8446 §4).
const TLS_MOST: usize = 64 << 10;

/// A socket, its TLS if any, and the queue of bytes to send.
#[derive(Debug)]
pub(super) struct Carrier {
    socket: TcpStream,
    tls: Option<Box<TlsConnection>>,
    /// The peer, for the log; after a PROXY header it is not that of the socket.
    peer: Option<SocketAddr>,
    /// Bytes that TLS has taken since its last output: an incomplete record or handshake.
    undeciphered: usize,
    /// Bytes that were read from the socket with a PROXY header, before TLS started.
    early: Vec<u8>,
    queue: Vec<u8>,
    /// Bytes of the queue that the socket, or TLS, has accepted.
    written: usize,
    most: usize,
    /// Bytes that may still be read in this turn.
    allowed: usize,
    /// Bytes read since the last [`Self::take_read`].
    read: usize,
}

/// Reads the early bytes, then from the socket.
struct Raw<'a> {
    early: &'a mut Vec<u8>,
    socket: &'a TcpStream,
}

impl Read for Raw<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.early.is_empty() {
            return self.socket.read(into);
        }
        let part = into.len().min(self.early.len());
        into[..part].copy_from_slice(&self.early[..part]);
        self.early.drain(..part);
        Ok(part)
    }
}

impl Carrier {
    /// Makes a connection whose queue holds at most `most` bytes.
    pub(super) fn new(socket: TcpStream, most: usize) -> Self {
        Self {
            socket,
            tls: None,
            peer: None,
            undeciphered: 0,
            early: Vec::new(),
            queue: Vec::new(),
            written: 0,
            most,
            allowed: usize::MAX,
            read: 0,
        }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(super) fn tls(&self) -> Option<&TlsConnection> {
        self.tls.as_deref()
    }

    /// Whether the socket has unread bytes.
    pub(super) fn has_more(&self) -> bool {
        ioctl_fionread(&self.socket).is_ok_and(|bytes| bytes > 0)
    }

    /// Starts TLS with this peer.
    pub(super) fn secure(&mut self, mut tls: TlsConnection, peer: SocketAddr) {
        self.peer = Some(peer);
        // Bytes wait in our queue, where they are counted: TLS gets the next record once the socket has accepted the
        // last one.
        tls.set_buffer_limit(Some(RECORD));
        self.tls = Some(Box::new(tls));
    }

    /// Stores bytes that were read after the PROXY header.
    pub(super) fn put_back(&mut self, early: Vec<u8>) {
        self.early = early;
    }

    /// Whether TLS waits for the peer's handshake messages.
    pub(super) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Sets the number of bytes that may be read from now on.
    pub(super) fn allow(&mut self, bytes: usize) {
        self.allowed = bytes;
    }

    /// Whether all of these were read.
    pub(super) fn is_spent(&self) -> bool {
        self.allowed == 0
    }

    /// Returns the number of bytes read since the last call.
    pub(super) fn take_read(&mut self) -> usize {
        std::mem::take(&mut self.read)
    }

    /// Number of bytes that [`Self::take_read`] would return.
    pub(super) fn read_so_far(&self) -> usize {
        self.read
    }

    /// Memory in bytes: data to be sent or decrypted.
    pub(super) fn held(&self) -> usize {
        let ciphered = if self.tls.as_ref().is_some_and(|tls| tls.wants_write()) { RECORD } else { 0 };
        self.queue.capacity() + self.early.capacity() + self.undeciphered.min(TLS_MOST) + ciphered
    }

    /// Number of bytes to be sent.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len() - self.written
    }

    /// Whether to wait until the socket accepts more.
    pub(super) fn wants_write(&self) -> bool {
        let queued = self.waiting() > 0;
        self.tls.as_ref().map_or(queued, |tls| tls.wants_write() || (queued && !tls.is_handshaking()))
    }

    /// Queues the TLS close notification, if TLS is used (RFC 8446 §6.1).
    pub(super) fn send_close_notification(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
    }

    /// Writes as much as the socket accepts.
    pub(super) fn write_out(&mut self) -> io::Result<()> {
        loop {
            if let Some(tls) = &mut self.tls {
                while tls.wants_write() {
                    if !took(tls.write_tls(&mut &self.socket))? {
                        return Ok(());
                    }
                }
                if tls.is_handshaking() {
                    return Ok(());
                }
            }
            let part = &self.queue[self.written..];
            if part.is_empty() {
                // Thousands of idle connections must not keep the memory of one response.
                (self.queue, self.written) = (Vec::new(), 0);
                return Ok(());
            }
            let written = match &mut self.tls {
                Some(tls) => tls.writer().write(&part[..part.len().min(RECORD)]),
                None => (&self.socket).write(part),
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.written += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether the socket accepted anything.
fn took(written: io::Result<usize>) -> io::Result<bool> {
    match written {
        Ok(written) => Ok(written > 0),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
        Err(error) => Err(error),
    }
}

impl Read for Carrier {
    /// 0: the peer has closed. An error of TLS has the kind `InvalidData` and its reason.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.allowed == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let most = into.len().min(self.allowed);
        let count = self.read_some(&mut into[..most])?;
        if self.allowed != usize::MAX {
            self.allowed -= count;
        }
        self.read += count;
        Ok(count)
    }
}

impl Carrier {
    fn read_some(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut raw = Raw { early: &mut self.early, socket: &self.socket };
        let Some(tls) = &mut self.tls else { return raw.read(into) };
        loop {
            match tls.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A message marks its own end, so an end of file without close notification truncates nothing
                // unnoticed.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => {
                    self.undeciphered = 0;
                    return read;
                }
            }
            let was_handshaking = tls.is_handshaking();
            let taken = tls.read_tls(&mut raw)?;
            if taken == 0 {
                return Ok(0);
            }
            self.undeciphered += taken;
            if let Err(error) = tls.process_new_packets() {
                // Sends the alert with the reason, as far as the socket accepts it now.
                let _ = tls.write_tls(&mut &self.socket);
                let by = if matches!(**tls, TlsConnection::Server(_)) { "the peer" } else { "this process" };
                let error = io::Error::new(io::ErrorKind::InvalidData, error);
                tracing::warn!(
                    peer = self.peer.map(tracing::field::display),
                    by,
                    "TLS failed: {}",
                    in_plain_words(&error)
                );
                return Err(error);
            }
            if was_handshaking && !tls.is_handshaking() {
                self.undeciphered = 0;
            }
        }
    }
}

impl Write for Carrier {
    /// Queues all bytes, or none with an error of kind `StorageFull` if the queue would be too long.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.waiting() + bytes.len() > self.most {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the other side does not read"));
        }
        if self.written > 0 && self.written >= self.queue.len() / 2 {
            self.queue.drain(..self.written);
            self.written = 0;
        }
        self.queue.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// Used at the end of an opening handshake of `WebSocket`; messages leave at the end of the batch.
    fn flush(&mut self) -> io::Result<()> {
        self.write_out()
    }
}
