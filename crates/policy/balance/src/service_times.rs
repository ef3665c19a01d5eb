//! Service times of requests that found their node idle. Beside that of a BYE they give weights, beside those of other
//! nodes capacities.
//!
//! Paper 004 says that "the relative costs used for TLWL could be adaptively varied" (section III), and leaves open how.
//! Medians, because a server stands still now and then. docs/policies/tlwl.md says what cannot be seen in this way.

use crate::{Sign, Slot, Weights};
use core::ops::RangeInclusive;
use core::time::Duration;
use std::sync::Arc;
use wire::Method;

/// Samples of a batch, of which a shard tells the median.
const BATCH: usize = 32;
/// Batches of a method that a ratio needs.
const BATCHES_MIN: u32 = 3;
/// From so many batches on, each new one has this part of the mean.
const BATCHES_MOST: u32 = 32;
/// What a request may cost beside a BYE, and a node beside the others of its pool; an estimate outside is none.
const PLAUSIBLE: RangeInclusive<f64> = 0.125..=8.0;
/// Differences below this part are taken for chance.
const NOISE: f64 = 0.05;
/// The largest step, as a part.
const STEP: f64 = 0.05;

/// What a shard keeps of a node.
#[derive(Debug, Default)]
pub(crate) struct TimeSamples {
    /// [`Node::weights`](crate::Node::weights).
    pub(crate) weights: Option<Arc<Weights>>,
    /// By method, the times in microseconds of the batch that is not full yet.
    times: [Vec<u32>; Method::ALL.len()],
}

impl TimeSamples {
    /// A request that found the node idle took so long. Returns what the cluster is to be told.
    pub(crate) fn add(&mut self, slot: Slot, method: Method, took: Duration) -> Option<Sign> {
        let times = &mut self.times[method as usize];
        // All of it at first, so that later ones allocate nothing.
        times.reserve_exact(BATCH - times.len());
        times.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
        if times.len() < BATCH {
            return None;
        }
        let (_, median, _) = times.select_nth_unstable(BATCH / 2);
        let median = Duration::from_micros((*median).into());
        times.clear();
        Some(Sign::ServiceTime { slot, method, median })
    }
}

/// The service times of a node by method.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServiceTimes([ServiceTime; Method::ALL.len()]);

/// The mean of the logarithms of the last batches, and how many these are. So a batch from a bad time does not weigh
/// more than others.
#[derive(Clone, Copy, Debug, Default)]
struct ServiceTime {
    log: f64,
    batches: u32,
}

impl ServiceTimes {
    /// Takes note of the median of a batch.
    pub(crate) fn note(&mut self, method: Method, median: Duration) {
        // Shards measure whole microseconds.
        let log = median.as_secs_f64().max(1e-6).ln();
        let time = &mut self.0[method as usize];
        time.batches = (time.batches + 1).min(BATCHES_MOST);
        time.log += (log - time.log) / f64::from(time.batches);
    }

    fn of(&self, method: Method) -> ServiceTime {
        self.0[method as usize]
    }
}

/// Mean ratio of pairs of times, each with the batches of the one that has fewer; `None` where too little is known.
fn ratio(pairs: impl Iterator<Item = (ServiceTime, ServiceTime)>) -> Option<f64> {
    let known = pairs.map(|(one, other)| (one.log - other.log, one.batches.min(other.batches)));
    let known = known.filter(|(_, batches)| *batches >= BATCHES_MIN);
    let (sum, count) = known
        .fold((0.0, 0), |(sum, count), (log, batches)| (sum + log * f64::from(batches), count + batches));
    // Of nothing it is no number, which is in no range.
    Some((sum / f64::from(count)).exp()).filter(|ratio| PLAUSIBLE.contains(ratio))
}

/// One step from a value toward an estimate: slowly, so that what is wrong for a while does little harm.
fn step(before: f64, estimate: f64) -> f64 {
    let change = estimate / before;
    if (change - 1.0).abs() < NOISE { before } else { before * change.clamp(1.0 / (1.0 + STEP), 1.0 + STEP) }
}

/// The weights of a pool, a step nearer to what methods cost beside a BYE on its members.
pub(crate) fn next_weights(mut weights: Weights, members: &[ServiceTimes]) -> Weights {
    for method in Method::ALL.into_iter().filter(|method| *method != Method::Bye) {
        let pairs = members.iter().map(|times| (times.of(method), times.of(Method::Bye)));
        if let Some(estimate) = ratio(pairs) {
            weights.set(method, step(weights.get(method), estimate));
        }
    }
    weights
}

/// The times of a pool: of each method the mean over its members.
pub(crate) fn of_pool(members: &[ServiceTimes]) -> ServiceTimes {
    let mean = |method: Method| {
        let known =
            || members.iter().map(|times| times.of(method)).filter(|time| time.batches >= BATCHES_MIN);
        let (sum, count) = known().fold((0.0, 0.0), |(sum, count), time| (sum + time.log, count + 1.0));
        let batches = known().map(|time| time.batches).max().unwrap_or(0);
        ServiceTime { log: sum / f64::max(count, 1.0), batches }
    };
    ServiceTimes(Method::ALL.map(mean))
}

/// The capacity of a member, a step nearer to how much faster it is than its pool is in the mean.
pub(crate) fn next_capacity(capacity: f64, own: &ServiceTimes, pool: &ServiceTimes) -> f64 {
    let pairs = Method::ALL.into_iter().map(|method| (pool.of(method), own.of(method)));
    ratio(pairs).map_or(capacity, |estimate| step(capacity, estimate))
}

/// Within what is plausible.
pub(crate) fn plausible(value: f64) -> f64 {
    value.clamp(*PLAUSIBLE.start(), *PLAUSIBLE.end())
}
