//! When calls start: an open loop, that is, whatever happens to the calls before.
use base::{Instant, Rng};
use core::time::Duration;
use rand_distr::{Distribution, Exp1, StandardUniform};

/// How the gaps between calls are spread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArrivalProcess {
    /// Exponential gaps: many independent callers.
    Poisson,
    /// Equal gaps (at a steady rate), with a random phase so that several agents do not start in step.
    Constant,
}

/// From when on calls start at which rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RateStep {
    /// Time since the start of the plan; that of a step is after that of the one before.
    pub at: Duration,
    /// Calls a second; nothing starts at zero.
    pub rate: f64,
    /// Whether the rate then moves linearly to the next step's. The last step's stays.
    pub ramp: bool,
}

/// How many calls start, and when.
#[derive(Clone, PartialEq, Debug)]
pub struct ArrivalPlan {
    /// How the gaps are spread.
    pub process: ArrivalProcess,
    /// The rate; zero before the first step.
    pub steps: Vec<RateStep>,
    /// At most so many calls; `None`: no limit.
    pub calls_max: Option<u64>,
    /// Calls start during this time only; `None`: no limit.
    pub duration: Option<Duration>,
}

impl ArrivalPlan {
    /// Calls at this rate for ever.
    pub fn steady(process: ArrivalProcess, rate: f64) -> Self {
        let steps = vec![RateStep { at: Duration::ZERO, rate, ramp: false }];
        Self { process, steps, calls_max: None, duration: None }
    }
}

/// The start instants of one agent's calls, in order: each is decided by the plan and the seed alone.
#[derive(Debug)]
pub struct Arrivals {
    plan: ArrivalPlan,
    start: Instant,
    rng: Rng,
    /// The step in which `at` lies.
    step: usize,
    /// Seconds from the start to the next one.
    at: f64,
    taken: u64,
    next: Option<Instant>,
}

impl Arrivals {
    /// Arrivals by `plan`, counted from `start`.
    pub fn new(plan: ArrivalPlan, start: Instant, mut rng: Rng) -> Self {
        let phase: f64 = StandardUniform.sample(&mut rng);
        let mut arrivals = Self { plan, start, rng, step: 0, at: 0.0, taken: 0, next: None };
        let mass = match arrivals.plan.process {
            ArrivalProcess::Poisson => arrivals.gap(),
            ArrivalProcess::Constant => phase,
        };
        arrivals.next = arrivals.instant(mass);
        arrivals
    }

    /// When the next call starts; `None` when all have started.
    pub(crate) fn peek(&self) -> Option<Instant> {
        self.next
    }

    /// The scheduled start of the next call if that is not after `now`. To be called until `None`: an agent
    /// that was held up still gets each call with the instant at which it should have started.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Instant> {
        self.next.filter(|&next| next <= now)?;
        self.next()
    }

    /// No call starts any more.
    pub(crate) fn end(&mut self) {
        self.next = None;
    }

    /// How many calls are expected from one start to the next: a process of rate 1, which the plan's rate stretches.
    fn gap(&mut self) -> f64 {
        match self.plan.process {
            ArrivalProcess::Poisson => Exp1.sample(&mut self.rng),
            ArrivalProcess::Constant => 1.0,
        }
    }

    fn instant(&mut self, mass: f64) -> Option<Instant> {
        if self.plan.calls_max.is_some_and(|max| self.taken >= max) {
            return None;
        }
        self.at = self.after(mass)?;
        let after = Duration::try_from_secs_f64(self.at).ok()?;
        self.plan.duration.is_none_or(|duration| after < duration).then(|| self.start + after)
    }

    /// When the integral of the rate since the last start has come to `mass`.
    fn after(&mut self, mut mass: f64) -> Option<f64> {
        let mut from = self.at;
        while let Some(step) = self.plan.steps.get(self.step) {
            let begin = step.at.as_secs_f64();
            let next = self.plan.steps.get(self.step + 1);
            let end = next.map_or(f64::INFINITY, |next| next.at.as_secs_f64());
            let slope = match next {
                Some(next) if step.ramp => (next.rate - step.rate) / (end - begin),
                _ => 0.0,
            };
            from = from.max(begin);
            let rate = step.rate + slope * (from - begin);
            if let Some(wait) = solve(rate, slope, mass)
                && from + wait < end
            {
                return Some(from + wait);
            }
            if end.is_infinite() {
                return None;
            }
            mass -= (rate + slope * (end - from) / 2.0) * (end - from);
            from = end;
            self.step += 1;
        }
        None
    }
}

