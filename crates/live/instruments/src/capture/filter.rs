//! The kernel's filter of a capture, in classic BPF (`linux/filter.h`): only packets to or from the server are copied.
//!
//! The filter accepts IPv4 and IPv6 to or from an address of the server, with UDP or TCP and a port of the server or of
//! next hops. Fragments after the first have no ports, and are accepted by address. Packets whose VLAN tag the network
//! card has left in, and IPv6 with other extensions, are always accepted, since both are rare. A packet sent over
//! loopback is seen twice, and accepted when it comes in.

use socket2::SockFilter;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Most addresses, and ports, in a filter: far below the kernel's limit for programs.
pub(super) const MOST: usize = 32;

/// Accepted packets are copied whole.
const WHOLE: u32 = 1 << 18;

/// An instruction: code, number of instructions to skip if true and if false, operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Step {
    code: u16,
    jt: u8,
    jf: u8,
    k: u32,
}

/// Codes, such as `BPF_LD | BPF_W | BPF_ABS`.
mod code {
    pub(super) const LOAD_WORD: u16 = 0x20;
    pub(super) const LOAD_HALF: u16 = 0x28;
    pub(super) const LOAD_BYTE: u16 = 0x30;
    /// Relative to X.
    pub(super) const LOAD_HALF_X: u16 = 0x48;
    /// Sets X to four times the low half of a byte: the length of an IPv4 header.
    pub(super) const LOAD_X_HEADER: u16 = 0xb1;
    pub(super) const JUMP: u16 = 0x05;
    pub(super) const JUMP_EQUAL: u16 = 0x15;
    pub(super) const JUMP_SET: u16 = 0x45;
    pub(super) const RETURN: u16 = 0x06;
}

/// Ancillary data of a packet: offsets from `SKF_AD_OFF`.
mod ancillary {
    const OFF: u32 = (-0x1000_i32).cast_unsigned();
    pub(super) const PROTOCOL: u32 = OFF;
    pub(super) const PACKET_TYPE: u32 = OFF + 4;
    pub(super) const HARDWARE: u32 = OFF + 28;
}

const OUTGOING: u32 = 4;
const LOOPBACK: u32 = 772;
const TCP: u32 = 6;
const UDP: u32 = 17;
const FRAGMENT: u32 = 44;

/// A program under construction.
#[derive(Default)]
struct Program(Vec<Step>);

impl Program {
    fn step(&mut self, code: u16, k: u32) {
        self.0.push(Step { code, jt: 0, jf: 0, k });
    }

    fn accept(&mut self) {
        self.step(code::RETURN, WHOLE);
    }

    fn reject(&mut self) {
        self.step(code::RETURN, 0);
    }

    /// Adds `then`, which runs if the value is equal.
    fn if_equal(&mut self, value: u32, then: impl FnOnce(&mut Self)) {
        self.conditional(code::JUMP_EQUAL, value, then);
    }

    /// Adds `then`, which runs if the value has one of these bits.
    fn if_any_bit(&mut self, bits: u32, then: impl FnOnce(&mut Self)) {
        self.conditional(code::JUMP_SET, bits, then);
    }

    fn conditional(&mut self, code: u16, k: u32, then: impl FnOnce(&mut Self)) {
        // A jump reaches further than a condition.
        self.0.push(Step { code, jt: 1, jf: 0, k });
        let over = self.0.len();
        self.step(code::JUMP, 0);
        then(self);
        self.land(over);
    }

    /// Makes the jump at `from` go to the next instruction.
    fn land(&mut self, from: usize) {
        self.0[from].k = (self.0.len() - from - 1) as u32;
    }

    /// Continues after this if one of `checks` holds, and rejects otherwise. Each check adds a jump for the case that
    /// it holds.
    fn require(&mut self, checks: impl FnOnce(&mut Self, &mut Vec<usize>)) {
        let mut holds = Vec::new();
        checks(self, &mut holds);
        self.reject();
        for from in holds {
            self.land(from);
        }
    }

