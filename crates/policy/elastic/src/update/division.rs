//! Division of a server's capacity among the balancers in front of it, by the recent calls of each. Each balancer may
//! use all of its part, so the parts of the balancers that send calls add up to the capacity:
//!
//! - **Need**: the calls that a balancer has sent in a second, plus a quarter ([`GROWTH`]), since a balancer limited to
//!   its part cannot show its demand. The need rises at once, and halves in 2 s. It is unknown until the balancer has
//!   reported its sent calls twice.
//! - **Part**: needs are met as far as the capacity goes, the smaller ones first (max-min fairness). So a balancer gets
//!   its need, or at least an equal part. The rest is divided equally among the balancers that send calls. A balancer
//!   of unknown need might need everything, so it gets an equal part of the capacity left by the smaller needs.
//! - **A standby balancer** has no need, and takes nothing from the others. Its part is the rest left by their needs,
//!   or an equal part if that is more, so it has room at once when it takes over. Its need then counts a second later.
//! - **A lost balancer** counts for 5 s more: its calls may continue, and a broken connection is soon restored. The
//!   same holds for a balancer that has not reported yet: after a restart of the monitor, all its balancers count at
//!   first.
//!
//! All this depends on the reported numbers of sent calls. A balancer that reports too many gets more. But no other
//! balancer gets less than its need or an equal part.

use base::Instant;
use core::time::Duration;
use std::collections::BTreeMap;

/// A need is the sent calls times this factor.
const GROWTH: f64 = 1.25;
/// Half-life of a need.
const HALF_LIFE: Duration = Duration::from_secs(2);
/// Need in calls a second below which a balancer counts as one without calls.
const NONE: f64 = 0.05;
/// Time without reports after which a balancer is gone.
const LOST: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy)]
struct Balancer {
    heard: Instant,
    /// Calls that it has sent up to then; `None` before the first report.
    sent: Option<u64>,
    /// Calls a second; `None`: unknown.
    need: Option<f64>,
}

impl Balancer {
    /// Need to be met; infinite while unknown, since the balancer might need everything.
    fn need(&self) -> f64 {
        self.need.unwrap_or(f64::INFINITY)
    }
}

/// Needs of the balancers for the capacity of a server. `B` identifies a balancer.
#[derive(Debug, Clone)]
pub struct Division<B> {
    balancers: BTreeMap<B, Balancer>,
    /// Balancers that count from the first update on.
    expected: Vec<B>,
}

impl<B: Ord + Copy> Division<B> {
    /// Creates a division among these balancers, which may already be running with calls.
    pub fn new(balancers: impl IntoIterator<Item = B>) -> Self {
        Self { balancers: BTreeMap::new(), expected: balancers.into_iter().collect() }
    }

    /// Handles a balancer's report of its sent calls so far. A smaller count than before comes from a restarted
    /// balancer.
    pub fn on_report(&mut self, now: Instant, balancer: B, sent: u64) {
        let Some(known) = self.balancers.get_mut(&balancer) else {
            self.balancers.insert(balancer, Balancer { heard: now, sent: Some(sent), need: None });
            return;
        };
        let Some(before) = known.sent.replace(sent) else {
            known.heard = now.max(known.heard);
            return;
        };
        let past = now.saturating_since(known.heard).as_secs_f64();
        let more = sent.saturating_sub(before) as f64;
        // Shorter intervals would turn a single call into a large rate.
        let rate = more / past.max(0.5);
        let left = known.need.unwrap_or(0.0) * 0.5_f64.powf(past / HALF_LIFE.as_secs_f64());
        let need = left.max(GROWTH * rate);
        known.heard = now.max(known.heard);
        known.need = Some(if need < NONE { 0.0 } else { need });
    }

    /// Part of this capacity for a balancer.
    pub fn part(&mut self, now: Instant, balancer: B, capacity: f64) -> f64 {
        for expected in self.expected.drain(..) {
            self.balancers.entry(expected).or_insert(Balancer { heard: now, sent: None, need: None });
        }
        self.balancers.retain(|_, known| now.saturating_since(known.heard) < LOST);
        let own = self.balancers.get(&balancer).map_or(f64::INFINITY, Balancer::need);
        let others = self.balancers.iter().filter(|(name, _)| **name != balancer);
        let mut needs: Vec<_> = others.clone().map(|(_, known)| known.need()).chain([own]).collect();
        let equal = capacity / needs.len() as f64;
        needs.retain(|need| *need > 0.0);
        needs.sort_unstable_by(f64::total_cmp);
        // Smaller needs first; none gets more than an equal part of the rest.
        let (mut left, mut given) = (capacity, 0.0);
        for (at, need) in needs.iter().enumerate() {
            let met = need.min(left / (needs.len() - at) as f64);
            left -= met;
            // Equal needs are met equally.
            given = if *need <= own { met } else { given };
        }
        if own > 0.0 { given + left / needs.len() as f64 } else { left.max(equal) }
    }
}
