//! Admission of connections, memory of all connections, and time limits of one.

use super::{BYE, Bed, HANDSHAKE, NEW_PER_SECOND, OK, read};
use crate::admission::Admission;
use crate::counts::CloseReason;
use base::Transport;
use core::time::Duration;
use route::{Access, AccessRefusal};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::sync::Arc;

/// A message of which all bytes but the last have arrived.
fn incomplete(length: usize) -> Vec<u8> {
    let head = format!("BYE sip:b@x SIP/2.0\r\nCall-ID: c\r\nContent-Length: {length}\r\n\r\n");
    [head.as_bytes(), &vec![b'x'; length - head.len()]].concat()
}

fn deny(bed: &mut Bed, network: &str, nodes: &[IpAddr]) {
    let access = Access::new(&[], &[network.parse().unwrap()], AccessRefusal::Forbidden).unwrap();
    let nodes = nodes.iter().copied().collect::<BTreeSet<_>>();
    bed.streams.settings.admission = Arc::new(Admission { access: vec![access], nodes });
}

#[test]
fn the_access_list_is_checked_before_tls() {
    for transport in [Transport::Tcp, Transport::Tls, Transport::Wss] {
        let mut bed = Bed::new(&[transport]);
        deny(&mut bed, "127.0.0.0/8", &[]);
        let _client = bed.connect(0);
        bed.until_closed(CloseReason::Denied);
        assert_eq!((bed.streams.counts.accepted, bed.streams.list().len()), (0, 0));
        deny(&mut bed, "127.0.0.0/8", &[Ipv4Addr::LOCALHOST.into()]);
        let _member = bed.connect(0);
        bed.turn();
        assert_eq!(
            (bed.streams.list().len(), bed.closed(CloseReason::Denied)),
            (1, 1),
            "a node is exempt from the access list"
        );
    }
}

#[test]
fn behind_a_load_balancer_the_list_is_checked_for_the_client() {
    for (header, is_denied) in [
        ("PROXY TCP4 192.0.2.7 192.0.2.1 40000 5060\r\n", true),
        ("PROXY TCP4 198.51.100.7 192.0.2.1 40000 5060\r\n", false),
        ("PROXY UNKNOWN\r\n", false),
    ] {
        let mut bed = Bed::with(&[Transport::Tcp], 100, &["127.0.0.0/8"]);
        deny(&mut bed, "192.0.2.0/24", &[]);
        let mut client = bed.connect(0);
        client.write_all(header.as_bytes()).unwrap();
        client.write_all(BYE).unwrap();
        if is_denied {
            bed.until_closed(CloseReason::Denied);
        } else {
            bed.message();
        }
    }
}

#[test]
fn new_connections_per_second_are_limited() {
    let mut bed = Bed::new(&[Transport::Tls]);
    let most = 2 * NEW_PER_SECOND as usize;
    let mut clients: Vec<_> = (0..=most).map(|_| bed.connect(0)).collect();
    bed.until_closed(CloseReason::NewPerSecond);
    assert_eq!((bed.streams.list().len(), bed.closed(CloseReason::NewPerSecond)), (most, 1));
    bed.now += Duration::from_secs(1);
    clients.extend((0..NEW_PER_SECOND).map(|_| bed.connect(0)));
    while bed.streams.list().len() < most + NEW_PER_SECOND as usize {
        bed.turn();
    }
    assert_eq!(bed.closed(CloseReason::NewPerSecond), 1);
}

/// A connection without a message makes room for others; one that has sent a message stays.
#[test]
fn at_the_limit_the_oldest_silent_connection_is_closed() {
    let mut bed = Bed::limited("127.0.0.1:0", &[Transport::Tcp], (3, 100, &[]));
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(bed.connect(0));
        // Line ends are not a message.
        held.last_mut().unwrap().write_all(b"\r\n\r\n").unwrap();
        bed.turn();
    }
    let mut heard = bed.connect(0);
    heard.write_all(BYE).unwrap();
    bed.message();
    for most in 1..=2 {
        held.push(bed.connect(0));
        held.last_mut().unwrap().write_all(BYE).unwrap();
        let (flow, _) = bed.message();
        assert_eq!(flow.peer, held.last().unwrap().local_addr().unwrap());
        assert_eq!((bed.closed(CloseReason::Most), bed.streams.list().len()), (most, 3));
    }
    // All have sent a message.
    let _refused = bed.connect(0);
    bed.turn();
    assert_eq!((bed.closed(CloseReason::Most), bed.streams.list().len()), (3, 3));
}

#[test]
fn a_client_that_is_refused_closes_no_other_connection() {
    let mut bed = Bed::limited("127.0.0.1:0", &[Transport::Tcp], (2, 2, &[]));
    let _silent = [bed.connect(0), bed.connect(0)];
    while bed.streams.list().len() < 2 {
        bed.turn();
    }
    let _beyond_the_bound = bed.connect(0);
    bed.until_closed(CloseReason::MostPerAddress);
    deny(&mut bed, "127.0.0.0/8", &[]);
    let _denied = bed.connect(0);
    bed.until_closed(CloseReason::Denied);
    assert_eq!((bed.closed(CloseReason::Most), bed.streams.list().len()), (0, 2));
}