    fn jump(&mut self, holds: &mut Vec<usize>) {
        holds.push(self.0.len());
        self.step(code::JUMP, 0);
    }

    /// Accepts if the value is one of these.
    fn accept_any(&mut self, values: &BTreeSet<u16>) {
        for value in values {
            self.if_equal((*value).into(), Self::accept);
        }
    }
}

/// Makes a filter for a server at these addresses, whose next hops may have one of these ports.
pub(super) fn filter(servers: &[SocketAddr], next_ports: &[u16]) -> Vec<SockFilter> {
    let steps = steps(servers, next_ports);
    steps.into_iter().map(|Step { code, jt, jf, k }| SockFilter::new(code, jt, jf, k)).collect()
}

fn steps(servers: &[SocketAddr], next_ports: &[u16]) -> Vec<Step> {
    let (mut v4, mut v6, mut ports) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for server in servers {
        ports.insert(server.port());
        match server.ip() {
            IpAddr::V4(ip) => drop(v4.insert(ip)),
            IpAddr::V6(ip) => drop(v6.insert(ip)),
        }
    }
    ports.extend(next_ports);
    let mut program = Program::default();
    program.step(code::LOAD_WORD, ancillary::PACKET_TYPE);
    program.if_equal(OUTGOING, |program| {
        program.step(code::LOAD_WORD, ancillary::HARDWARE);
        program.if_equal(LOOPBACK, Program::reject);
    });
    program.step(code::LOAD_WORD, ancillary::PROTOCOL);
    program.if_equal(0x0800, |program| ipv4(program, &v4, &ports));
    program.if_equal(0x86dd, |program| ipv6(program, &v6, &ports));
    for tagged in [0x8100, 0x88a8] {
        program.if_equal(tagged, Program::accept);
    }
    program.reject();
    program.0
}

fn ipv4(program: &mut Program, addresses: &BTreeSet<Ipv4Addr>, ports: &BTreeSet<u16>) {
    program.step(code::LOAD_BYTE, 9);
    program.require(|program, holds| {
        for protocol in [UDP, TCP] {
            program.if_equal(protocol, |program| program.jump(holds));
        }
    });
    program.require(|program, holds| {
        for at in [12, 16] {
            program.step(code::LOAD_WORD, at);
            for address in addresses {
                program.if_equal(address.to_bits(), |program| program.jump(holds));
            }
        }
    });
    program.step(code::LOAD_HALF, 6);
    program.if_any_bit(0x1fff, Program::accept);
    program.step(code::LOAD_X_HEADER, 0);
    for at in [0, 2] {
        program.step(code::LOAD_HALF_X, at);
        program.accept_any(ports);
    }
    program.reject();
}

fn ipv6(program: &mut Program, addresses: &BTreeSet<Ipv6Addr>, ports: &BTreeSet<u16>) {
    program.require(|program, holds| {
        for at in [8, 24] {
            for address in addresses {
                words(program, at, address, holds);
            }
        }
    });
    program.step(code::LOAD_BYTE, 6);
    // Hop-by-hop options, routing, and destination options: the ports are at an unknown place after them.
    for extension in [FRAGMENT, 0, 43, 60] {
        program.if_equal(extension, Program::accept);
    }
    program.require(|program, holds| {
        for protocol in [UDP, TCP] {
            program.if_equal(protocol, |program| program.jump(holds));
        }
    });
    for at in [40, 42] {
        program.step(code::LOAD_HALF, at);
        program.accept_any(ports);
    }
    program.reject();
}

/// Adds to `holds` a jump if the address is at this place: its four words are compared one within the other.
fn words(program: &mut Program, at: u32, address: &Ipv6Addr, holds: &mut Vec<usize>) {
    let bits = address.to_bits();
    compare(program, at, &[96, 64, 32, 0].map(|shift| (bits >> shift) as u32), holds);
}

