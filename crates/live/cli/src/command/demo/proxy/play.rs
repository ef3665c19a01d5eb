//! Runs the demo: the phones call through the proxies, phase by phase.

use super::chain::{CARRIES, Chain, HIGH};
use super::phases::Phase;
use super::phones::{Phones, Ringing};
use super::scene::{Ended, Line, Outcome, Scene, Tracks};
use crate::command::demo::stage::Screen;
use crate::command::load::random;
use anyhow::Result;
use load::{ArrivalPlan, ArrivalProcess, CallResults, RateStep, Times};
use std::time::{Duration, Instant};
use tokio::signal::unix::SignalKind;

/// Mean duration of calls.
const HOLD: Duration = Duration::from_millis(500);
/// Longest wait for the last calls, in seconds: one or two retransmissions.
const PATIENCE: f64 = 5.0;

/// Plays all phases, or until the user quits.
pub(super) async fn play(phases: &[Phase], seconds: f64) -> Result<Outcome> {
    let password = format!("{:016x}", random());
    let mut screen = Screen::open(&[SignalKind::interrupt()])?;
    let ringing = Ringing::start()?;
    let chain = Chain::open(&password).await?;
    let phones = ringing.register(chain.ends().1, &password)?;
    let outcome = show(&chain, &phones, &mut screen, phases, seconds).await;
    drop(phones);
    chain.close().await?;
    outcome
}

/// Schedule of each of the two phones: half of the calls of these rates, each rate for `seconds`.
fn plan(rates: &[f64], seconds: f64) -> ArrivalPlan {
    let step = |(number, rate): (u32, &f64)| RateStep {
        at: Duration::from_secs_f64(seconds) * number,
        rate: rate / 2.0,
        ramp: false,
    };
    ArrivalPlan {
        // Random arrivals would move the shares from second to second, and hide the effect of the load.
        process: ArrivalProcess::Constant,
        steps: (0..).zip(rates).map(step).collect(),
        calls_max: None,
        duration: Some(Duration::from_secs_f64(seconds) * rates.len() as u32),
    }
}

async fn show(
    chain: &Chain,
    phones: &Phones,
    screen: &mut Screen<Option<&'static str>>,
    phases: &[Phase],
    seconds: f64,
) -> Result<Outcome> {
    let mut tracks = Tracks::new();
    let rates: Vec<_> = phases.iter().map(|phase| phase.load * HIGH * CARRIES).collect();
    let calls = phones.call(chain.ends().0, &plan(&rates, seconds), HOLD)?;
    let (start, total) = (Instant::now(), seconds * phases.len() as f64);
    let (mut ended, mut last, mut before) =
        (Vec::new(), (Vec::new(), Times::default()), CallResults::default());
    let mut quit = None;
    let end = |index: usize, (lines, times): (Vec<Line>, Times)| Ended {
        phase: phases[index],
        rate: rates[index],
        lines,
        times,
    };
    while !calls.are_finished() {
        let now = start.elapsed().as_secs_f64();
        if now > total + PATIENCE {
            calls.wind_down();
            break;
        }
        let results = calls.results();
        // The last moment of a phase is its result.
        while now >= seconds * (ended.len() + 1) as f64 && ended.len() < phases.len() {
            ended.push(end(ended.len(), std::mem::take(&mut last)));
            before = results.clone();
        }
        let index = ended.len().min(phases.len() - 1);
        let lines = tracks.sample(now, &chain.standings().await?);
        let calls = results.with_times_since(&before);
        if ended.len() < phases.len() {
            last = (lines.clone(), calls.invite_response.clone());
        }
        screen.show(&Scene {
            phase: phases[index],
            number: (index + 1, phases.len()),
            rate: rates[index],
            seconds: now,
            total,
            lines,
            registered: phones.registered(),
            calls,
            ended: &ended,
        })?;
        if screen.has_quit().await? {
            let (name, number, of) = (phases[index].name, index + 1, phases.len());
            quit = Some(format!("Interrupted in phase {number}/{of}, {name}, which is not counted here."));
            break;
        }
    }
    if quit.is_none() && ended.len() < phases.len() && !last.0.is_empty() {
        ended.push(end(ended.len(), last));
    }
    Ok(Outcome { ended, calls: calls.results(), registrations: phones.registered(), quit })
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
