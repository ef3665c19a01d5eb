//! Filter by which the kernel drops a share of the new requests before an overloaded thread reads them
//! (`SO_ATTACH_FILTER` in socket(7)). Far above its capacity, a thread would spend all its time on refusing them.
//!
//! The program drops INVITE requests without a To tag, and REGISTER requests. Emergency calls pass, and so do INVITE
//! requests in which it finds `Resource-Priority`. A hash of the bytes decides about an INVITE, so that its
//! retransmissions are treated alike: a call that is set up late is of no use. A random number decides about a REGISTER,
//! so that each telephone is served at last. An INVITE passes if the program does not understand it: for example if the To
//! field is in an unusual place, not ASCII, or without `<>`.

use super::bpf::{CHECKED, Program, RANDOM, code, words};
use base::Instant;
use overload::ReadShares;
use sockets::{SockFilter, UdpSocket};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Range;
use std::time::Duration;

/// Starts of requests that are dropped, in words of four bytes: those with a `sip`, `sips` or `tel` URI.
const CALLS: [&[u8]; 2] = [b"INVITE s", b"INVITE t"];
const REGISTRATION: &[u8] = b"REGISTER sip";
/// Field of requests that pass. The smaller program does not look for it.
const PRIORITY: &[u8] = b"Resource-Priority";
/// Spellings of To.
const TO: [u32; 2] = [u32::from_be_bytes(*b"\nTo:"), u32::from_be_bytes(*b"\nt: ")];
/// Words that the search for To meets at one of three successive offsets, and their distance from the byte before the
/// line break.
const TO_WORDS: [(u32, u32); 6] = [
    (u32::from_be_bytes(*b"\r\nTo"), 1),
    (u32::from_be_bytes(*b"\r\nt:"), 1),
    (TO[0], 2),
    (TO[1], 2),
    (u32::from_be_bytes(*b"\0\r\nT"), 0),
    (u32::from_be_bytes(*b"\0\r\nt"), 0),
];
/// Distances from the same byte within which the line of To has to end.
const VALUE: Range<u32> = 6..102;
/// Length of the UDP header, which is the start of the data.
const UDP: u32 = 8;
/// Offset at which the searches and the hash begin: within or after the first Via of almost all messages.
const START: u32 = 100;
/// Odd factor of each word in the hash.
const FACTOR: u32 = 0x9e37_79b1;
/// Results: the number of bytes to keep.
const PASS: u32 = u32::MAX;
const DROP: u32 = 0;

/// Instruction that the searches of a program use, and the offsets at which they and the hash end.
struct Size {
    load: u16,
    priority: u32,
    to: u32,
    hash: u32,
}

/// The first program fits twice into 128 KiB (`net.core.optmem_max`), so that the kernel can replace it at once. The
/// second one fits once into 20 KiB, the default of older kernels. X is 0 during its search: such loads need less code,
/// but more time.
const SIZES: [Size; 2] = [
    Size { load: code::LOAD, priority: 960, to: 620, hash: 356 },
    Size { load: code::LOAD_AT_X, priority: 0, to: 340, hash: 196 },
];

/// A program, and the places of its two conditions.
struct Filter {
    program: Vec<SockFilter>,
    calls: usize,
    others: usize,
}

/// The programs for the sockets of a thread.
pub(crate) struct SocketFilter {
    programs: [Filter; 2],
    /// The program in use: the second one if the kernel has no memory for the first one.
    size: usize,
}

impl SocketFilter {
    /// Makes programs whose hash depends on the seed.
    pub(crate) fn new(seed: u32) -> Self {
        Self { programs: SIZES.map(|size| program(seed, &size)), size: 0 }
    }

    /// Makes the kernel pass these shares of the new requests on a socket; `None`: everything. An INVITE that passes also
    /// passes at each larger share. The kernel takes one to two milliseconds to translate the program. If it has too
    /// little memory for the old and the new one, everything passes in this time.
    pub(crate) fn pass(&mut self, socket: &UdpSocket, shares: Option<ReadShares>) -> io::Result<()> {
        let Some(shares) = shares else { return socket.set_filter(None) };
        loop {
            let Filter { program, calls, others } = &mut self.programs[self.size];
            for (place, share) in [(*calls, shares.calls), (*others, shares.others)] {
                program[place] = SockFilter::new(code::JUMP_AT_LEAST, 1, 0, (share * 65_536.0) as u32);
            }
            match socket.set_filter(Some(program)) {
                Err(error) if error.kind() != io::ErrorKind::OutOfMemory => return Err(error),
                Err(_) if self.size == 0 => self.size = 1,
                Err(_) => {
                    socket.set_filter(None)?;
                    return socket.set_filter(Some(program));
                }
                Ok(()) => return Ok(()),
            }
        }
    }
}

