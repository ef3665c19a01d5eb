//! Program by which the kernel passes each datagram to the thread of its call (`SO_ATTACH_REUSEPORT_CBPF` in
//! socket(7)).
//!
//! The program looks for the Call-ID in two spellings and computes its [`ShardHash`]. If it does not find the Call-ID, the
//! kernel chooses a thread by the addresses. A datagram may reach a wrong thread for any reason, and is then handed over.
//! Only datagrams that end within a Call-ID, or within a text that resembles one, get socket 0, as a load beyond the end
//! returns 0.

use super::bpf::{Program, code, words};
use node::{CallHash, ShardHash};
use sockets::SockFilter;
use std::os::fd::OwnedFd;

/// The header field with the line break before it. All spellings are at most as long as the first one.
const SPELLINGS: [&[u8]; 2] = [b"\r\nCall-ID: ", b"\r\ni: "];
/// Offsets in the datagram at which the search for each spelling ends; 0: the spelling is not searched. Each row is a
/// program. The kernel accepts at most 4,096 instructions, and translated code of at most `net.core.optmem_max` bytes.
/// The first program fits into 128 KiB, the second one into 20 KiB, the default of older kernels.
const REACHES: [[u32; 2]; 2] = [[1400, 400], [640, 0]];
/// Offset at which the search begins. A compact Call-ID directly after a shorter first line, such as `SIP/2.0 200 OK`,
/// is not found.
const START: u32 = 16;
/// Result without a Call-ID: the number of no socket.
const NO_SOCKET: u32 = u32::MAX;

/// Makes the kernel choose a thread for each datagram. Each set has a socket for each address; the first set belongs to
/// the first thread, and so on. The sets are in the order in which they were bound.
pub fn steer(sets: &[Vec<OwnedFd>], hash: CallHash, threads: usize) {
    if threads == 1 {
        return;
    }
    let programs = REACHES.map(|reach| program(hash.shard_hash(), threads, reach));
    // A program is for all sockets of an address.
    for socket in sets.iter().take(1).flatten() {
        let attach = |index: usize| sockets::attach_program(socket, &programs[index]);
        if let Err(error) = attach(0).or_else(|_| attach(1)) {
            tracing::info!(%error, "the kernel cannot choose threads by Call-ID: more datagrams move between threads");
        }
    }
}

/// Cells of the program's memory.
mod cell {
    pub(super) const HASH: u32 = 0;
    pub(super) const WORD: u32 = 1;
    /// Offset of the value, less the length of the first spelling.
    pub(super) const PLACE: u32 = 2;
}

fn program(hash: ShardHash, threads: usize, reaches: [u32; 2]) -> Vec<SockFilter> {
    let mut program = Program::default();
    let found = [0, 1].map(|index| {
        let words: Vec<_> = words(SPELLINGS[index]).collect();
        program.search(code::LOAD, &words, words.len(), START..reaches[index])
    });
    program.step(code::RETURN, NO_SOCKET);
    let [long, short] = [0, 1].map(|index| {
        // After this, X is [`cell::PLACE`].
        let shorter = SPELLINGS[0].len() - SPELLINGS[index].len();
        program.locate(words(SPELLINGS[index]).zip(shorter as u32..), &found[index])
    });
    program.land(&long);
    verify(&mut program);
    program.land(&short);
    compute(&mut program, hash, threads as u32);
    program.finish()
}

/// Compares the first and the last word of the first spelling, as texts such as "Call Center" contain a word of it.
fn verify(program: &mut Program) {
    for (offset, word) in words(SPELLINGS[0]).enumerate().step_by(words(SPELLINGS[0]).len() - 1) {
        program.step(code::LOAD_AT_X, offset as u32);
        program.0.push((code::JUMP_EQUAL, 1, 0, word));
        program.step(code::RETURN, NO_SOCKET);
    }
}

/// Computes [`ShardHash::shard_of`] for the value up to the end of its line.
fn compute(program: &mut Program, hash: ShardHash, threads: u32) {
    program.step(code::STORE_X, cell::PLACE);
    program.step(code::LOAD_NUMBER, hash.start);
    program.step(code::STORE, cell::HASH);
    let (mut ends, mut done) = (Vec::new(), Vec::new());
    for offset in (0..ShardHash::BYTES).step_by(4) {
        program.step(code::LOAD_AT_X, (SPELLINGS[0].len() + offset) as u32);
        program.step(code::STORE, cell::WORD);
        // Sets the high bit of a byte that was CR, and of others only if the text is not ASCII.
        program.step(code::XOR, 0x0d0d_0d0d);
        program.step(code::SUBTRACT, 0x0101_0101);
        program.unless(code::JUMP_SET, 0x8080_8080, 1);
        ends.push(program.jump());
        mix(program, hash, 0);
    }
    done.push(program.jump());
    program.land(&ends);
    for bytes in 0..4 {
        let shift = 24 - 8 * bytes;
        program.step(code::LOAD_CELL, cell::WORD);
        program.step(code::SHIFT_RIGHT, shift);
        program.step(code::AND, 0xff);
        let end = program.0.len();
        program.unless(code::JUMP_EQUAL, u32::from(b'\r'), 0);
        if bytes > 0 {
            mix(program, hash, shift + 8);
        }
        done.push(program.jump());
        program.0[end].2 = (program.0.len() - end - 1) as u8;
    }
    program.step(code::RETURN, NO_SOCKET);
    program.land(&done);
    program.step(code::LOAD_CELL, cell::HASH);
    program.step(code::SHIFT_RIGHT, 16);
    program.step(code::LOAD_X_CELL, cell::HASH);
    program.step(code::XOR_X, 0);
    program.step(code::MULTIPLY, hash.last_factor);
    program.step(code::SHIFT_RIGHT, 16);
    program.step(code::MODULO, threads);
    program.step(code::RETURN_A, 0);
}

