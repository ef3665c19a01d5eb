//! All that play in the demo: the proxies, the phones, and the screen.

use super::chain::Chain;
use super::phases::{MEASURE, MEASURE_SECONDS};
use super::phones::{Calls, Phones};
use super::scene::{Line, Scene, Tracks};
use crate::command::demo::stage::Screen;
use anyhow::Result;
use load::{ArrivalPlan, ArrivalProcess, CallResults, RateStep};
use std::time::{Duration, Instant};

/// All that play, and where they are seen.
pub(super) struct Company {
    pub(super) chain: Chain,
    pub(super) phones: Phones,
    pub(super) screen: Screen<Option<&'static str>>,
    pub(super) tracks: Tracks,
    pub(super) start: Instant,
}

/// Of each of the two phones: half of the calls, which come at these rates, each for so long.
pub(super) fn plan(rates: &[f64], seconds: f64) -> ArrivalPlan {
    let step = |(number, rate): (u32, &f64)| RateStep {
        at: Duration::from_secs_f64(seconds) * number,
        rate: rate / 2.0,
        ramp: false,
    };
    ArrivalPlan {
        // Chance would move the shares from one second to the next, and hide what moves them.
        process: ArrivalProcess::Constant,
        steps: (0..).zip(rates).map(step).collect(),
        calls_max: None,
        duration: Some(Duration::from_secs_f64(seconds) * rates.len() as u32),
    }
}

impl Company {
    pub(super) fn call(&mut self, plan: &ArrivalPlan, hold: Duration) -> Result<Calls> {
        self.phones.call(self.chain.ends().0, plan, hold)
    }

    pub(super) async fn sample(&mut self) -> Result<Vec<Line>> {
        Ok(self.tracks.sample(self.start.elapsed().as_secs_f64(), &self.chain.standings().await?))
    }

    /// Shows a moment before the phases, and returns what the proxies say.
    pub(super) async fn show_measuring(&mut self, rate: f64, calls: CallResults) -> Result<Vec<Line>> {
        let lines = self.sample().await?;
        self.screen.show(&Scene {
            phase: MEASURE,
            number: None,
            rate,
            seconds: self.start.elapsed().as_secs_f64(),
            total: MEASURE_SECONDS,
            is_measured: true,
            lines: lines.clone(),
            registered: self.phones.registered(),
            calls,
            ended: &[],
        })?;
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_has_its_rate() {
        let rates = [50.0, 108.0, 115.0];
        let plan = plan(&rates, 10.0);
        let both: Vec<_> = plan.steps.iter().map(|step| (step.at.as_secs(), 2.0 * step.rate)).collect();
        assert_eq!(both, (0..).step_by(10).zip(rates).collect::<Vec<_>>());
        assert_eq!(plan.duration, Some(Duration::from_secs(30)));
    }
}
