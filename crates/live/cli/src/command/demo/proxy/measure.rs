//! Measures how many calls the first proxy carries when it keeps the state of all.

use super::chain::CAST;
use super::company::{Company, plan};
use super::phases::{MEASURE, MEASURE_SECONDS};
use super::scene::Line;
use anyhow::{Result, ensure};
use load::{ArrivalPlan, ArrivalProcess, CallResults};
use std::time::{Duration, Instant};

/// How long the first proxy gets as much as it can do. Longer than two of its periods: by a full one it learns what
/// its work costs.
const FULL: Duration = Duration::from_millis(2_500);
/// Calls in progress by then, of each phone: enough that the first proxy never waits for the others.
const BURST: u64 = 50;
/// At most so many times that number, on a machine that is that fast.
const BURSTS_MAX: u64 = 200;
/// How long a part of that load is offered, so that the first proxy has room and keeps all, and how much of that time
/// counts.
const STEADY: f64 = MEASURE_SECONDS - FULL.as_millis() as f64 / 1e3;
const COUNTED: f64 = 2.0;

/// Calls a second; `None` when somebody has seen enough.
pub(super) async fn carried(company: &mut Company) -> Result<Option<f64>> {
    let Some(most) = saturate(company).await? else { return Ok(None) };
    let offered = MEASURE.load * most;
    let calls = company.call(&plan(&[offered], STEADY), Duration::ZERO)?;
    let start = Instant::now();
    let mut seen = Vec::new();
    while start.elapsed().as_secs_f64() < STEADY {
        let lines = company.show_measuring(offered, calls.results()).await?;
        if start.elapsed().as_secs_f64() > STEADY - COUNTED {
            seen.push(lines);
        }
        if company.screen.has_quit().await? {
            return Ok(None);
        }
    }
    let carries = |index: usize| {
        let sum = |of: fn(&Line) -> f64| seen.iter().map(|lines| of(&lines[index])).sum::<f64>();
        let (calls, busy) = (sum(|line| line.calls_per_second), sum(|line| line.busy));
        ensure!(calls > 0.0 && busy > 0.0, "{} had no calls to be measured by", CAST[index].name);
        Ok(calls / busy)
    };
    let (first, home) = (carries(0)?, carries(CAST.len() - 1)?);
    company.chain.size_home(first, home)?;
    Ok(Some(first))
}

/// As many calls a second as come through when there are always enough of them.
async fn saturate(company: &mut Company) -> Result<Option<f64>> {
    let burst = ArrivalPlan {
        calls_max: Some(BURST),
        // All at once.
        ..ArrivalPlan::steady(ArrivalProcess::Constant, 1e5)
    };
    let start = Instant::now();
    let (mut done, mut bursts) = (CallResults::default(), 0);
    while start.elapsed() < FULL && bursts < BURSTS_MAX {
        let calls = company.call(&burst, Duration::ZERO)?;
        bursts += 1;
        while !calls.are_finished() {
            let is_frame = tokio::select! {
                quit = company.screen.has_quit() => if quit? { return Ok(None) } else { true },
                () = tokio::time::sleep(Duration::from_millis(2)) => false,
            };
            if is_frame {
                let rate = done.calls_completed as f64 / start.elapsed().as_secs_f64();
                company.show_measuring(rate, done.clone()).await?;
            }
        }
        done.merge(&calls.results());
    }
    ensure!(done.calls_completed > 0, "no call came through");
    Ok(Some(done.calls_completed as f64 / start.elapsed().as_secs_f64()))
}
