//! The body of a fuzz target: what a connection over `WebSocket` makes of any bytes.

use super::batch::StreamBatch;
use super::connection::{Connection, ReadOn};
use super::counts::CloseReason;
use super::limits::ConnectionLimits;
use super::settings::StreamSettings;
use base::{Flow, Instant, Transport};
use core::time::Duration;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

/// What opens a connection (RFC 7118 §5).
const HANDSHAKE: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: sip\r\n\r\n";
/// Bytes that are looked at: what is answered to so many fits into the buffers of the kernel.
const MOST: usize = 16 << 10;

/// What a connection has made of its bytes.
#[derive(PartialEq, Eq, Debug)]
struct Outcome {
    messages: Vec<Vec<u8>>,
    /// Why it has been closed; `None`: it is open.
    closed: Option<CloseReason>,
}

/// Frames of a client behind its opening handshake: the first byte says how long the pieces are in which the others come.
///
/// # Panics
/// When the messages, or the end of the connection, depend on the pieces; when a message is longer than messages may be, or
/// says nothing.
pub fn websocket(data: &[u8]) {
    let Some((&length, bytes)) = data.split_first() else { return };
    let bytes = &bytes[..bytes.len().min(MOST)];
    let whole = outcome(bytes, bytes.len());
    assert_eq!(whole, outcome(bytes, usize::from(length)), "in pieces of {length}");
    for message in &whole.messages {
        assert!(message.len() <= Transport::Ws.longest(), "{} bytes", message.len());
        assert!(message.iter().any(|byte| !matches!(byte, b'\r' | b'\n')), "a message of line ends");
    }
}

/// What comes of these bytes in pieces of this length. The socket is one of a pair that no other process has.
fn outcome(bytes: &[u8], length: usize) -> Outcome {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let (ours, theirs) = pair.expect("a process may have two more descriptors");
    let (ours, mut theirs) = (TcpStream::from(ours), TcpStream::from(theirs));
    theirs.write_all(HANDSHAKE).expect("the buffer of a new socket is empty");
    let peer = ([192, 0, 2, 1], 40_000).into();
    let flow = Flow { transport: Transport::Ws, listener: 0, peer, connection: None };
    let (idle, handshake) = (Duration::from_mins(10), Duration::from_secs(10));
    let settings = StreamSettings {
        idle,
        handshake,
        send_buffer: 64 << 10,
        opens_websocket: false,
        memory: usize::MAX,
        origins: Arc::default(),
        admission: Arc::default(),
        tls: None,
    };
    let place = ConnectionLimits::new(1, 1, 0).own_place();
    let mut connection = Connection::new(flow, Instant::ZERO, (ours, place), (None, settings.send_buffer));
    connection.begin(&settings).expect("the handshake is whole");
    assert_eq!(connection.opens(Instant::ZERO), Ok(true), "messages can come");
    let mut outcome = Outcome { messages: Vec::new(), closed: None };
    for piece in bytes.chunks(length.max(1)) {
        theirs.write_all(piece).expect("what was sent before has been read");
        outcome.closed = read(&mut connection, &mut outcome.messages).err();
        if outcome.closed.is_some() {
            break;
        }
    }
    outcome
}

/// Reads what is there, as a thread does turn by turn.
fn read(connection: &mut Connection, messages: &mut Vec<Vec<u8>>) -> Result<(), CloseReason> {
    let mut batch = StreamBatch::default();
    loop {
        let read = connection.read(Instant::ZERO, &mut [], &mut batch);
        while let Some((_, message)) = batch.first() {
            messages.push(message.to_vec());
            batch.take();
        }
        connection.write_out(Instant::ZERO)?;
        if read? == ReadOn::Dry {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYE: &[u8] = b"BYE sip:b@x SIP/2.0\r\nl: 0\r\n\r\n";

    fn seed(name: &str) -> Vec<u8> {
        let path = format!("{}/../../../fuzz/seeds/websocket/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// What is nearly a frame fares alike in whatever pieces it comes.
    #[test]
    fn seeds_with_one_other_byte_do_not_depend_on_their_pieces() {
        for name in ["text", "two", "fragments", "ping_between_fragments", "close", "long"] {
            let seed = seed(name);
            for at in 1..seed.len() {
                for change in [1, 0x10, 0x80, 0xff] {
                    let mut data = seed.clone();
                    data[at] ^= change;
                    websocket(&data);
                }
            }
        }
    }

    /// Each seed with the number of its messages and its end.
    #[test]
    fn the_seeds_reach_their_subjects() {
        let seeds = [
            ("text", 1, None),
            ("binary", 1, None),
            ("two", 2, None),
            ("fragments", 1, None),
            ("ping_between_fragments", 1, None),
            ("line_ends", 0, None),
            ("unfinished", 0, None),
            ("close", 1, Some(CloseReason::Peer)),
            ("unmasked", 0, Some(CloseReason::WebSocket)),
            ("compressed", 0, Some(CloseReason::WebSocket)),
            ("long", 0, Some(CloseReason::WebSocket)),
            ("no_text", 0, Some(CloseReason::WebSocket)),
            ("unknown", 0, Some(CloseReason::WebSocket)),
        ];
        for (name, count, closed) in seeds {
            let data = seed(name);
            websocket(&data);
            assert_eq!(
                outcome(&data[1..], 1),
                Outcome { messages: vec![BYE.to_vec(); count], closed },
                "{name}"
            );
        }
    }
}
