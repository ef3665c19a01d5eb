//! Connections of a process that another one has taken over from.

use super::{BYE, Bed, OK, dialogs, read};
use crate::counts::CloseReason;
use crate::listener::{close_listener, listen_again};
use base::{Instant, Transport};
use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::TcpStream;

const INVITE: &[u8] = b"INVITE sip:b@x SIP/2.0\r\nCall-ID: i\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n";
const ASKED: &[u8] = b"OPTIONS sip:b@x SIP/2.0\r\nCall-ID: o\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n";

/// Response to one of these.
fn answer(status: &str, request: &[u8]) -> Vec<u8> {
    let rest = request.iter().position(|byte| *byte == b'\n').unwrap();
    [format!("SIP/2.0 {status}\r\n").as_bytes(), &request[rest + 1..]].concat()
}

#[test]
fn after_a_takeover_no_connection_is_accepted_and_calls_end() {
    let mut bed = Bed::new(&[Transport::Tcp]);
    let mut client = bed.connect(0);
    client.write_all(BYE).unwrap();
    let (flow, _) = bed.message();
    bed.streams.leave(bed.now, true);
    bed.send(flow, OK);
    assert_eq!(read(&mut client, OK.len()), OK);
    bed.pass(Duration::from_secs(6));
    assert_eq!(bed.closed(CloseReason::Stop), 1);
    assert_eq!(
        client
            .read(&mut [0])
            .map_err(|error| error.kind())
            .or_else(|kind| { if kind == io::ErrorKind::ConnectionReset { Ok(0) } else { Err(kind) } }),
        Ok(0)
    );
}

/// The call rings for longer than an idle connection is kept. The caller can get the response only by this connection.
#[test]
fn a_connection_with_a_ringing_call_stays_open() {
    let mut bed = Bed::new(&[Transport::Tcp]);
    let mut client = bed.connect(0);
    client.write_all(INVITE).unwrap();
    let (flow, _) = bed.message();
    bed.send(flow, &answer("180 Ringing", INVITE));
    bed.streams.leave(bed.now, true);
    bed.streams.move_at(bed.now, bed.now + Duration::from_secs(15));
    bed.pass(Duration::from_secs(25));
    assert_eq!((bed.closed(CloseReason::Stop), bed.streams.unanswered()), (0, 1));
    bed.send(flow, &answer("200 OK", INVITE));
    bed.pass(Duration::ZERO);
    assert_eq!((bed.closed(CloseReason::Stop), bed.streams.unanswered()), (1, 0));
}

/// Requests of the callee use only this connection, also by way of the process that has taken over.
#[test]
fn a_connection_with_a_call_stays_until_the_time_limit() {
    for hangs_up in [true, false] {
        let mut bed = Bed::new(&[Transport::Tcp]);
        let _client = bed.connect(0);
        let flow = dialogs::flow(&mut bed);
        bed.send(flow, &dialogs::answered());
        bed.streams.leave(bed.now, true);
        bed.streams.move_at(bed.now, bed.now + Duration::from_secs(54));
        bed.pass(Duration::from_secs(53));
        bed.turn_briefly();
        assert_eq!((bed.closed(CloseReason::Stop), bed.streams.has_dialogs(bed.now)), (0, true));
        if hangs_up {
            bed.send(flow, &dialogs::hung_up());
            assert!(!bed.streams.has_dialogs(bed.now));
        }
        bed.pass(Duration::from_secs(1));
        // The BYE has no response.
        assert_eq!(bed.closed(CloseReason::Stop), u64::from(!hangs_up));
    }
}

/// A busy connection is closed at a moment without unanswered requests.
#[test]
fn a_busy_connection_moves_between_two_requests() {
    let mut bed = Bed::new(&[Transport::Tcp]);
    let mut client = bed.connect(0);
    bed.turn();
    bed.streams.leave(bed.now, true);
    let moves_at: Instant = bed.now + Duration::from_secs(15);
    bed.streams.move_at(bed.now, moves_at);
    for turn in 0.. {
        client.write_all(ASKED).unwrap();
        let (flow, _) = bed.message();
        bed.pass(Duration::from_secs(2));
        assert_eq!(bed.closed(CloseReason::Stop), 0, "not before the answer, turn {turn}");
        let ok = answer("200 OK", ASKED);
        bed.send(flow, &ok);
        bed.pass(Duration::ZERO);
        assert_eq!(read(&mut client, ok.len()), ok);
        assert_eq!(bed.closed(CloseReason::Stop) > 0, bed.now >= moves_at, "turn {turn}");
        if bed.now >= moves_at {
            return;
        }
    }
}

#[test]
fn a_closed_listener_refuses_and_can_be_opened_again() {
    // A requested port stays with the socket; a port that the kernel has chosen does not.
    let mut bed = Bed::at("127.83.7.1:5060", &[Transport::Tcp], (100, &[]));
    // The copy of another process.
    let copy = bed.streams.listeners[0].socket.try_clone().unwrap();
    bed.streams.leave(bed.now, true);
    let waiting = bed.connect(0);
    close_listener(&copy).unwrap();
    assert_eq!(TcpStream::connect(bed.locals[0]).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    drop(waiting);
    bed.turn_briefly();
    listen_again(&copy).unwrap();
    bed.streams.leave(bed.now, false);
    let mut client = bed.connect(0);
    client.write_all(BYE).unwrap();
    bed.message();
}
