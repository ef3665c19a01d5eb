//! Start times of calls in an open loop: they do not depend on earlier calls.
use base::{Instant, Rng};
use core::time::Duration;
use rand_distr::{Distribution, Exp1, StandardUniform};

/// Distribution of the gaps between calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArrivalProcess {
    /// Exponential gaps: many independent callers.
    Poisson,
    /// Equal gaps (at a steady rate), with a random phase so that several agents do not start in step.
    Constant,
}

/// A rate of call starts and the time from which it applies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RateStep {
    /// Time since the start of the plan, later than the previous step's.
    pub at: Duration,
    /// Calls per second; at zero, no call starts.
    pub rate: f64,
    /// Whether the rate then moves linearly to the next step's rate. The last step's rate is constant.
    pub ramp: bool,
}

/// Number and start times of calls.
#[derive(Clone, PartialEq, Debug)]
pub struct ArrivalPlan {
    /// Distribution of the gaps.
    pub process: ArrivalProcess,
    /// Steps of the rate, which is zero before the first step.
    pub steps: Vec<RateStep>,
    /// Maximum number of calls; `None`: no limit.
    pub calls_max: Option<u64>,
    /// Time during which calls start; `None`: no limit.
    pub duration: Option<Duration>,
}

impl ArrivalPlan {
    /// Returns a plan with a constant rate and no end.
    pub fn steady(process: ArrivalProcess, rate: f64) -> Self {
        let steps = vec![RateStep { at: Duration::ZERO, rate, ramp: false }];
        Self { process, steps, calls_max: None, duration: None }
    }
}

/// Start instants of one agent's calls, in order. Only the plan and the seed decide them.
#[derive(Debug)]
pub struct Arrivals {
    plan: ArrivalPlan,
    start: Instant,
    rng: Rng,
    /// Index of the step that contains `at`.
    step: usize,
    /// Seconds from the start of the plan to the next call.
    at: f64,
    taken: u64,
    next: Option<Instant>,
}

impl Arrivals {
    /// Returns the arrivals of `plan`, counted from `start`.
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

    /// Start of the next call; `None` when all calls have started.
    pub(crate) fn peek(&self) -> Option<Instant> {
        self.next
    }

    /// Returns the scheduled start of the next call if it is not after `now`. Call this until it returns `None`: a
    /// delayed agent still gets each call with its scheduled start.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Instant> {
        self.next.filter(|&next| next <= now)?;
        self.next()
    }

    /// Drops all further calls.
    pub(crate) fn end(&mut self) {
        self.next = None;
    }

    /// Expected number of calls between one start and the next: a process of rate 1, scaled by the plan's rate.
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

    /// Returns the time at which the integral of the rate since the last start reaches `mass`.
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

/// Returns the time in which the integral of a linearly changing rate reaches `mass`.
fn solve(rate: f64, slope: f64, mass: f64) -> Option<f64> {
    // rate * t + slope / 2 * t^2 = mass, solved in the form without cancellation for small slopes.
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