/// Shares of the new requests that the kernel passes to a thread. They change in large steps, since a change takes long.
pub(crate) struct ReadShare {
    filter: Option<Box<SocketFilter>>,
    shares: ReadShares,
    changed: Instant,
    /// Datagrams that the kernel had dropped at the last count.
    dropped: u64,
}

/// Shortest time between two changes, long compared with the time of a change.
const CHANGE: Duration = Duration::from_millis(500);
/// Smallest factor of a change.
const STEP: f64 = 1.2;

impl Default for ReadShare {
    fn default() -> Self {
        Self { filter: None, shares: ReadShares::ALL, changed: Instant::ZERO, dropped: 0 }
    }
}

impl ReadShare {
    /// Brings the shares near to these.
    pub(crate) fn set(&mut self, now: Instant, shares: ReadShares, sockets: &[UdpSocket]) {
        let is_near =
            |new: f64, old: f64| (1.0 / STEP..STEP).contains(&(new / old)) && (new < 1.0 || old >= 1.0);
        let are_near = is_near(shares.calls, self.shares.calls) && is_near(shares.others, self.shares.others);
        if are_near || now < self.changed + CHANGE {
            return;
        }
        let seed = || RandomState::new().hash_one(()) as u32;
        let filter = self.filter.get_or_insert_with(|| Box::new(SocketFilter::new(seed())));
        if self.shares.least() >= 1.0 {
            self.dropped = dropped(sockets);
        }
        (self.shares, self.changed) = (shares, now);
        for socket in sockets {
            if let Err(error) = filter.pass(socket, (shares.least() < 1.0).then_some(shares)) {
                tracing::debug!(%error, "the kernel cannot drop new requests unread");
            }
        }
    }

    /// Time from which the kernel can pass everything again; `None` if it does. Requests that it drops do not wake the
    /// thread.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        (self.shares.least() < 1.0).then_some(self.changed + CHANGE)
    }

    /// Number of datagrams that the kernel has dropped since the last call, if it drops some.
    pub(crate) fn unread(&mut self, sockets: &[UdpSocket]) -> u64 {
        if self.shares.least() >= 1.0 {
            return 0;
        }
        let before = std::mem::replace(&mut self.dropped, dropped(sockets));
        self.dropped.saturating_sub(before)
    }

    /// The present shares.
    pub(crate) fn get(&self) -> ReadShares {
        self.shares
    }
}

/// Number of datagrams that the kernel has dropped from these sockets.
fn dropped(sockets: &[UdpSocket]) -> u64 {
    sockets.iter().filter_map(|socket| socket.lost_datagrams().ok()).map(u64::from).sum()
}

fn program(seed: u32, size: &Size) -> Filter {
    let mut program = Program::default();
    check_length(&mut program, START);
    let others = select_registrations(&mut program);
    select_calls(&mut program);
    let priority: Vec<_> = words(PRIORITY).collect();
    let passing = program.search(size.load, &priority, priority.len(), START..size.priority);
    let found = program.search(size.load, &TO_WORDS.map(|(word, _)| word), 3, START..size.to);
    program.land(&passing);
    program.step(code::RETURN, PASS);
    let places = program.locate(TO_WORDS.into_iter(), &found);
    program.land(&places);
    select_lines(&mut program);
    let calls = decide_by_hash(&mut program, seed, size.hash);
    Filter { program: program.finish(), calls, others }
}

/// Passes datagrams that have fewer bytes after X, since a load beyond the end drops.
fn check_length(program: &mut Program, length: u32) {
    program.step(code::LOAD_LENGTH, 0);
    program.step(code::SUBTRACT_X, 0);
    program.0.push((code::JUMP_AT_LEAST, 1, 0, length));
    program.step(code::RETURN, PASS);
}

/// Skips the next instructions, of this number, in messages with another start.
fn select_start(program: &mut Program, start: &[u8], skipped: usize) {
    for offset in (0..start.len()).step_by(4) {
        program.step(code::LOAD, UDP + offset as u32);
        let word = words(&start[offset..]).next().unwrap_or_default();
        program.unless(code::JUMP_EQUAL, word, (start.len() - offset) / 2 - 2 + skipped);
    }
}

/// Decides about registrations. Returns the place of the condition.
fn select_registrations(program: &mut Program) -> usize {
    select_start(program, REGISTRATION, 5);
    program.step(code::LOAD, RANDOM);
    program.step(code::SHIFT_RIGHT, 16);
    decide(program)
}

/// Passes messages without any start of [`CALLS`].
fn select_calls(program: &mut Program) {
    let mut selected = Vec::new();
    for start in CALLS {
        select_start(program, start, 1);
        selected.push(program.jump());
    }
    program.step(code::RETURN, PASS);
    program.land(&selected);
}

