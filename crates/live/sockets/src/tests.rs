//! Every claim of this crate, tested on the running kernel, over loopback of both families.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{
    BATCH, ReceiveBatch, SendBatch, SendReport, UdpSocket, local_addresses, read_errors, source_address_for,
};

const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

fn socket(ip: IpAddr) -> UdpSocket {
    UdpSocket::bind(SocketAddr::new(ip, 0), false, 4 << 20).expect("loopback can be bound")
}

fn address(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().expect("a bound socket has an address")
}

/// Waits for `flags`; fails after a time limit.
fn await_flags(socket: &UdpSocket, flags: PollFlags) {
    let mut one = [PollFd::from_borrowed_fd(socket.as_fd(), flags)];
    let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
    poll(&mut one, Some(&patience)).expect("poll");
    assert!(one[0].revents().intersects(flags), "no event in time");
}

/// The next `count` datagrams and their senders.
fn receive(socket: &UdpSocket, batch: &mut ReceiveBatch, count: usize) -> Vec<(Vec<u8>, SocketAddr)> {
    let mut all = Vec::new();
    while all.len() < count {
        await_flags(socket, PollFlags::IN);
        batch.receive(socket).expect("receive");
        all.extend(batch.iter().map(|(bytes, from)| (bytes.to_vec(), from)));
    }
    all
}

/// An arena of messages of the given sizes, each with its own octets, and their ranges.
fn messages(sizes: &[usize]) -> (Vec<u8>, Vec<Range<usize>>) {
    let mut arena = Vec::new();
    let mut ranges = Vec::new();
    for (i, size) in sizes.iter().enumerate() {
        let start = arena.len();
        arena.extend((0..*size).map(|k| (i * 31 + k) as u8));
        ranges.push(start..arena.len());
    }
    (arena, ranges)
}

/// A port of `ip` that looks closed to all but one peer; its owner must be kept.
fn closed_port(ip: IpAddr) -> (SocketAddr, std::net::UdpSocket) {
    let owner = std::net::UdpSocket::bind(SocketAddr::new(ip, 0)).expect("loopback can be bound");
    let address = owner.local_addr().expect("a bound socket has an address");
    owner.connect(address).expect("a socket may connect to itself");
    (address, owner)
}

#[test]
fn sizes_from_nothing_to_the_largest_arrive_whole_and_in_order() {
    for ip in LOOPBACK {
        // 65,507 is the most that IPv4 carries: 65,535 less 20 octets of IP and 8 of UDP header. IPv6 does not count
        // its own header, and carries 20 more.
        let largest = if ip.is_ipv4() { 65_507 } else { 65_527 };
        let sizes = [0, 1, 600, largest, 0, 1_472, 20_000, largest, 3];
        let (arena, ranges) = messages(&sizes);
        let (from, to) = (socket(ip), socket(ip));
        let target = address(&to);

        let report = SendBatch::new().send(&from, &arena, ranges.iter().cloned().map(|r| (r, target)));

        assert_eq!(report, SendReport { sent: sizes.len(), dropped: 0 });
        let received = receive(&to, &mut ReceiveBatch::new(), sizes.len());
        for ((bytes, source), range) in received.iter().zip(ranges) {
            assert!(bytes[..] == arena[range.clone()], "{} octets of {range:?}", bytes.len());
            assert_eq!(*source, address(&from));
        }
    }
}

#[test]
fn more_than_a_batch_passes_through_reused_headers() {
    for ip in LOOPBACK {
        let sizes: Vec<usize> = (0..2 * BATCH + 7).map(|i| 1 + i * 5 % 900).collect();
        let (arena, ranges) = messages(&sizes);
        let (from, to) = (socket(ip), socket(ip));
        let (mut sending, mut receiving) = (SendBatch::new(), ReceiveBatch::new());

        for _ in 0..3 {
            let report =
                sending.send(&from, &arena, ranges.iter().cloned().map(|range| (range, address(&to))));

            assert_eq!(report, SendReport { sent: sizes.len(), dropped: 0 });
            let received = receive(&to, &mut receiving, sizes.len());
            let expected: Vec<_> =
                ranges.iter().map(|range| (arena[range.clone()].to_vec(), address(&from))).collect();
            assert!(received == expected);
        }
    }
}

