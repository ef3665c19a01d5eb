//! Latency of the whole cluster (section IV-D: "the problem, then, is not with the latency-support system").
//!
//! When most servers announce much less than they use to, the cause is one that they share: a database, the network.
//! More servers would ask the same database. So what they usually carry counts until they are well again, and it is
//! said.
//!
//! What is usual is learned from what servers announce. What is only expected of one that has announced nothing yet,
//! or that nobody hears of any more, is no measure: it would be taken for a fall as soon as the server announces
//! less.

use base::Instant;
use core::time::Duration;

/// A server has fallen when its capacity is below this part of its usual capacity.
const FALLEN: f64 = 0.7;
/// The whole cluster has when this part of the ready servers has, but two at least.
const SHARE: f64 = 0.5;
/// What a server usually has is the largest capacity of late: after so long half of it is forgotten.
const HALF_LIFE: Duration = Duration::from_mins(30);

/// The announced and the usual capacity of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Capacity {
    /// Its effective capacity now: announced, or expected.
    pub(super) counted: f64,
    is_announced: bool,
    /// The most that it has announced of late; `None`: nothing yet.
    learned: Option<f64>,
    at: Instant,
}

impl Capacity {
    /// A server that has just come is expected to be like the others.
    pub(super) fn new(now: Instant, expected: f64) -> Self {
        Self { counted: expected, is_announced: false, learned: None, at: now }
    }

    /// The expected capacity of a server without announcements, or whose announcements stay out.
    pub(super) fn expect(&mut self, capacity: f64) {
        (self.counted, self.is_announced) = (capacity, false);
    }

    /// `remembers`: nothing is forgotten while the cluster has fallen, or its state would become the usual one.
    pub(super) fn announce(&mut self, now: Instant, capacity: f64, remembers: bool) {
        let halves = (now - self.at).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.at = now;
        (self.counted, self.is_announced) = (capacity, true);
        let left = if remembers { 1.0 } else { (-halves).exp2() };
        self.learned = Some(self.learned.map_or(capacity, |usual| (usual * left).max(capacity)));
    }

    /// Its usual capacity; the expected one before its first announcement.
    pub(super) fn usual(&self) -> f64 {
        self.learned.unwrap_or(self.counted)
    }

    fn is_below(&self, part: f64) -> bool {
        self.is_announced && self.counted < part * self.usual()
    }
}

/// How much better servers must be than when they fell before they count as well again.
const WELL: f64 = 1.2;

/// Whether most of the ready servers have fallen, or have not got up since they had.
pub(super) fn has_fallen<'u>(servers: impl Iterator<Item = &'u Capacity>, had: bool) -> bool {
    let part = if had { FALLEN * WELL } else { FALLEN };
    let (mut all, mut fallen) = (0_usize, 0_usize);
    for server in servers {
        all += 1;
        fallen += usize::from(server.is_below(part));
    }
    fallen >= 2 && fallen as f64 >= SHARE * all as f64
}
