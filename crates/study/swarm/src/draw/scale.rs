//! Balancers whose members are started and stopped, and their drivers.

use super::{Drawer, at};
use crate::{Destination, DriverPlan, Plan, ScalePlan, Severity};
use core::time::Duration;
use elastic::scale::{ScaleSettings, StartSettings};
use load::{RandomTime, RateStep};
use rand::Rng as _;

/// Fraction of balancers with scaling, among those whose members are answerers.
const SCALED: f64 = 0.35;

impl Drawer {
    /// Draws the scaling of this balancer's members, or none. Uses a fork of the generator, so that the other draws of
    /// the plan stay the same.
    pub(super) fn scale(
        &self,
        number: u16,
        members: &[Destination],
        severity: Severity,
        calm: u64,
    ) -> Option<Box<ScalePlan>> {
        let mut rng = self.rng.fork(&format!("scale {number}"));
        // In a gentle plan one may be drained or dead while another takes the calls.
        let least = if severity == Severity::Gentle { 2 } else { 1 };
        let is_started = |member: &Destination| matches!(member, Destination::Answerer(_));
        if !rng.random_bool(SCALED) || members.len() <= least || !members.iter().all(is_started) {
            return None;
        }
        let mut millis = |range: core::ops::Range<u64>| Duration::from_millis(rng.random_range(range));
        let start = StartSettings {
            time: millis(2_000..20_000),
            time_max: millis(12_000..20_000),
            back_off: millis(1_000..4_000),
            back_off_max: millis(4_000..8_000),
        };
        let (smoothing, calm_time, drain_gap) =
            (millis(1_000..6_000), millis(3_000..20_000), millis(1_000..10_000));
        let (idle, stop_again) = (millis(2_000..15_000), millis(5_000..30_000));
        let (start_up, stop, answer) = (millis(100..6_000), millis(0..5_000), millis(10..3_000));
        let list_age = millis(0..3_000);
        let settings = ScaleSettings {
            least: rng.random_range(least..=2),
            most: members.len(),
            choices: Some(members.len() as u32),
            spare: rng.random_range(0..=1),
            capacity: rng.random_range(1.0..8.0),
            smoothing,
            calm: calm_time,
            drain_gap,
            idle,
            stop_again,
            start,
            ..ScaleSettings::default()
        };
        let running = rng.random_range(settings.least..=members.len());
        let mut often = |most: f64| if rng.random_bool(0.5) { rng.random_range(0.0..most) } else { 0.0 };
        let (fails, forgets, in_vain, gaps) = (often(0.5), often(0.3), often(0.5), often(0.5));
        let driver = DriverPlan {
            start: RandomTime::Normal(start_up, start_up / 4),
            stop: RandomTime::Normal(stop, stop / 4),
            answer: RandomTime::Exponential(answer),
            lists: rng.random_bool(0.8),
            lists_ending: rng.random_bool(0.5),
            list_age,
            refuses: rng.random_bool(0.5),
            until: at(calm),
            fails,
            forgets,
            in_vain,
            gaps,
        };
        Some(Box::new(ScalePlan { settings, running, driver }))
    }
}

impl Drawer {
    /// Varies the rate of calls where servers are scaled. Uses a fork of the generator, as above.
    pub(super) fn vary_rates(&self, plan: &mut Plan, calm: u64) {
        let mut rng = self.rng.fork("rates");
        for caller in plan.callers.iter_mut().filter(|caller| !caller.must_succeed) {
            let (mut steps, mut at) = (Vec::new(), 0);
            while at < calm {
                let rate = if rng.random_bool(0.3) { 0.2 } else { rng.random_range(0.5..10.0) };
                steps.push(RateStep { at: Duration::from_millis(at), rate, ramp: rng.random_bool(0.3) });
                at += rng.random_range(5_000..35_000);
            }
            caller.arrivals.steps = steps;
        }
    }
}

/// Lets scaled servers answer probes: a server that never answers one is given up.
pub(super) fn answer_probes(plan: &mut Plan) {
    for answerer in 0..plan.answerers.len() as u16 {
        if plan.scaled_by(answerer).is_some() {
            plan.answerers[usize::from(answerer)].options = true;
        }
    }
}