#[test]
fn one_batch_reaches_several_destinations_from_several_sources() {
    let ip = LOOPBACK[0];
    let hub = socket(ip);
    let spokes: Vec<UdpSocket> = (0..5).map(|_| socket(ip)).collect();
    let (mut sending, mut receiving) = (SendBatch::new(), ReceiveBatch::new());

    sending.send(&hub, b"01234", spokes.iter().enumerate().map(|(i, spoke)| (i..i + 1, address(spoke))));
    for (i, spoke) in spokes.iter().enumerate() {
        assert_eq!(receive(spoke, &mut receiving, 1), [(vec![b'0' + i as u8], address(&hub))]);
        sending.send(spoke, &[i as u8], [(0..1, address(&hub))]);
    }

    let mut received = receive(&hub, &mut receiving, spokes.len());
    received.sort();
    let expected: Vec<_> =
        spokes.iter().enumerate().map(|(i, spoke)| (vec![i as u8], address(spoke))).collect();
    assert_eq!(received, expected);
}

#[test]
fn one_set_of_buffers_serves_both_families_in_turn() {
    let mut batch = ReceiveBatch::new();
    for ip in [LOOPBACK[0], LOOPBACK[1], LOOPBACK[0]] {
        let (from, to) = (socket(ip), socket(ip));
        SendBatch::new().send(&from, b"x", [(0..1, address(&to))]);

        assert_eq!(receive(&to, &mut batch, 1), [(b"x".to_vec(), address(&from))]);
    }
}

#[test]
fn an_empty_socket_has_no_datagram_and_forgets_the_last() {
    let (from, to) = (socket(LOOPBACK[0]), socket(LOOPBACK[0]));
    let mut batch = ReceiveBatch::new();
    SendBatch::new().send(&from, b"x", [(0..1, address(&to))]);
    receive(&to, &mut batch, 1);

    assert_eq!(batch.receive(&to).expect("receive"), 0);
    assert_eq!(batch.iter().len(), 0);
}

#[test]
fn a_closed_port_is_reported_with_its_address() {
    for ip in LOOPBACK {
        let from = socket(ip);
        let (closed, _owner) = closed_port(ip);

        let report = SendBatch::new().send(&from, b"INVITE", [(0..6, closed)]);

        assert_eq!(report.sent, 1);
        await_flags(&from, PollFlags::ERR);
        let mut errors = Vec::new();
        let count = read_errors(&from, |to, error, quoted| errors.push((to, error.kind(), quoted.to_vec())))
            .expect("read_errors");
        assert_eq!(count, 1);
        assert_eq!(errors, [(closed, ErrorKind::ConnectionRefused, b"INVITE".to_vec())]);
        assert_eq!(read_errors(&from, |_, _, _| ()).expect("read_errors"), 0, "the queue is empty");
    }
}

#[test]
fn a_closed_port_among_others_costs_no_message_of_the_others() {
    for ip in LOOPBACK {
        let (from, to) = (socket(ip), socket(ip));
        let target = address(&to);
        let (closed, _owner) = closed_port(ip);
        // Over loopback the ICMP error arrives before the next message is sent, and fails that call.
        let mixed = (0..40_usize).map(|i| (i..i + 1, if i % 2 == 0 { closed } else { target }));
        let arena: Vec<u8> = (0..40).collect();

        let report = SendBatch::new().send(&from, &arena, mixed);

        assert_eq!(report, SendReport { sent: 40, dropped: 0 });
        let received = receive(&to, &mut ReceiveBatch::new(), 20);
        let bytes: Vec<u8> = received.iter().map(|(bytes, _)| bytes[0]).collect();
        assert_eq!(bytes, (1..40).step_by(2).collect::<Vec<u8>>());
    }
}

#[test]
fn a_pending_network_error_does_not_cost_the_next_message() {
    for ip in LOOPBACK {
        let (from, to) = (socket(ip), socket(ip));
        let (closed, _owner) = closed_port(ip);
        let mut sending = SendBatch::new();
        sending.send(&from, b"INVITE", [(0..6, closed)]);
        await_flags(&from, PollFlags::ERR);

        let report = sending.send(&from, b"ACK", [(0..3, address(&to))]);

        assert_eq!(report, SendReport { sent: 1, dropped: 0 });
    }
}

#[test]
fn a_pending_network_error_does_not_hide_a_datagram() {
    let (us, peer) = (socket(LOOPBACK[0]), socket(LOOPBACK[0]));
    let mut sending = SendBatch::new();
    sending.send(&peer, b"200", [(0..3, address(&us))]);
    let (closed, _owner) = closed_port(LOOPBACK[0]);
    sending.send(&us, b"INVITE", [(0..6, closed)]);
    await_flags(&us, PollFlags::ERR);

    let mut batch = ReceiveBatch::new();
    assert_eq!(batch.receive(&us).expect("receive"), 1);
    assert_eq!(batch.get(0), (&b"200"[..], address(&peer)));
}

