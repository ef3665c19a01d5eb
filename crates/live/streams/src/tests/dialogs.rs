//! Connections that a dialog or binding depends on.

use super::{Bed, IDLE, read};
use crate::counts::CloseReason;
use base::{Flow, Transport};
use core::time::Duration;
use tungstenite::WebSocket;
use tungstenite::protocol::Role;

/// A message of the call, or of a registration.
fn message(start: &str, method: &str, tags: [&str; 2], more: &str) -> Vec<u8> {
    let [from, to] = tags;
    let text = format!(
        "{start}\r\nVia: SIP/2.0/TCP 192.0.2.1;branch=z9hG4bK1\r\nFrom: <sip:a@x>;tag={from}\r\n\
         To: <sip:b@x>;tag={to}\r\nCall-ID: c\r\nCSeq: 1 {method}\r\n{more}Content-Length: 0\r\n\r\n"
    );
    text.into_bytes()
}

pub(super) fn answered() -> Vec<u8> {
    message("SIP/2.0 200 OK", "INVITE", ["1", "2"], "Record-Route: <sip:192.0.2.5;lr>\r\n")
}

/// The BYE of the callee.
pub(super) fn hung_up() -> Vec<u8> {
    message("BYE sip:a@x SIP/2.0", "BYE", ["2", "1"], "")
}

fn bound() -> Vec<u8> {
    message("SIP/2.0 200 OK", "REGISTER", ["1", "2"], "Contact: <sip:a@192.0.2.1>;expires=3600\r\n")
}

/// Flow of the first connection.
pub(super) fn flow(bed: &mut Bed) -> Flow {
    while bed.streams.list().iter().all(|connection| !connection.is_open) {
        bed.turn();
    }
    bed.streams.list()[0].flow
}

/// RFC 3261 §7.5, RFC 5626 §4.4.1.
#[test]
fn a_connection_with_a_call_is_kept_alive_and_not_idle() {
    let mut bed = Bed::new(&[Transport::Tcp]);
    let mut client = bed.connect(0);
    let flow = flow(&mut bed);
    bed.send(flow, &answered());
    read(&mut client, answered().len());
    for _ in 0..20 {
        bed.pass(Duration::from_secs(44));
        bed.pass(Duration::from_secs(1));
        bed.turn_briefly();
        assert_eq!(read(&mut client, 4), b"\r\n\r\n");
    }
    bed.send(flow, &hung_up());
    bed.pass(IDLE);
    assert_eq!(bed.closed(CloseReason::Idle), 1, "{:?}", bed.streams.counts);
}

#[test]
fn a_connection_with_a_binding_is_not_idle_until_that_expires() {
    let mut bed = Bed::new(&[Transport::Tcp]);
    let _client = bed.connect(0);
    let flow = flow(&mut bed);
    bed.send(flow, &bound());
    for minutes in (0..65).step_by(5) {
        assert_eq!(bed.closed(CloseReason::Idle), 0, "after {minutes} minutes");
        bed.pass(Duration::from_mins(5));
    }
    assert_eq!(bed.closed(CloseReason::Idle), 1, "{:?}", bed.streams.counts);
}

#[test]
fn an_ended_call_or_binding_does_not_count() {
    let text = |message: Vec<u8>| String::from_utf8(message).unwrap();
    let other = || text(bound()).replace("sip:b@x", "sip:c@x").into_bytes();
    let ended = || message("SIP/2.0 200 OK", "REGISTER", ["3", "4"], "");
    let unrecorded = || message("SIP/2.0 200 OK", "INVITE", ["1", "2"], "");
    for (messages, hours) in [
        (vec![unrecorded()], 0),
        (vec![answered()], 4),
        (vec![answered(), unrecorded()], 4),
        (vec![bound()], 1),
        (vec![bound(), ended()], 0),
        (vec![other(), bound(), ended()], 1),
    ] {
        let mut bed = Bed::new(&[Transport::Tcp]);
        let _client = bed.connect(0);
        let flow = flow(&mut bed);
        for message in &messages {
            bed.send(flow, message);
        }
        bed.streams.leave(bed.now, true);
        let end = Duration::from_hours(hours);
        let before = bed.now + end.saturating_sub(Duration::from_millis(1));
        let end = bed.now + end;
        assert_eq!(
            (bed.streams.has_dialogs(before), bed.streams.has_dialogs(end)),
            (hours > 0, false),
            "{} messages, {hours} h",
            messages.len()
        );
    }
}

/// RFC 6455 §5.5.2: an endpoint answers each ping.
#[test]
fn a_websocket_with_a_call_is_closed_once_it_answers_no_ping() {
    let mut bed = Bed::new(&[Transport::Ws]);
    let mut socket = bed.upgraded();
    let mut accepted = Vec::new();
    while !accepted.ends_with(b"\r\n\r\n") {
        accepted.extend(read(&mut socket, 1));
    }
    let mut client = WebSocket::from_raw_socket(socket, Role::Client, None);
    let flow = flow(&mut bed);
    bed.send(flow, &answered());
    for _ in 0..20 {
        bed.pass(Duration::from_secs(45));
        bed.turn_briefly();
        while !client.read().unwrap().is_ping() {}
        client.flush().unwrap();
        bed.turn();
    }
    bed.pass(IDLE);
    assert_eq!(bed.closed(CloseReason::Idle), 1, "{:?}", bed.streams.counts);
}