/// Adds the word, without its last `shift` bits, to the hash.
fn mix(program: &mut Program, hash: ShardHash, shift: u32) {
    program.step(code::LOAD_CELL, cell::WORD);
    program.step(code::SHIFT_RIGHT, shift);
    program.step(code::LOAD_X_CELL, cell::HASH);
    program.step(code::XOR_X, 0);
    program.step(code::MULTIPLY, hash.factor);
    program.step(code::STORE, cell::HASH);
    program.step(code::LOAD_X_CELL, cell::PLACE);
}

#[cfg(test)]
mod tests {
    use super::*;
    use node::{TokenKey, Tokens};
    use std::collections::BTreeSet;
    use std::iter;
    use std::net::{SocketAddr, UdpSocket};
    use std::time::Duration;

    /// Sockets of an address, one for each thread.
    struct Group {
        tokens: Tokens,
        sockets: Vec<UdpSocket>,
        address: SocketAddr,
    }

    impl Group {
        fn new(ip: &str, threads: usize) -> Self {
            let bind = |address| sockets::UdpSocket::bind(address, true, 65_536).unwrap().copy().unwrap();
            let first = UdpSocket::from(bind(format!("{ip}:0").parse().unwrap()));
            let address = first.local_addr().unwrap();
            let more = (1..threads).map(|_| bind(address).into());
            let sockets: Vec<_> = iter::once(first.try_clone().unwrap()).chain(more).collect();
            let tokens = Tokens::new(TokenKey([7; 16]), &[], Duration::from_hours(1));
            steer(&[vec![first.into()]], tokens.call_hash(), threads);
            Self { tokens, sockets, address }
        }

        fn client(&self) -> UdpSocket {
            UdpSocket::bind(SocketAddr::new(self.address.ip(), 0)).unwrap()
        }

        /// Returns the thread that gets a datagram of this client.
        fn receiver(&self, client: &UdpSocket, datagram: &[u8]) -> usize {
            client.send_to(datagram, self.address).unwrap();
            let gets = |socket: &UdpSocket| socket.recv(&mut [0; 2048]).is_ok();
            self.sockets.iter().position(gets).expect("the datagram has arrived")
        }
    }

    fn message(field: &str, before: usize) -> String {
        let via = "x".repeat(before);
        format!("ACK sip:a SIP/2.0\r\nVia: {via}\r\nFrom: <sip:i:@a>\r\n{field}\r\nCSeq: 1 ACK\r\n\r\n")
    }

    /// Returns how far the program of this machine searches.
    fn reaches() -> [u32; 2] {
        let limit = std::fs::read_to_string("/proc/sys/net/core/optmem_max").unwrap_or_default();
        REACHES[usize::from(limit.trim().parse().unwrap_or(0) < 131_072)]
    }

    #[test]
    fn a_datagram_reaches_the_thread_of_its_call() {
        for (ip, threads) in [("127.0.0.1", 2), ("127.0.0.1", 3), ("[::1]", 2)] {
            let group = Group::new(ip, threads);
            let client = group.client();
            for n in 0..500 {
                let hex = format!("{:096x}", n as u128 * 0x9e37_79b9_7f4a_7c15);
                for call_id in [&format!("{n}-4711@127.0.0.1"), &hex[n % 84..]] {
                    let [far, near] = reaches().map(|reach| reach as usize);
                    for (name, before) in [("Call-ID", n * far / 700), ("i", n * near / 600)] {
                        if name == "i" && near == 0 {
                            continue;
                        }
                        let datagram = message(&format!("{name}: {call_id}"), before);
                        let owner = group.tokens.shard_of(datagram.as_bytes(), threads);
                        assert_eq!(Some(group.receiver(&client, datagram.as_bytes())), owner, "{datagram}");
                    }
                }
            }
        }
    }

    #[test]
    fn other_datagrams_are_distributed_by_address() {
        let group = Group::new("127.0.0.1", 2);
        let clients: Vec<_> = (0..64).map(|_| group.client()).collect();
        let fields = ["call-id: a", "Call-ID : a", "Call-ID:\r\n a", "s: a", "Call-ID: \u{e9}"];
        let datagrams = fields.into_iter().map(|field| message(field, 0));
        // At five of eight successive offsets, the search finds a word of the spelling.
        let similar = (0..8).map(|before| message("Call-Info: <sip:a>", before));
        let others = [message("Call-ID: a", 1500), "\r\n\r\n".to_owned(), String::new()];
        for datagram in datagrams.chain(similar).chain(others) {
            let receivers: BTreeSet<_> =
                clients.iter().map(|client| group.receiver(client, datagram.as_bytes())).collect();
            assert_eq!(receivers.len(), 2, "{datagram}");
        }
    }
}
