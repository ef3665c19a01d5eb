//! Latency of the whole cluster (section IV-D: "the problem, then, is not with the latency-support system").
//!
//! When most servers announce much less than usual, the cause is shared: a database, or the network. More servers would
//! use the same database. So the usual capacity of the servers counts until they recover, and the state is reported.
//!
//! The usual capacity is learned from announcements only. A capacity that is merely expected, of a new server or one
//! that has fallen silent, is not used: the server's first lower announcement would look like a fall.

use base::Instant;
use core::time::Duration;

/// A server has fallen if its capacity is below this part of its usual capacity.
const FALLEN: f64 = 0.7;
/// The cluster has fallen if this part of the ready servers has, but at least two.
const SHARE: f64 = 0.5;
/// The usual capacity is the largest recent one; it halves in this time.
const HALF_LIFE: Duration = Duration::from_mins(30);

/// Announced and usual capacity of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Capacity {
    /// Present effective capacity: announced or expected.
    pub(super) counted: f64,
    is_announced: bool,
    /// Largest recent announcement; `None` before the first.
    learned: Option<f64>,
    at: Instant,
}

impl Capacity {
    /// Creates the capacity of a new server, which is expected to be like the others.
    pub(super) fn new(now: Instant, expected: f64) -> Self {
        Self { counted: expected, is_announced: false, learned: None, at: now }
    }

    /// Sets the expected capacity of a server without announcements, or whose announcements have stopped.
    pub(super) fn expect(&mut self, capacity: f64) {
        (self.counted, self.is_announced) = (capacity, false);
    }

    /// Sets an announced capacity. `remembers`: nothing decays while the cluster has fallen; otherwise its state would
    /// become the usual one.
    pub(super) fn announce(&mut self, now: Instant, capacity: f64, remembers: bool) {
        let halves = (now - self.at).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.at = now;
        (self.counted, self.is_announced) = (capacity, true);
        let left = if remembers { 1.0 } else { (-halves).exp2() };
        self.learned = Some(self.learned.map_or(capacity, |usual| (usual * left).max(capacity)));
    }

    /// Usual capacity; the expected one before the first announcement.
    pub(super) fn usual(&self) -> f64 {
        self.learned.unwrap_or(self.counted)
    }

    fn is_below(&self, part: f64) -> bool {
        self.is_announced && self.counted < part * self.usual()
    }
}

/// Factor by which servers must exceed the threshold of a fall before they count as recovered.
const WELL: f64 = 1.2;

/// Whether most of the ready servers have fallen, or have not recovered if they `had`.
pub(super) fn has_fallen<'u>(servers: impl Iterator<Item = &'u Capacity>, had: bool) -> bool {
    let part = if had { FALLEN * WELL } else { FALLEN };
    let (mut all, mut fallen) = (0_usize, 0_usize);
    for server in servers {
        all += 1;
        fallen += usize::from(server.is_below(part));
    }
    fallen >= 2 && fallen as f64 >= SHARE * all as f64
}