impl Iterator for Arrivals {
    type Item = Instant;

    fn next(&mut self) -> Option<Instant> {
        let next = self.next?;
        self.taken += 1;
        let mass = self.gap();
        self.next = self.instant(mass);
        Some(next)
    }
}

/// The time in which a rate that changes linearly adds up to `mass`.
fn solve(rate: f64, slope: f64, mass: f64) -> Option<f64> {
    // rate * t + slope / 2 * t^2 = mass, in the form that does not cancel for small slopes.
    let root = rate * rate + 2.0 * slope * mass;
    let below = rate + root.max(0.0).sqrt();
    (root >= 0.0 && below > 0.0).then(|| 2.0 * mass / below)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(process: ArrivalProcess) -> ArrivalPlan {
        ArrivalPlan::steady(process, 100.0)
    }

    fn step(at: u64, rate: f64, ramp: bool) -> RateStep {
        RateStep { at: Duration::from_secs(at), rate, ramp }
    }

    fn times(plan: ArrivalPlan, seed: u64) -> Vec<f64> {
        let arrivals = Arrivals::new(plan, Instant::from_millis(1_000), Rng::from_seed(seed));
        arrivals.map(|at| at.as_secs_f64() - 1.0).collect()
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread_of_an_exponential() {
        let at = times(ArrivalPlan { calls_max: Some(100_000), ..plan(ArrivalProcess::Poisson) }, 1);
        let gaps: Vec<_> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 0.01).abs() < 0.0001, "{mean}");
        assert!((variance.sqrt() - 0.01).abs() < 0.0002, "{variance}");
    }

    #[test]
    fn constant_gaps_do_not_drift() {
        let at = times(ArrivalPlan { calls_max: Some(100_000), ..plan(ArrivalProcess::Constant) }, 2);
        assert!((at[99_999] - at[0] - 999.99).abs() < 1e-6);
        assert!(at[0] < 0.01, "the phase is within the first gap");
    }

    #[test]
    fn a_ramp_climbs_linearly_and_a_duration_ends_the_run() {
        let steps = vec![step(0, 0.0, true), step(10, 100.0, false)];
        let duration = Some(Duration::from_secs(20));
        let at = times(ArrivalPlan { steps, duration, ..plan(ArrivalProcess::Constant) }, 3);
        let until = |seconds: f64| at.iter().filter(|&&time| time < seconds).count();
        // The integral of 10 t is 5 t^2: 125 calls after 5 s, 500 after 10 s, then 100 a second.
        assert!(until(5.0).abs_diff(125) <= 1 && until(10.0).abs_diff(500) <= 1);
        assert!(until(11.0).abs_diff(600) <= 1 && at.len().abs_diff(1_500) <= 1);
    }

    #[test]
    fn a_ramp_to_zero_ends() {
        let steps = vec![step(0, 100.0, true), step(10, 0.0, false)];
        let at = times(ArrivalPlan { steps, ..plan(ArrivalProcess::Constant) }, 4);
        assert!(at.len().abs_diff(500) <= 1 && at.iter().all(|&time| time <= 10.0));
        assert!(
            times(ArrivalPlan { steps: vec![step(0, 0.0, false)], ..plan(ArrivalProcess::Poisson) }, 1)
                .is_empty()
        );
    }

    #[test]
    fn as_many_calls_start_as_the_steps_add_up_to() {
        let steps =
            [step(0, 10.0, false), step(100, 0.0, false), step(200, 0.0, true), step(300, 40.0, false)];
        for (process, slack) in [(ArrivalProcess::Constant, 0.0), (ArrivalProcess::Poisson, 4.0)] {
            let duration = Some(Duration::from_secs(400));
            let at = times(ArrivalPlan { steps: steps.to_vec(), duration, ..plan(process) }, 1);
            for (from, to, expected) in
                [(0.0, 100.0, 1_000.0), (100.0, 200.0, 0.0), (200.0, 300.0, 2_000.0), (300.0, 400.0, 4_000.0)]
            {
                let count = at.iter().filter(|at| (from..to).contains(*at)).count() as f64;
                let off = (count - expected).abs();
                assert!(off <= 1.0 + slack * f64::sqrt(expected), "{from} to {to}: off by {off}");
            }
        }
    }
}
