//! A link that loses datagrams, between two ends that take it for each other.
//!
//! SIPp has `-lost`, but its 3.6.1 then forgets retransmissions and fails calls with
//! nothing in between; a link that really drops datagrams shows the balancer's part alone.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::worker::{GLANCE, Worker};

/// Relays datagrams between two addresses through one socket of its own and loses some of them.
#[derive(Debug)]
pub struct LossyLink {
    lost: Arc<AtomicU64>,
    _worker: Worker,
}

impl LossyLink {
    /// Relays at `address`: what `near` sends goes to `far`, anything else goes to `near`. Of every thousand
    /// datagrams `loss` are lost, each way; which ones follows from `seed`.
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
                // An end that is gone is for the test to notice.
                let _ = socket.send_to(&buffer[..length], if from == near { far } else { near });
            }
        };
        Self { lost, _worker: Worker::start(step) }
    }

    /// Datagrams lost so far.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// xorshift64 (Marsaglia 2003): good enough to choose victims.
fn next_random(mut state: u64) -> u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^ (state << 17)
}
