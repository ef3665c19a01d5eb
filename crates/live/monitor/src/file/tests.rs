//! Capture files as capture programs write them.

use super::*;

type Packets = Vec<(u64, LinkLayer, Vec<u8>)>;

fn read_all(bytes: &[u8]) -> (Packets, Result<(), FileError>) {
    let mut packets = Vec::new();
    let outcome = read(bytes, |at, link, bytes| packets.push((at.as_nanos(), link, bytes.to_vec())));
    (packets, outcome)
}

/// Returns a capture file with this number of packets, as this crate writes it.
fn written(packets: usize) -> Vec<u8> {
    let mut file = header().to_vec();
    for number in 0..packets {
        let packet = vec![number as u8; number * 5_000 % 70_000];
        file.extend(record(Instant::from_nanos(1_700_000_000_123_456_789 + number as u64), packet.len()));
        file.extend(packet);
    }
    file
}

#[test]
fn a_written_file_is_read_back() {
    let (packets, outcome) = read_all(&written(60));
    assert_eq!((packets.len(), outcome), (60, Ok(())));
    for (number, (at, link, bytes)) in packets.into_iter().enumerate() {
        assert_eq!((at, link), (1_700_000_000_123_456_789 + number as u64, LinkLayer::Ip));
        assert_eq!(bytes, vec![number as u8; number * 5_000 % 70_000]);
    }
}

#[test]
fn microseconds_of_a_big_endian_machine() {
    let fields = [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 65_535, 1, 100, 7, 3, 3];
    let mut file: Vec<u8> = fields.iter().flat_map(|field| field.to_be_bytes()).collect();
    file.extend(b"abc");
    assert_eq!(read_all(&file), (vec![(100_000_007_000, LinkLayer::Ethernet, b"abc".to_vec())], Ok(())));
}

/// A block of pcapng.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let length = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes()[..], &length, &body, &length].concat()
}

fn pcapng() -> Vec<u8> {
    let section = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    let plain = [101, 0, 0, 0, 0, 0, 0, 0];
    // Option 9: times in nanoseconds.
    let fine = [&[1, 0, 0, 0, 0, 0, 0, 0][..], &[9, 0, 1, 0, 9, 0, 0, 0], &[0; 4]].concat();
    let packet = |interface: u32, time: u64, bytes: &[u8]| {
        let fields = [interface, (time >> 32) as u32, time as u32, bytes.len() as u32, bytes.len() as u32];
        let mut body: Vec<u8> = fields.iter().flat_map(|field| field.to_le_bytes()).collect();
        body.extend(bytes);
        block(6, &body)
    };
    [
        block(0x0a0d_0d0a, &section),
        block(1, &plain),
        block(1, &fine),
        packet(0, 5_000_001, b"one"),
        packet(1, 6_000_000_002, b"two"),
        // Statistics.
        block(5, &[0; 12]),
    ]
    .concat()
}

#[test]
fn pcapng_with_two_interfaces() {
    let expected = vec![
        (5_000_001_000, LinkLayer::Ip, b"one".to_vec()),
        (6_000_000_002, LinkLayer::Ethernet, b"two".to_vec()),
    ];
    assert_eq!(read_all(&pcapng()), (expected, Ok(())));
}

#[test]
fn a_fault_is_reported_after_the_readable_packets() {
    for bytes in [&b""[..], b"short", b"#!/bin/sh\necho this is no capture file\n", &[0; 100]] {
        assert_eq!(read_all(bytes), (vec![], Err(FileError::NotCapture)));
    }
    let mut wireless = header();
    wireless[20] = 105;
    assert_eq!(read_all(&wireless).1, Err(FileError::Link(105)));
    for (file, packets) in [(written(3), 2), (pcapng(), 1)] {
        let cut = if packets == 2 { 5 } else { 40 };
        let (read, outcome) = read_all(&file[..file.len() - cut]);
        assert_eq!((read.len(), outcome), (packets, Err(FileError::Truncated)));
    }
}

#[test]
fn a_file_may_come_in_small_pieces() {
    struct Pieces<'a>(&'a [u8]);
    impl Read for Pieces<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let part = self.0.len().min(7).min(into.len());
            into[..part].copy_from_slice(&self.0[..part]);
            self.0 = &self.0[part..];
            Ok(part)
        }
    }
    let file = written(4);
    // The kind of the file is recognised in the first piece, so the header is in one piece.
    let (head, rest) = file.split_at(24);
    let mut count = 0;
    assert_eq!(read(head.chain(Pieces(rest)), |_, _, _| count += 1), Ok(()));
    assert_eq!(count, 4);
}