#[test]
fn an_unsendable_message_is_counted_and_the_others_are_sent() {
    for ip in LOOPBACK {
        let (from, to) = (socket(ip), socket(ip));
        let target = address(&to);
        let other_family = SocketAddr::new(if ip.is_ipv4() { LOOPBACK[1] } else { LOOPBACK[0] }, 5060);
        let arena = vec![7_u8; 70_000];
        let too_long = 0..arena.len();
        let mixed = [
            (0..1, target),
            (too_long, target),
            (0..2, other_family),
            (0..3, SocketAddr::new(ip, 0)),
            (0..4, target),
        ];

        let report = SendBatch::new().send(&from, &arena, mixed);

        assert_eq!(report, SendReport { sent: 2, dropped: 3 });
        let received = receive(&to, &mut ReceiveBatch::new(), 2);
        assert_eq!((received[0].0.len(), received[1].0.len()), (1, 4));
    }
}

#[test]
fn datagrams_dropped_for_lack_of_room_are_counted() {
    let from = socket(LOOPBACK[0]);
    let to = UdpSocket::bind(SocketAddr::new(LOOPBACK[0], 0), false, 4_096).expect("bind");
    let target = address(&to);
    let arena = vec![0_u8; 1_000];
    assert_eq!(to.lost_datagrams().expect("counter"), 0);

    SendBatch::new().send(&from, &arena, (0..50).map(|_| (0..1_000, target)));

    let lost = to.lost_datagrams().expect("counter");
    let mut batch = ReceiveBatch::new();
    let kept = batch.receive(&to).expect("receive");
    assert!(lost > 0);
    assert_eq!(kept + lost as usize, 50);
}

#[test]
fn time_stamps_show_how_long_datagrams_waited() {
    for ip in LOOPBACK {
        let (from, to) = (socket(ip), socket(ip));
        let target = address(&to);
        let mut batch = ReceiveBatch::new();
        for stamps in [false, true] {
            if stamps {
                to.stamp().expect("the kernel stamps");
                // On a busy machine stamping starts a moment later; until then the stamp is the time of reading.
                let is_stamped = (0..5_000).any(|_| {
                    SendBatch::new().send(&from, b"a", [(0..1, target)]);
                    std::thread::sleep(Duration::from_millis(1));
                    batch.receive(&to).expect("receive") == 1 && batch.waited(0) >= Duration::from_millis(1)
                });
                assert!(is_stamped, "no datagram is stamped on arrival");
            }
            SendBatch::new().send(&from, b"ab", [(0..1, target)]);
            std::thread::sleep(Duration::from_millis(30));
            SendBatch::new().send(&from, b"ab", [(0..2, target)]);
            // Twice: the headers are reused.
            let mut waited = Vec::new();
            while waited.len() < 2 {
                let count = batch.receive(&to).expect("receive");
                waited.extend((0..count).map(|index| batch.waited(index)));
            }
            let at_least = Duration::from_millis(if stamps { 30 } else { 0 });
            assert!(waited[0] >= at_least && waited[1] <= waited[0], "{waited:?}");
            assert!(stamps || waited == [Duration::ZERO; 2], "{waited:?}");
        }
    }
}

#[test]
fn a_port_is_shared_only_with_reuse_port() {
    for ip in LOOPBACK {
        let first = UdpSocket::bind(SocketAddr::new(ip, 0), true, 65_536).expect("bind");
        let taken = address(&first);

        UdpSocket::bind(taken, true, 65_536).expect("a second socket with reuse_port");
        let error = UdpSocket::bind(taken, false, 65_536).expect_err("a socket without reuse_port");
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
    }
}

#[test]
fn both_families_can_be_bound_to_one_port_of_every_interface() {
    let v4 = socket(Ipv4Addr::UNSPECIFIED.into());
    let same_port = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address(&v4).port());

    let v6 = UdpSocket::bind(same_port, false, 65_536).expect("an IPv6 socket leaves IPv4 alone");

    assert_eq!(address(&v6), same_port);
}

#[test]
fn loopback_is_among_the_local_addresses_and_link_local_is_not() {
    for ip in LOOPBACK {
        let all = local_addresses(ip.is_ipv6()).expect("getifaddrs");

        assert!(all.contains(&ip), "{all:?}");
        for address in all {
            assert_eq!(address.is_ipv6(), ip.is_ipv6());
            assert!(!matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local()));
        }
    }
}

#[test]
fn the_source_towards_loopback_is_loopback() {
    for ip in LOOPBACK {
        assert_eq!(source_address_for(SocketAddr::new(ip, 5060)).expect("route"), ip);
        assert_eq!(source_address_for(SocketAddr::new(ip, 0)).expect("route"), ip, "for any port");
    }
}