fn compare(program: &mut Program, at: u32, words: &[u32], holds: &mut Vec<usize>) {
    let Some((word, rest)) = words.split_first() else { return program.jump(holds) };
    program.step(code::LOAD_WORD, at);
    program.if_equal(*word, |program| compare(program, at + 4, rest, holds));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet as the kernel shows it to a filter.
    #[derive(Clone)]
    struct Shown {
        kind: u32,
        outgoing: bool,
        hardware: u32,
        bytes: Vec<u8>,
    }

    /// Runs a program as the kernel does (`bpf(4)` of the BSDs describes it).
    fn run(steps: &[Step], packet: &Shown) -> bool {
        let (mut a, mut x, mut at) = (0_u32, 0_u32, 0);
        let load = |at: u32, width: u32| {
            let bytes = packet.bytes.get(at as usize..(at + width) as usize)?;
            Some(bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
        };
        for _ in 0..4096 {
            let Step { code, jt, jf, k } = steps[at];
            at += 1;
            let loaded = match (code, k) {
                (code::LOAD_WORD, ancillary::PROTOCOL) => Some(packet.kind),
                (code::LOAD_WORD, ancillary::PACKET_TYPE) => Some(if packet.outgoing { OUTGOING } else { 0 }),
                (code::LOAD_WORD, ancillary::HARDWARE) => Some(packet.hardware),
                (code::LOAD_WORD, k) => load(k, 4),
                (code::LOAD_HALF, k) => load(k, 2),
                (code::LOAD_BYTE, k) => load(k, 1),
                (code::LOAD_HALF_X, k) => load(x + k, 2),
                (code::LOAD_X_HEADER, k) => load(k, 1).map(|byte| {
                    x = (byte & 15) * 4;
                    a
                }),
                (code::JUMP, k) => {
                    at += k as usize;
                    Some(a)
                }
                (code::JUMP_EQUAL | code::JUMP_SET, k) => {
                    let holds = if code == code::JUMP_EQUAL { a == k } else { a & k != 0 };
                    at += usize::from(if holds { jt } else { jf });
                    Some(a)
                }
                (code::RETURN, k) => return k > 0,
                other => panic!("{other:?}"),
            };
            // A load beyond the end rejects.
            let Some(loaded) = loaded else { return false };
            a = loaded;
        }
        panic!("the program does not end");
    }

    fn v4(protocol: u8, from: &str, to: &str, fragment: u16, options: usize) -> Shown {
        let [from, to] = [from, to].map(|text| text.parse().expect("an address"));
        let (SocketAddr::V4(from), SocketAddr::V4(to)) = (from, to) else { panic!("IPv4") };
        let mut bytes = vec![0x45 + options as u8, 0, 0, 0, 0, 0];
        bytes.extend(fragment.to_be_bytes());
        bytes.extend([64, protocol, 0, 0]);
        bytes.extend(from.ip().octets());
        bytes.extend(to.ip().octets());
        bytes.resize(20 + 4 * options, 1);
        bytes.extend(from.port().to_be_bytes());
        bytes.extend(to.port().to_be_bytes());
        bytes.extend([0; 20]);
        Shown { kind: 0x0800, outgoing: false, hardware: 1, bytes }
    }

    fn v6(protocol: u8, from: &str, to: &str) -> Shown {
        let [from, to] = [from, to].map(|text| text.parse().expect("an address"));
        let (SocketAddr::V6(from), SocketAddr::V6(to)) = (from, to) else { panic!("IPv6") };
        let mut bytes = vec![0x60, 0, 0, 0, 0, 0, protocol, 64];
        bytes.extend(from.ip().octets());
        bytes.extend(to.ip().octets());
        bytes.extend(from.port().to_be_bytes());
        bytes.extend(to.port().to_be_bytes());
        Shown { kind: 0x86dd, outgoing: false, hardware: 1, bytes }
    }

    fn passes(packet: &Shown) -> bool {
        let servers = ["10.0.0.1:5060", "10.0.0.7:5080", "[2001:db8::1]:5060", "[2001:db8::2]:5062"];
        let servers = servers.map(|text| text.parse().expect("an address"));
        run(&steps(&servers, &[5070]), packet)
    }

    #[test]
    fn packets_of_the_server_pass() {
        for protocol in [17, 6] {
            assert!(passes(&v4(protocol, "10.0.0.2:9", "10.0.0.1:5060", 0, 0)));
            assert!(passes(&v4(protocol, "10.0.0.7:5080", "10.0.0.2:9", 0, 0)));
            assert!(passes(&v4(protocol, "10.0.0.1:40000", "10.0.0.2:5070", 0, 0)), "to a next hop");
            assert!(passes(&v4(protocol, "10.0.0.2:9", "10.0.0.1:5060", 0, 3)), "with options");
            assert!(passes(&v6(protocol, "[2001:db8::9]:9", "[2001:db8::1]:5060")));
            assert!(passes(&v6(protocol, "[2001:db8::2]:5062", "[2001:db8::9]:9")));
        }
        assert!(passes(&v6(44, "[2001:db8::9]:9", "[2001:db8::2]:9")), "a fragment");
        assert!(passes(&v4(17, "10.0.0.1:9", "10.0.0.9:9", 100, 0)), "a fragment after the first");
    }

    #[test]
    fn other_packets_are_rejected() {
        assert!(!passes(&v4(17, "10.0.0.2:5060", "10.0.0.3:5060", 0, 0)), "calls between other hosts");
        assert!(!passes(&v4(17, "10.0.0.2:9", "10.0.0.1:53", 0, 0)), "another port");
        assert!(!passes(&v4(17, "10.0.0.2:9", "10.0.0.1:53", 0, 3)), "another port behind options");
        assert!(!passes(&v4(1, "10.0.0.2:5060", "10.0.0.1:5060", 0, 0)), "ICMP");
        assert!(!passes(&v4(17, "10.0.0.2:9", "10.0.0.3:9", 100, 0)), "fragments between other hosts");
        assert!(!passes(&v6(17, "[2001:db8::9]:5060", "[2001:db8::8]:5060")));
        assert!(!passes(&v6(17, "[2001:db8::9]:9", "[2001:db8::1]:9")));
        assert!(!passes(&v6(58, "[2001:db8::9]:9", "[2001:db8::1]:5060")), "ICMPv6");
        let arp = Shown { kind: 0x0806, ..v4(17, "10.0.0.2:9", "10.0.0.1:5060", 0, 0) };
        assert!(!passes(&arp));
        let empty = Shown { bytes: Vec::new(), ..v4(17, "10.0.0.2:9", "10.0.0.1:5060", 0, 0) };
        assert!(!passes(&empty));
    }

    #[test]
    fn loopback_packets_are_captured_once() {
        let packet = v4(17, "10.0.0.2:9", "10.0.0.1:5060", 0, 0);
        let out = Shown { outgoing: true, ..packet.clone() };
        assert!(passes(&out));
        assert!(!passes(&Shown { hardware: LOOPBACK, ..out }));
        assert!(passes(&Shown { hardware: LOOPBACK, ..packet }));
    }

    #[test]
    fn the_largest_filter_is_within_the_kernels_limits() {
        let address = |n: u16| SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, n], 5060 + n));
        let servers: Vec<_> = (0..MOST as u16).map(address).collect();
        let steps = steps(&servers, &[]);
        assert!(steps.len() <= 4096);
        // The kernel limits programs by `net.core.optmem_max`, which is at least 20 KiB.
        assert!(steps.len() * 8 <= 20 << 10, "{} steps", steps.len());
        let last = v6(17, "[2001:db8::1f]:1", "[2001:db8::77]:5091");
        assert!(run(&steps, &last));
    }
}
