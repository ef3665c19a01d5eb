//! Overload: members with limits, overloaded threads, floods of calls, and feedback between neighbours.

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
/// Smallest `max_rate`. The calls of the phase without faults come at a lower rate.
const MAX_RATE: Range<u32> = 20..60;

impl Drawer {
    /// Adds overload to half of the plans that may lose calls. Uses a fork of the seed, so that the other draws of the
    /// plan stay the same.
    pub(super) fn overload(&self, plan: &mut Plan, calm: u64) {
        let mut rng = Rng::from_seed(self.seed).fork("overload");
        if !rng.random_bool(0.5) {
            return;
        }
        // All sites use the same feedback: a site ignores feedback of another kind.
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

/// Draws some seconds of the faulty phase.
fn interval(rng: &mut Rng, calm: u64) -> Range<Instant> {
    let start = rng.random_range(2_000..calm - 12_000);
    at(start)..at(start + rng.random_range(500..10_000))
}

/// Draws a waiting time, from harmless to longer than callers wait.
fn wait(rng: &mut Rng) -> Duration {
    Duration::from_millis([40, 55, 100, 700][rng.random_range(0..4)])
}

/// Draws limits of members, only where calls are counted: otherwise the unanswered calls of members are unknown. A
/// queue has limits of its own.
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

/// Adds a burst of callers, as after a show on television.
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
    // Callers that must succeed are last in the list.
    plan.callers.insert(1, flood);
}
