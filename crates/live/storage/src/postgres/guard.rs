//! Stream to PostgreSQL that fails if the server requests the password in clear text, since an eavesdropper or a false
//! server would get it. The client library would send it.
//!
//! The library exposes the received bytes only to an implementation of TLS. This one passes all bytes unchanged, to the
//! socket or to TLS.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};

/// Makes [`Guarded`] streams.
pub(super) struct Guard;

impl<S: AsyncRead + AsyncWrite + Unpin> MakeTlsConnect<S> for Guard {
    type Stream = Guarded<S>;
    type TlsConnect = Self;
    type Error = io::Error;

    fn make_tls_connect(&mut self, _: &str) -> io::Result<Self> {
        Ok(Self)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsConnect<S> for Guard {
    type Stream = Guarded<S>;
    type Error = io::Error;
    type Future = core::future::Ready<io::Result<Guarded<S>>>;

    fn connect(self, stream: S) -> Self::Future {
        core::future::ready(Ok(Guarded::new(stream, false)))
    }
}

/// A stream whose first messages are checked.
pub(super) struct Guarded<S> {
    stream: S,
    start: Start,
}

impl<S> Guarded<S> {
    /// With `clear_text` nothing is checked.
    pub(super) fn new(stream: S, clear_text: bool) -> Self {
        Self { stream, start: Start { is_over: clear_text, ..Start::default() } }
    }
}

/// Parser of the server's messages until the client is logged in. Each has a type, a length that includes itself, and a
/// body; the body of `R`, an authentication request, begins with its kind.
#[derive(Default)]
struct Start {
    /// Head of the current message: type, length, kind.
    head: [u8; 9],
    has: usize,
    /// Remaining bytes of the current message, which are skipped.
    skip: usize,
    is_over: bool,
}

impl Start {
    fn read(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        const OK: [u8; 4] = 0_u32.to_be_bytes();
        const CLEAR_TEXT: [u8; 4] = 3_u32.to_be_bytes();
        while !self.is_over && !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            (self.skip, bytes) = (self.skip - skipped, &bytes[skipped..]);
            if self.skip > 0 {
                break;
            }
            let wanted = if self.has > 0 && self.head[0] != b'R' { 5 } else { 9 };
            while self.has < wanted
                && let [first, rest @ ..] = bytes
            {
                (self.head[self.has], bytes) = (*first, rest);
                self.has += 1;
                if self.has == 5 && self.head[0] != b'R' {
                    break;
                }
            }
            let [kind, a, b, c, d, request @ ..] = self.head;
            let is_whole = self.has == 9 || (self.has == 5 && kind != b'R');
            if !is_whole {
                continue;
            }
            self.skip = (u32::from_be_bytes([a, b, c, d]) as usize + 1).saturating_sub(self.has);
            self.has = 0;
            match (kind, request) {
                (b'R', CLEAR_TEXT) => {
                    return Err(io::Error::new(
                        io::ErrorKind::PermissionDenied,
                        "the server asks for the password in clear text, which is refused: let it use \
                         scram-sha-256 (pg_hba.conf), or allow it with require_auth=password in the URL",
                    ));
                }
                (b'R', OK) => self.is_over = true,
                _ => {}
            }
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        Poll::Ready(this.start.read(&buffer.filled()[before..]))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Guarded<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of the server.
    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
    }

    fn request(kind: u32, rest: &[u8]) -> Vec<u8> {
        message(b'R', &[&kind.to_be_bytes(), rest].concat())
    }

    /// Whether the bytes are refused, however they are split.
    fn is_refused(bytes: &[u8]) -> bool {
        let results: Vec<_> = (1..=bytes.len())
            .map(|piece| {
                let mut start = Start::default();
                bytes.chunks(piece).any(|bytes| start.read(bytes).is_err())
            })
            .collect();
        assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
        results[0]
    }

    #[test]
    fn a_request_for_clear_text_is_found() {
        let notice = message(b'N', b"a notice R\0\0\0\x08\0\0\0\x03");
        assert!(is_refused(&request(3, b"")));
        assert!(is_refused(&[notice.clone(), request(3, b"")].concat()));
        assert!(is_refused(&[request(10, b"SCRAM-SHA-256\0\0"), request(3, b"")].concat()));
        let scram =
            [request(10, b"SCRAM-SHA-256\0\0"), request(11, b"r=.."), request(12, b"v=.."), request(0, b"")];
        let rows = message(b'D', &request(3, b""));
        assert!(!is_refused(&[&notice, &scram.concat()[..], &rows, &request(3, b"")].concat()));
        assert!(!is_refused(&[request(5, b"salt"), request(0, b"")].concat()));
    }
}