/// Passes messages unless To is at X and its line ends with `>`, so that it has no tag.
fn select_lines(program: &mut Program) {
    check_length(program, VALUE.start);
    program.step(code::LOAD_AT_X, 2);
    program.0.push((code::JUMP_EQUAL, 2, 0, TO[0]));
    program.0.push((code::JUMP_EQUAL, 1, 0, TO[1]));
    program.step(code::RETURN, PASS);
    let (mut ends, mut selected) = (Vec::new(), Vec::new());
    for offset in VALUE.step_by(4) {
        if (offset - VALUE.start).is_multiple_of(24) {
            check_length(program, offset + CHECKED);
        }
        program.step(code::LOAD_AT_X, offset);
        // Sets the high bit of a control character, and of others only if the text is not ASCII.
        program.step(code::SUBTRACT, 0x2020_2020);
        program.unless(code::JUMP_SET, 0x8080_8080, 2);
        program.step(code::LOAD_NUMBER, offset - 1);
        ends.push(program.jump());
    }
    program.step(code::RETURN, PASS);
    program.land(&ends);
    program.step(code::ADD_X, 0);
    program.step(code::A_TO_X, 0);
    for offset in 0..4 {
        program.step(code::LOAD_AT_X, offset);
        // The next line must not start with a space, which would continue this one.
        program.step(code::SUBTRACT, u32::from_be_bytes(*b">\r\n!"));
        program.0.push((code::JUMP_AT_LEAST, 1, 0, 0x100 - u32::from(b'!')));
        selected.push(program.jump());
    }
    program.step(code::RETURN, PASS);
    program.land(&selected);
}

/// Drops a message if the number in A is too large. [`SocketFilter::pass`] replaces the condition, whose place this
/// function returns.
fn decide(program: &mut Program) -> usize {
    program.unless(code::JUMP_AT_LEAST, 0, 0);
    program.step(code::RETURN, PASS);
    program.step(code::RETURN, DROP);
    program.0.len() - 3
}

