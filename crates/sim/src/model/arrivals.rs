//! When calls start: a load that changes by steps and ramps.

use base::{Instant, Rng};
use config::scenario::Step;
use core::time::Duration;
use rand_distr::{Distribution, Exp1, StandardUniform};

/// The start instants of a stream: each is decided by the steps and the seed alone.
#[derive(Debug)]
pub(crate) struct Arrivals {
    steps: Vec<Step>,
    poisson: bool,
    rng: Rng,
    /// The step in which `at` lies.
    step: usize,
    /// Seconds since the start of the run, of the last arrival.
    at: f64,
}

impl Arrivals {
    pub(crate) fn new(steps: &[Step], poisson: bool, mut rng: Rng) -> Self {
        // A random phase, so that streams of constant rate do not start in step.
        let phase: f64 = StandardUniform.sample(&mut rng);
        let mut arrivals = Self { steps: steps.to_vec(), poisson, rng, step: 0, at: 0.0 };
        if !poisson {
            arrivals.at = arrivals.after(phase).unwrap_or(f64::INFINITY);
        }
        arrivals
    }

    /// The next start; `None` when the load stays at zero.
    pub(crate) fn next(&mut self) -> Option<Instant> {
        let mass = if self.poisson { Exp1.sample(&mut self.rng) } else { 1.0 };
        self.at = self.after(mass)?;
        Some(Instant::ZERO + Duration::try_from_secs_f64(self.at).ok()?)
    }

    /// When the integral of the rate since the last arrival has come to `mass`.
    fn after(&mut self, mut mass: f64) -> Option<f64> {
        let mut from = self.at;
        while let Some(step) = self.steps.get(self.step) {
            let begin = step.at.as_secs_f64();
            let next = self.steps.get(self.step + 1);
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

    fn step(at: u64, rate: f64, ramp: bool) -> Step {
        Step { at: Duration::from_secs(at), rate, ramp }
    }

    #[test]
    fn as_many_calls_start_as_the_load_adds_up_to() {
        let steps =
            [step(0, 10.0, false), step(100, 0.0, false), step(200, 0.0, true), step(300, 40.0, false)];
        for poisson in [false, true] {
            let mut arrivals = Arrivals::new(&steps, poisson, Rng::from_seed(1));
            let starts: Vec<f64> = std::iter::from_fn(|| arrivals.next())
                .map(|at| (at - Instant::ZERO).as_secs_f64())
                .take_while(|at| *at < 400.0)
                .collect();
            let count =
                |from: f64, to: f64| starts.iter().filter(|at| (from..to).contains(*at)).count() as f64;
            let slack = if poisson { 4.0 } else { 0.0 };
            for (from, to, expected) in
                [(0.0, 100.0, 1_000.0), (100.0, 200.0, 0.0), (200.0, 300.0, 2_000.0), (300.0, 400.0, 4_000.0)]
            {
                let off = (count(from, to) - expected).abs();
                assert!(off <= 1.0 + slack * f64::sqrt(expected), "{from} to {to}: off by {off}");
            }
        }
    }

    #[test]
    fn no_load_has_no_calls() {
        assert_eq!(Arrivals::new(&[step(0, 0.0, false)], true, Rng::from_seed(1)).next(), None);
    }
}
