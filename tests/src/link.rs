//! Transparent links between two ends: one loses datagrams, the other resets connections.
//!
//! SIPp has an option `-lost`, but 3.6.1 then forgets retransmissions and fails calls even without a proxy. A link that
//! drops datagrams shows only the balancer's behaviour.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::stream::{connect_from, reset};
use crate::worker::{GLANCE, Worker};

/// Relays datagrams between two addresses through one socket, and drops some of them.
#[derive(Debug)]
pub struct LossyLink {
    lost: Arc<AtomicU64>,
    _worker: Worker,
}

impl LossyLink {
    /// Relays at `address`: from `near` to `far`, and from any other source to `near`. Of every thousand datagrams in
    /// each direction `loss` are lost. `seed` decides which.
    pub fn start(address: SocketAddr, near: SocketAddr, far: SocketAddr, loss: u64, seed: u64) -> Self {
        let socket = UdpSocket::bind(address).unwrap_or_else(|error| panic!("link at {address}: {error}"));
        socket.set_read_timeout(Some(GLANCE)).expect("the timeout is not zero");
        let lost = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&lost);
        let mut buffer = vec![0; 65_536];
        let mut random = seed | 1;
        let step = move || {
            let Ok((length, from)) = socket.recv_from(&mut buffer) else { return };
            random = next_random(random);
            if (random >> 32) % 1000 < loss {
                count.fetch_add(1, Ordering::Relaxed);
            } else {
                // The test notices if an end is gone.
                let _ = socket.send_to(&buffer[..length], if from == near { far } else { near });
            }
        };
        Self { lost, _worker: Worker::start(step) }
    }

    /// Returns the number of lost datagrams.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Spreads small numbers over 64 bits: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// xorshift64 (Marsaglia 2003), good enough to choose datagrams.
fn next_random(mut state: u64) -> u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^ (state << 17)
}

/// Relays connections, and resets some of them at both ends.
#[derive(Debug)]
pub struct ResettingLink {
    shared: Arc<Resets>,
    _worker: Worker,
}

/// State shared by the connections of a link.
#[derive(Debug)]
struct Resets {
    /// Of a thousand pieces of bytes, this many reset their connection instead of being passed on.
    share: u64,
    random: AtomicU64,
    done: AtomicU64,
    /// Increased by one to reset all existing connections.
    round: AtomicU64,
}

impl Resets {
    fn is_due(&self) -> bool {
        let next = |state| Some(next_random(state));
        let random = self.random.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        (random.unwrap_or_else(|state| state) >> 32) % 1000 < self.share
    }
}

impl ResettingLink {
    /// Relays connections to `address` on to `far`, from the address `from`. Of every thousand pieces of bytes `share`
    /// are lost with their connection. `seed` decides which.
    pub fn start(address: SocketAddr, (from, far): (IpAddr, SocketAddr), share: u64, seed: u64) -> Self {
        let listener =
            TcpListener::bind(address).unwrap_or_else(|error| panic!("link at {address}: {error}"));
        // On Linux this applies to accept(2) too.
        set_socket_timeout(&listener, Timeout::Recv, Some(GLANCE)).expect("a socket takes the option");
        let shared = Arc::new(Resets {
            share,
            random: AtomicU64::new(seed.wrapping_mul(SPREAD) | 1),
            done: AtomicU64::new(0),
            round: AtomicU64::new(0),
        });
        let resets = Arc::clone(&shared);
        let step = move || {
            let Ok((near, _)) = listener.accept() else { return };
            // If the far end does not listen, the near connection is closed.
            let Ok(far) = connect_from(from, far) else { return };
            relay(&resets, near, far);
        };
        Self { shared, _worker: Worker::start(step) }
    }

    /// Returns the number of connections reset so far.
    pub fn resets(&self) -> u64 {
        self.shared.done.load(Ordering::Relaxed)
    }

    /// Resets all existing connections.
    pub fn reset_all(&self) {
        self.shared.round.fetch_add(1, Ordering::Relaxed);
    }
}

/// Relays bytes in both directions, in threads that end with the connection.
fn relay(resets: &Arc<Resets>, near: TcpStream, far: TcpStream) {
    let ends = Arc::new((near, far));
    for is_near in [true, false] {
        let (ends, resets) = (Arc::clone(&ends), Arc::clone(resets));
        let round = resets.round.load(Ordering::Relaxed);
        thread::spawn(move || {
            let (from, to) = if is_near { (&ends.0, &ends.1) } else { (&ends.1, &ends.0) };
            let is_reset = pass_on(&resets, round, from, to);
            if is_reset {
                // The kernel sends the resets when both threads have dropped the sockets.
                [from, to].into_iter().for_each(reset);
                resets.done.fetch_add(1, Ordering::Relaxed);
            }
            // The other thread waits in a read.
            for end in [from, to] {
                let _ = end.shutdown(std::net::Shutdown::Read);
            }
        });
    }
}

/// Relays bytes until one side ends. Returns true if the connection is to be reset.
fn pass_on(resets: &Resets, round: u64, mut from: &TcpStream, mut to: &TcpStream) -> bool {
    let set = from.set_read_timeout(Some(GLANCE)).and_then(|()| to.set_nodelay(true));
    set.expect("a socket takes options");
    let mut buffer = [0; 16 << 10];
    loop {
        if resets.round.load(Ordering::Relaxed) != round {
            return true;
        }
        match from.read(&mut buffer) {
            Ok(0) => return false,
            Ok(_) if resets.is_due() => return true,
            Ok(count) => {
                if to.write_all(&buffer[..count]).is_err() {
                    return false;
                }
            }
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(_) => return false,
        }
    }
}
