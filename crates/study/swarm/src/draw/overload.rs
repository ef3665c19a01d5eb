//! Too many calls: members with limits, threads with more work than time, floods, and neighbours that tell each other.

use super::{Drawer, at};
use crate::plan::FeedbackPlan;
use crate::{CallerPlan, Plan, PoolPlan};
use base::{Instant, Rng};
use core::ops::Range;
use core::time::Duration;
use load::{ArrivalPlan, ArrivalProcess, RandomTime};
use overload::member::MemberLaw;
use rand::Rng as _;
use rand::seq::IndexedRandom;
use route::Forward;

/// Calls a second of a flood: more than any limit of a member.
const FLOOD: Range<f64> = 50.0..200.0;
/// The least `max_rate`: the calls of the phase without faults are fewer.
const MAX_RATE: Range<u32> = 20..60;

impl Drawer {
    /// Half of the plans that may lose calls are about too many of them. Of a fork: so the rest of a plan does not
    /// depend on it.
    pub(super) fn overload(&self, plan: &mut Plan, calm: u64) {
        let mut rng = Rng::from_seed(self.seed).fork("overload");
        if !rng.random_bool(0.5) {
            return;
        }
        // All sites of a plan speak of the same: who is told what it does not know keeps to nothing.
        let feedback = [FeedbackPlan::None, FeedbackPlan::Loss, FeedbackPlan::Rate];
        let feedback = *feedback.choose(&mut rng).expect("there are some");
        for site in &mut plan.sites {
            let Some(file) = site.role.file_mut() else { continue };
            if rng.random_bool(0.8) {
                file.overload.feedback = feedback;
            }
            if rng.random_bool(0.5) {
                file.overload.late = vec![(interval(&mut rng, calm), wait(&mut rng))];
            }
            file.pools.iter_mut().for_each(|pool| limits(&mut rng, pool));
        }
        if rng.random_bool(0.7) {
            flood(&mut rng, plan, calm);
        }
    }
}

/// Some seconds of the faulty phase.
fn interval(rng: &mut Rng, calm: u64) -> Range<Instant> {
    let start = rng.random_range(2_000..calm - 12_000);
    at(start)..at(start + rng.random_range(500..10_000))
}

/// From what is borne to what callers have given up for.
fn wait(rng: &mut Rng) -> Duration {
    Duration::from_millis([40, 55, 100, 700][rng.random_range(0..4)])
}

/// Only where calls are counted anything is known of what members have not answered; and a queue has limits of its
/// own.
fn limits(rng: &mut Rng, pool: &mut PoolPlan) {
    if !pool.settings.service.counts_calls()
        || pool.settings.queue.is_some()
        || pool.settings.service.forward() == Forward::Dialog
    {
        return;
    }
    pool.settings.member_law =
        rng.random_bool(0.7).then(|| *MemberLaw::ALL.choose(rng).expect("there are laws"));
    pool.max_rate = if rng.random_bool(0.3) { rng.random_range(MAX_RATE) } else { 0 };
}

/// Many call at once, as after a show on television.
fn flood(rng: &mut Rng, plan: &mut Plan, calm: u64) {
    let Some(usual) = plan.callers.first() else { return };
    let flood = CallerPlan {
        start: at(rng.random_range(5_000..calm - 8_000)),
        arrivals: ArrivalPlan {
            duration: Some(Duration::from_millis(rng.random_range(500..3_000))),
            ..ArrivalPlan::steady(ArrivalProcess::Poisson, rng.random_range(FLOOD))
        },
        holding: RandomTime::Fixed(Duration::from_secs(1)),
        answer_wait: Duration::from_secs(8),
        ..usual.clone()
    };
    // Those that must succeed come last.
    plan.callers.insert(1, flood);
}