/// A client that fills the memory loses its connections; those that hold little stay.
#[test]
fn at_the_memory_limit_the_largest_connections_are_closed() {
    let mut bed = Bed::new(&[Transport::Tcp]);
    bed.streams.settings.memory = 400_000;
    let mut small = bed.connect(0);
    small.write_all(&BYE[..20]).unwrap();
    let mut large: Vec<TcpStream> = Vec::new();
    while bed.closed(CloseReason::Memory) == 0 {
        assert!(large.len() < 8, "{:?}", bed.streams.counts);
        let mut client = bed.connect(0);
        client.write_all(&incomplete(60_000)).unwrap();
        large.push(client);
        for _ in 0..20 {
            if bed.streams.counts.held >= large.len() as u64 * 60_000 || bed.closed(CloseReason::Memory) > 0 {
                break;
            }
            bed.turn();
        }
    }
    let counts = bed.streams.counts;
    assert!(counts.held <= 400_000 - 50_000, "{counts:?}");
    assert!(
        counts.closed[CloseReason::Memory as usize] < 4,
        "more connections were closed than needed: {counts:?}"
    );
    small.write_all(&BYE[20..]).unwrap();
    let (flow, _) = bed.message();
    bed.send(flow, OK);
    assert_eq!(read(&mut small, OK.len()), OK);
    drop((small, large));
    while !bed.streams.list().is_empty() {
        bed.turn();
    }
    assert_eq!(bed.streams.counts.held, 0);
}

#[test]
fn bytes_waiting_to_be_sent_count() {
    let mut bed = Bed::new(&[Transport::Tcp]);
    bed.streams.settings.memory = 40_000;
    let mut client = bed.connect(0);
    client.write_all(BYE).unwrap();
    let (flow, _) = bed.message();
    let long = [OK, &[b'x'; 16 << 10]].concat();
    for _ in 0..2_000 {
        bed.send(flow, &long);
        if bed.closed(CloseReason::Memory) > 0 {
            return;
        }
    }
    panic!("{:?}", bed.streams.counts);
}

/// Incomplete data in TLS and WebSocket count as well.
#[test]
fn bytes_held_by_tls_and_websocket_count() {
    let mut bed = Bed::new(&[Transport::Tls]);
    let mut client = bed.connect(0);
    // The beginning of a ClientHello of 16 KiB.
    client.write_all(&[0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc]).unwrap();
    client.write_all(&[0; 10_000]).unwrap();
    for _ in 0..20 {
        if bed.streams.counts.held >= 10_000 {
            break;
        }
        bed.turn();
    }
    assert!(bed.streams.counts.held >= 10_000, "{:?}", bed.streams.counts);

    let mut bed = Bed::new(&[Transport::Ws]);
    let mut socket = bed.upgraded();
    let before = bed.streams.counts.held;
    // The first fragment of a text, 30,000 bytes long, then pings; all masked with zeros (RFC 6455 §5.2).
    socket.write_all(&[&[0x01, 0xfe, 0x75, 0x30, 0, 0, 0, 0][..], &vec![b'A'; 30_000]].concat()).unwrap();
    socket.write_all(&[0x89, 0x82, 0, 0, 0, 0, 1, 2].repeat(500)).unwrap();
    for _ in 0..50 {
        bed.streams.turn(bed.now, &mut bed.batch);
    }
    assert!(bed.streams.counts.held >= before + 30_000, "{:?}", bed.streams.counts);
    socket.write_all(&[0x80, 0x81, 0, 0, 0, 0, b'B']).unwrap();
    assert_eq!(bed.message().1.len(), 30_001);
    bed.turn_briefly();
    assert!(bed.streams.counts.held < before + 10_000, "{:?}", bed.streams.counts);
}

/// A browser without a message so far has no incomplete message.
#[test]
fn a_websocket_without_a_message_is_idle() {
    let mut bed = Bed::new(&[Transport::Ws]);
    let _socket = bed.upgraded();
    bed.pass(HANDSHAKE);
    assert_eq!(bed.streams.list().len(), 1, "{:?}", bed.streams.counts);
}

/// Bytes that arrive one by one do not extend the time limit of a message.
#[test]
fn a_message_that_comes_byte_by_byte_is_cut_off() {
    let mut bed = Bed::new(&[Transport::Tcp]);
    let mut client = bed.connect(0);
    bed.turn();
    for byte in &BYE[..10] {
        assert_eq!(bed.closed(CloseReason::SlowMessage), 0);
        client.write_all(&[*byte]).unwrap();
        bed.turn();
        bed.pass(HANDSHAKE / 10);
    }
    assert_eq!(bed.closed(CloseReason::SlowMessage), 1, "{:?}", bed.streams.counts);
}

/// Few bytes may wait, but not for long.
#[test]
fn a_client_that_has_stopped_reading_is_cut_off_in_time() {
    let mut bed = Bed::new(&[Transport::Tcp]);
    let mut client = bed.connect(0);
    client.write_all(BYE).unwrap();
    let (flow, _) = bed.message();
    let long = [OK, &[b'x'; 16 << 10]].concat();
    // Until the kernel accepts no more.
    while bed.streams.counts.held < long.len() as u64 {
        bed.send(flow, &long);
    }
    bed.pass(HANDSHAKE.saturating_sub(Duration::from_millis(1)));
    assert_eq!(bed.closed(CloseReason::NotReading), 0, "{:?}", bed.streams.counts);
    bed.pass(Duration::from_millis(1));
    assert_eq!(bed.closed(CloseReason::NotReading), 1, "{:?}", bed.streams.counts);
}