/// Decides by a hash of the words of the message. Returns the place of the condition.
fn decide_by_hash(program: &mut Program, seed: u32, end: u32) -> usize {
    program.step(code::LOAD_NUMBER, seed);
    program.step(code::A_TO_X, 0);
    let mut too_short = Vec::new();
    for offset in (START..end).step_by(4) {
        if (offset - START).is_multiple_of(CHECKED) {
            too_short.push(program.jump_if_shorter(offset + CHECKED));
        }
        program.step(code::LOAD, offset);
        program.step(code::XOR_X, 0);
        program.step(code::MULTIPLY, FACTOR);
        program.step(code::A_TO_X, 0);
    }
    program.land(&too_short);
    // The low bits of a product depend only on the low bits of its factors.
    program.step(code::X_TO_A, 0);
    program.step(code::SHIFT_RIGHT, 16);
    program.step(code::XOR_X, 0);
    program.step(code::MULTIPLY, FACTOR);
    program.step(code::SHIFT_RIGHT, 16);
    decide(program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net;

    const NEW: &str = "To: <sip:a@example.com>";

    /// A socket with a filter, and a client.
    struct Pair {
        filter: SocketFilter,
        socket: UdpSocket,
        receiver: net::UdpSocket,
        client: net::UdpSocket,
    }

    impl Pair {
        /// Makes pairs of both families, with each program.
        fn all() -> impl Iterator<Item = Self> {
            [("127.0.0.1:0", 0), ("[::1]:0", 0), ("127.0.0.1:0", 1), ("[::1]:0", 1)]
                .into_iter()
                .map(Self::new)
        }

        fn new((ip, size): (&str, usize)) -> Self {
            let socket = UdpSocket::bind(ip.parse().unwrap(), false, 65_536).unwrap();
            let client = net::UdpSocket::bind(ip).unwrap();
            client.connect(socket.local_addr().unwrap()).unwrap();
            let filter = SocketFilter { size, ..SocketFilter::new(7) };
            Self { filter, receiver: socket.copy().unwrap().into(), socket, client }
        }

        fn share(&mut self, calls: impl Into<Option<f64>>) {
            let shares = calls.into().map(|calls| ReadShares { calls, others: calls });
            self.filter.pass(&self.socket, shares).unwrap();
        }

        fn passes(&self, datagram: impl AsRef<[u8]>) -> bool {
            let before = self.socket.lost_datagrams().unwrap();
            self.client.send(datagram.as_ref()).unwrap();
            loop {
                if self.receiver.recv(&mut [0; 2048]).is_ok() {
                    return true;
                }
                if self.socket.lost_datagrams().unwrap() != before {
                    return false;
                }
            }
        }
    }

    fn message(start: &str, number: usize, fields: &str) -> String {
        let via = "Via: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK";
        let from = "From: \"A\" <sip:b@example.com>;tag=";
        let rest = "CSeq: 1 INVITE\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n";
        format!(
            "{start} SIP/2.0\r\n{via}{number}\r\n{from}{number}\r\n{fields}\r\nCall-ID: {number}\r\n{rest}"
        )
    }

    #[test]
    fn only_new_requests_are_dropped() {
        /// Starts and fields of requests, and whether they pass.
        type Cases = (&'static [&'static str], &'static [&'static str], bool);
        const NEW_CASES: Cases = (
            &["INVITE sip:a@example.com", "INVITE tel:+4930", "REGISTER sips:example.com"],
            &[
                "To:<sip:a;user=phone>\r\nt: <sip:a>;tag=1",
                "t: \"~;tag=\" <sip:a>",
                "Reply-To: <sip:a>;tag=1\r\nt: <sip:~>",
            ],
            false,
        );
        const OTHER_CASES: Cases = (
            &[
                "INVITE urn:service:sos",
                "INVITES sip:a",
                "REGISTERS sip:a",
                "ACK sip:a",
                "BYE sip:a",
                "CANCEL sip:a",
                "OPTIONS sip:a",
                "SIP/2.0 200",
            ],
            &[
                "To: <sip:~>;tag=1",
                "t: <sip:~>;tag=1",
                "To: <sip:~>\r\n\t;tag=1",
                "To: <sip:~>\r\n ;tag=1",
                "To: sip:~",
                "TO: <sip:a>",
                "Topic: <sip:a>",
                "To: \"~~~~~~~~~~~\" <sip:example.com>",
            ],
            true,
        );
        for mut pair in Pair::all() {
            pair.share(0.0);
            for length in 10..40 {
                let filler = "x".repeat(length);
                let check = |start: &str, field: &str, passes: bool| {
                    let fields = format!("X: {filler}\r\n{}", field.replace('~', &filler));
                    let datagram = message(start, length, &fields);
                    assert_eq!(pair.passes(&datagram), passes, "{datagram}");
                };
                for (starts, fields, passes) in [NEW_CASES, OTHER_CASES] {
                    for start in starts {
                        check(start, NEW, passes);
                    }
                    for field in fields {
                        check("INVITE sip:a", field, passes);
                    }
                }
                check("INVITE sip:a", "To: <sip:a>\r\nResource-Priority: ets.0", pair.filter.size == 0);
            }
            assert!(["", "\r\n\r\n", &"\u{e9}".repeat(500)].iter().all(|text| pair.passes(text)));
        }
    }

    #[test]
    fn cut_messages_pass() {
        for mut pair in Pair::all() {
            pair.share(0.0);
            for (length, tag) in (0..64).map(|n| (n / 2, ["", ";tag=1"][n % 2])) {
                let datagram = message("INVITE sip:a", length, &format!("X: {:length$}\r\n{NEW}{tag}", ""));
                let line = datagram.find("\r\nCall-ID").unwrap() + 3;
                let passes = |length: usize| pair.passes(&datagram[..length]);
                assert!((0..line).all(passes), "{datagram}");
                assert_eq!((line..=datagram.len()).all(passes), !tag.is_empty(), "{datagram}");
                assert!(pair.passes(format!("INVITE sip:{:1$}", "", length * 40)));
            }
        }
    }

    #[test]
    fn a_share_passes_that_grows_and_stays_the_same_for_retransmissions() {
        for mut pair in Pair::all() {
            let messages: Vec<_> =
                (0..2000).map(|number| message("INVITE sip:a@example.com", number, NEW)).collect();
            let mut before = vec![false; messages.len()];
            for share in [0.0, 0.02, 0.3, 0.9, 1.0] {
                pair.share(share);
                let [passing, again] =
                    [0; 2].map(|_| messages.iter().map(|message| pair.passes(message)).collect::<Vec<_>>());
                assert_eq!(passing, again);
                assert!(before.iter().zip(&passing).all(|(before, now)| before <= now));
                let count = passing.iter().filter(|passes| **passes).count() as f64;
                assert!((count / 2000.0 - share).abs() < 0.03, "{count} at {share}");
                before = passing;
            }
            pair.share(0.0);
            assert!(!pair.passes(&messages[0]));
            pair.share(None);
            pair.share(None);
            assert!(pair.passes(&messages[0]));
            pair.filter.pass(&pair.socket, Some(ReadShares { calls: 0.0, others: 0.3 })).unwrap();
            let register = message("REGISTER sip:example.com", 1, NEW);
            let count = (0..2000).filter(|_| pair.passes(&register)).count();
            assert!(count.abs_diff(600) < 100, "{count}: each copy of a REGISTER has another chance");
        }
    }
}
