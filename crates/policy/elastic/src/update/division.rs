//! How the capacity of a server is divided among the balancers in front of it, by the recent calls of each.
//! Each balancer would use all that it is told. So the parts of the balancers that send calls add up to the capacity:
//!
//! - **Need**: the calls that a balancer has sent in a second, and a quarter more ([`GROWTH`]), since a balancer that
//!   is held to its part cannot show its demand. It rises at once, and falls by half in 2 s. It is unknown until the
//!   balancer has said twice how many calls it has sent.
//! - **Part**: needs are met as far as the capacity goes, the smaller ones first (max-min fairness): a balancer gets
//!   what it needs, or at least an equal part. The rest is divided equally among the balancers that send calls. One
//!   whose need is unknown might need everything, so it gets an equal part of what the smaller needs leave.
//! - **A standby balancer** needs nothing, and takes nothing from the others. It is told what their needs leave, or
//!   an equal part if that is more, so it has room at once when it takes over. When it does, its need counts a second
//!   later.
//! - **A balancer that is lost** counts for 5 s more: its calls may come on, and a connection that breaks is soon
//!   there again. So does one that was never heard: after a restart of the monitor, all its balancers count at first.
//!
//! All that depends on how many calls the balancers say that they have sent. One that says too much gets more, but no
//! other one less than an equal part, or than it needs.

use base::Instant;
use core::time::Duration;
use std::collections::BTreeMap;

/// A need is the sent calls times this factor.
const GROWTH: f64 = 1.25;
/// A need falls by half in this time.
const HALF_LIFE: Duration = Duration::from_secs(2);
/// A balancer with a smaller need, in calls a second, counts as one without calls.
const NONE: f64 = 0.05;
/// A balancer that was not heard for so long is gone.
const LOST: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy)]
struct Balancer {
    heard: Instant,
    /// The calls that it has sent up to then; `None`: it has not said so yet.
    sent: Option<u64>,
    /// Calls a second; `None`: unknown.
    need: Option<f64>,
}

impl Balancer {
    /// The need that is to be met: a balancer whose need is unknown might need everything.
    fn need(&self) -> f64 {
        self.need.unwrap_or(f64::INFINITY)
    }
}

/// The needs of balancers for the capacity of a server. `B` names a balancer.
#[derive(Debug, Clone)]
pub struct Division<B> {
    balancers: BTreeMap<B, Balancer>,
    /// The balancers that count from the first update on.
    expected: Vec<B>,
}

impl<B: Ord + Copy> Division<B> {
    /// Divides among these balancers, which may be there already and have calls.
    pub fn new(balancers: impl IntoIterator<Item = B>) -> Self {
        Self { balancers: BTreeMap::new(), expected: balancers.into_iter().collect() }
    }

    /// A balancer has sent so many calls up to now. A count that is less than before is that of one that was
    /// restarted.
    pub fn heard(&mut self, now: Instant, balancer: B, sent: u64) {
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
        // Of moments that follow each other closely a single call would be a great rate.
        let rate = more / past.max(0.5);
        let left = known.need.unwrap_or(0.0) * 0.5_f64.powf(past / HALF_LIFE.as_secs_f64());
        let need = left.max(GROWTH * rate);
        known.heard = now.max(known.heard);
        known.need = Some(if need < NONE { 0.0 } else { need });
    }

    /// The part of this capacity that a balancer is told.
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
        // The smaller needs first; none gets more than an equal part of what is left.
        let (mut left, mut given) = (capacity, 0.0);
        for (at, need) in needs.iter().enumerate() {
            let met = need.min(left / (needs.len() - at) as f64);
            left -= met;
            // Equal needs are met alike.
            given = if *need <= own { met } else { given };
        }
        if own > 0.0 { given + left / needs.len() as f64 } else { left.max(equal) }
    }
}
