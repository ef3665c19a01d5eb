//! Has the phones call by way of the proxies, phase by phase, and shows it.

use super::chain::{Chain, rate};
use super::phases::Phase;
use super::phones::{Phones, Ringing};
use super::scene::{Ended, Outcome, Scene, Tracks};
use crate::command::demo::stage::Screen;
use crate::command::load::random;
use anyhow::Result;
use load::{ArrivalPlan, ArrivalProcess, RateStep};
use std::time::{Duration, Instant};
use tokio::signal::unix::SignalKind;

/// How long the last calls may take to end: that is repeated once or twice, if need be.
const PATIENCE: f64 = 5.0;

/// Plays all phases, or until somebody has seen enough.
pub(super) async fn play(phases: &[Phase], seconds: f64, seed: u64, plain: bool) -> Result<Outcome> {
    let password = format!("{:016x}", random());
    let mut screen = Screen::open(plain, &[SignalKind::interrupt()])?;
    let ringing = Ringing::start(seed)?;
    let chain = Chain::open(&password).await?;
    let phones = ringing.register_and_call(chain.ends(), &password, &plan(phases, seconds))?;
    let outcome = show(phases, seconds, (&chain, &phones), &mut screen).await;
    drop(phones);
    chain.close().await?;
    outcome
}

/// Of each of the two phones: half of the calls.
fn plan(phases: &[Phase], seconds: f64) -> ArrivalPlan {
    let step = |(number, phase): (u32, &Phase)| RateStep {
        at: Duration::from_secs_f64(seconds) * number,
        rate: rate(phase.load) / 2.0,
        ramp: false,
    };
    ArrivalPlan {
        // Chance would move the shares from one second to the next, and hide what moves them.
        process: ArrivalProcess::Constant,
        steps: (0..).zip(phases).map(step).collect(),
        calls_max: None,
        duration: Some(Duration::from_secs_f64(seconds) * phases.len() as u32),
    }
}

async fn show(
    phases: &[Phase],
    seconds: f64,
    (chain, phones): (&Chain, &Phones),
    screen: &mut Screen<Option<usize>>,
) -> Result<Outcome> {
    let (start, total) = (Instant::now(), seconds * phases.len() as f64);
    let (mut tracks, mut ended) = (Tracks::new(), Vec::new());
    let mut last = Vec::new();
    let mut quit = None;
    while !phones.are_finished() {
        let now = start.elapsed().as_secs_f64();
        if now > total + PATIENCE {
            phones.wind_down();
            break;
        }
        // What the phase before has come to is what was seen last in it.
        while now >= seconds * (ended.len() + 1) as f64 && ended.len() < phases.len() {
            ended.push(Ended { phase: phases[ended.len()], lines: std::mem::take(&mut last) });
        }
        let index = ended.len().min(phases.len() - 1);
        let lines = tracks.sample(now, &chain.standings().await?);
        if ended.len() < phases.len() {
            last.clone_from(&lines);
        }
        let (registered, calls) = (phones.registered(), phones.calls());
        screen.show(&Scene {
            phases,
            index,
            seconds: now,
            total,
            lines,
            registered,
            calls,
            ended: &ended,
        })?;
        if screen.has_quit().await? {
            let phase = phases[index].name;
            quit = Some(format!(
                "Left in phase {}/{}, {phase}: it is not counted here.",
                index + 1,
                phases.len()
            ));
            break;
        }
    }
    if quit.is_none() && ended.len() < phases.len() && !last.is_empty() {
        ended.push(Ended { phase: phases[ended.len()], lines: last });
    }
    Ok(Outcome { ended, calls: phones.calls(), registrations: phones.registered(), quit })
}

#[cfg(test)]
mod tests {
    use super::super::phases::PHASES;
    use super::*;

    #[test]
    fn each_phase_has_its_rate() {
        let plan = plan(&PHASES, 10.0);
        let both: Vec<_> = plan.steps.iter().map(|step| (step.at.as_secs(), 2.0 * step.rate)).collect();
        let expected = (0..).step_by(10).zip(PHASES.map(|phase| rate(phase.load)));
        assert_eq!(both, expected.collect::<Vec<_>>());
        assert_eq!(plan.duration, Some(Duration::from_secs(50)));
    }
}
