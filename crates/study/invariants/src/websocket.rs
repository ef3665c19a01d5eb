//! Connections over `WebSocket`: properties of any frames.

use base::{Instant, Transport};
use core::time::Duration;
use rustix::event::{Timespec, poll};
use rustix::net::sockopt::set_socket_linger;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use streams::{
    CloseReason, ConnectionLimits, StreamBatch, StreamListener, StreamSettings, StreamSetup, Streams, listen,
};

/// Opening handshake (RFC 7118 §5).
const HANDSHAKE: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: sip\r\n\r\n";
/// Maximum number of input bytes that are used: the replies to so many bytes fit into the kernel's buffers.
const MOST: usize = 16 << 10;

/// Result of a connection.
#[derive(PartialEq, Eq, Debug)]
struct Outcome {
    messages: Vec<Vec<u8>>,
    /// Reason of the close; `None`: it is open.
    closed: Option<CloseReason>,
}

/// Reads `data` as frames of a client after the handshake. The first byte is the length of the pieces in which the
/// others arrive.
///
/// # Panics
/// Panics if the messages or the end of the connection depend on the pieces, or if a message is empty or too long.
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

/// Sends these bytes in pieces of this length over loopback, and returns the result.
fn outcome(bytes: &[u8], length: usize) -> Outcome {
    let listener = listen(([127, 0, 0, 1], 0).into(), false).expect("a process may listen");
    let local = listener.local_addr().expect("a listener has an address");
    let settings = StreamSettings {
        idle: Duration::from_mins(10),
        handshake: Duration::from_secs(10),
        send_buffer: 64 << 10,
        opens_websocket: false,
        memory: 1 << 30,
        origins: Arc::default(),
        admission: Arc::default(),
        tls: None,
    };
    let setup = StreamSetup {
        index: 0,
        threads: 1,
        locals: vec![local],
        listeners: vec![StreamListener::new(0, Transport::Ws, listener, Vec::new())],
        limits: ConnectionLimits::new(1, 1, 0),
        settings,
    };
    let mut streams = Streams::new(setup).expect("a process may watch sockets");
    let mut client = TcpStream::connect(local).expect("the listener is there");
    client.set_nodelay(true).expect("a socket of TCP");
    // Thousands of runs leave no port occupied (TIME-WAIT).
    set_socket_linger(&client, Some(Duration::ZERO)).expect("a socket of TCP");
    client.write_all(HANDSHAKE).expect("the buffer of a new socket is empty");
    let mut outcome = Outcome { messages: Vec::new(), closed: None };
    while streams.list().iter().all(|connection| !connection.is_open) {
        read(&mut streams, &mut outcome);
    }
    for piece in bytes.chunks(length.max(1)) {
        client.write_all(piece).expect("earlier bytes have been read");
        read(&mut streams, &mut outcome);
        if outcome.closed.is_some() {
            break;
        }
    }
    outcome
}

/// Waits for the sent bytes, and reads them, as a thread does in its loop.
fn read(streams: &mut Streams, outcome: &mut Outcome) {
    let longest = Timespec { tv_sec: 20, tv_nsec: 0 };
    poll(&mut [streams.watched()], Some(&longest)).expect("the descriptor is there");
    let mut batch = StreamBatch::default();
    loop {
        streams.turn(Instant::from_millis(1), &mut batch);
        while let Some((_, message)) = batch.first() {
            outcome.messages.push(message.to_vec());
            batch.take();
        }
        if !streams.has_unread() {
            break;
        }
    }
    streams.flush(Instant::from_millis(1));
    let reason = CloseReason::ALL.into_iter().find(|&reason| streams.counts.closed[reason as usize] > 0);
    outcome.closed = reason;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed;

    const BYE: &[u8] = b"BYE sip:b@x SIP/2.0\r\nl: 0\r\n\r\n";

    /// Nearly valid frames have the same result in any pieces.
    #[test]
    fn seeds_with_one_other_byte_do_not_depend_on_their_pieces() {
        for name in ["text", "two", "fragments", "ping_between_fragments", "close", "long"] {
            let seed = seed("websocket", name);
            for at in 1..seed.len() {
                for change in [1, 0x10, 0x80, 0xff] {
                    let mut data = seed.clone();
                    data[at] ^= change;
                    websocket(&data);
                }
            }
        }
    }

    /// Each seed with its number of messages and its end.
    #[test]
    fn the_seeds_have_their_named_results() {
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
            let data = seed("websocket", name);
            websocket(&data);
            assert_eq!(
                outcome(&data[1..], 1),
                Outcome { messages: vec![BYE.to_vec(); count], closed },
                "{name}"
            );
        }
    }
}
