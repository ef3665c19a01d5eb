//! When calls start: an open loop, that is, whatever happens to the calls before.
use base::{Instant, Rng};
use core::time::Duration;
use rand_distr::{Distribution, Exp1, StandardUniform};

/// How the gaps between calls are spread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Process {
    /// Exponential gaps: many independent callers.
    Poisson,
    /// Equal gaps (at a steady rate), with a random phase so that several agents do not start in step.
    Constant,
}

/// A rate that rises or falls linearly before it settles.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ramp {
    /// Rate at the start, calls a second.
    pub from_rate: f64,
    /// Time until [`ArrivalPlan::rate`] is reached.
    pub over: Duration,
}

/// How many calls start, and when.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ArrivalPlan {
    /// How the gaps are spread.
    pub process: Process,
    /// Calls a second, once a ramp is over. Nothing starts at zero or below.
    pub rate: f64,
    /// How the rate gets there; `None`: it is there at once.
    pub ramp: Option<Ramp>,
    /// At most so many calls; `None`: no limit.
    pub calls_max: Option<u64>,
    /// Calls start during this time only; `None`: no limit.
    pub duration: Option<Duration>,
}

impl ArrivalPlan {
    /// The instant, in seconds after the start, until which `mass` calls are expected: the inverse of the
    /// rate's integral. `None` when the rate never adds up to that many.
    fn time_of(&self, mass: f64) -> Option<f64> {
        let (mut settled_at, mut ramp_mass) = (0.0, 0.0);
        if let Some(Ramp { from_rate, over }) = self.ramp {
            let (from, to) = (from_rate.max(0.0), self.rate.max(0.0));
            settled_at = over.as_secs_f64();
            ramp_mass = settled_at * f64::midpoint(from, to);
            if mass < ramp_mass {
                // from * t + slope / 2 * t^2 = mass, solved in the form that does not cancel for small slopes.
                let slope = (to - from) / settled_at;
                return Some(2.0 * mass / (from + (from * from + 2.0 * slope * mass).max(0.0).sqrt()));
            }
        }
        (self.rate > 0.0).then(|| settled_at + (mass - ramp_mass) / self.rate)
    }
}

/// The start instants of one agent's calls, in order: each is decided by the plan and the seed alone.
#[derive(Debug)]
pub(crate) struct Arrivals {
    plan: ArrivalPlan,
    start: Instant,
    rng: Rng,
    /// Calls expected until the next one starts; a unit-rate process that the plan's rate stretches.
    mass: f64,
    taken: u64,
    next: Option<Instant>,
}

impl Arrivals {
    /// Arrivals by `plan`, counted from `start`.
    pub(crate) fn new(plan: ArrivalPlan, start: Instant, mut rng: Rng) -> Self {
        let mass = match plan.process {
            Process::Poisson => Exp1.sample(&mut rng),
            Process::Constant => StandardUniform.sample(&mut rng),
        };
        let mut arrivals = Self { plan, start, rng, mass, taken: 0, next: None };
        arrivals.next = arrivals.instant();
        arrivals
    }

    /// When the next call starts; `None` when all have started.
    pub(crate) fn peek(&self) -> Option<Instant> {
        self.next
    }

    /// The scheduled start of the next call if that is not after `now`. To be called until `None`: an agent
    /// that was held up still gets each call with the instant at which it should have started.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Instant> {
        let due = self.next.filter(|&next| next <= now)?;
        self.taken += 1;
        self.mass += match self.plan.process {
            Process::Poisson => Exp1.sample(&mut self.rng),
            Process::Constant => 1.0,
        };
        self.next = self.instant();
        Some(due)
    }

    /// No call starts any more.
    pub(crate) fn end(&mut self) {
        self.next = None;
    }

    fn instant(&self) -> Option<Instant> {
        if self.plan.calls_max.is_some_and(|max| self.taken >= max) {
            return None;
        }
        let after = Duration::try_from_secs_f64(self.plan.time_of(self.mass)?).ok()?;
        self.plan.duration.is_none_or(|duration| after < duration).then(|| self.start + after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: ArrivalPlan =
        ArrivalPlan { process: Process::Poisson, rate: 100.0, ramp: None, calls_max: None, duration: None };

    fn times(plan: ArrivalPlan, seed: u64) -> Vec<f64> {
        let mut arrivals = Arrivals::new(plan, Instant::from_millis(1_000), Rng::from_seed(seed));
        core::iter::from_fn(|| arrivals.pop(Instant::from_nanos(u64::MAX)))
            .map(|at| at.as_secs_f64() - 1.0)
            .collect()
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread_of_an_exponential() {
        let at = times(ArrivalPlan { calls_max: Some(100_000), ..PLAN }, 1);
        let gaps: Vec<_> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 0.01).abs() < 0.0001, "{mean}");
        assert!((variance.sqrt() - 0.01).abs() < 0.0002, "{variance}");
    }

    #[test]
    fn constant_gaps_do_not_drift() {
        let plan = ArrivalPlan { process: Process::Constant, calls_max: Some(100_000), ..PLAN };
        let at = times(plan, 2);
        assert!((at[99_999] - at[0] - 999.99).abs() < 1e-6);
        assert!(at[0] < 0.01, "the phase is within the first gap");
    }

    #[test]
    fn a_ramp_climbs_linearly_and_a_duration_ends_the_run() {
        let plan = ArrivalPlan {
            process: Process::Constant,
            ramp: Some(Ramp { from_rate: 0.0, over: Duration::from_secs(10) }),
            duration: Some(Duration::from_secs(20)),
            ..PLAN
        };
        let at = times(plan, 3);
        let until = |seconds: f64| at.iter().filter(|&&time| time < seconds).count();
        // The integral of 10 t is 5 t^2: 125 calls after 5 s, 500 after 10 s, then 100 a second.
        assert!(until(5.0).abs_diff(125) <= 1 && until(10.0).abs_diff(500) <= 1);
        assert!(until(11.0).abs_diff(600) <= 1 && at.len().abs_diff(1_500) <= 1);
    }

    #[test]
    fn a_ramp_to_zero_ends() {
        let ramp = Ramp { from_rate: 100.0, over: Duration::from_secs(10) };
        let at = times(ArrivalPlan { process: Process::Constant, rate: 0.0, ramp: Some(ramp), ..PLAN }, 4);
        assert!(at.len().abs_diff(500) <= 1 && at.iter().all(|&time| time <= 10.0));
    }
}
