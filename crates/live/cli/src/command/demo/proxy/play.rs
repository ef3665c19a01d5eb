//! Has the phones call by way of the proxies, phase by phase, and shows it.

use super::chain::{Chain, HIGH, MODEL_CARRIES, Processors};
use super::company::{Company, plan};
use super::measure;
use super::phases::Phase;
use super::phones::Ringing;
use super::scene::{Ended, Line, Outcome, Scene, Tracks};
use crate::command::demo::stage::Screen;
use crate::command::load::random;
use crate::print;
use anyhow::Result;
use load::{CallResults, Times};
use std::time::{Duration, Instant};
use tokio::signal::unix::SignalKind;

/// Mean time that calls last.
const HOLD: Duration = Duration::from_millis(500);
/// How long the last calls may take to end: that is repeated once or twice, if need be.
const PATIENCE: f64 = 5.0;

/// Plays all phases, or until somebody has seen enough.
pub(super) async fn play(
    phases: &[Phase],
    seconds: f64,
    processors: Processors,
    seed: u64,
    plain: bool,
) -> Result<Outcome> {
    // All that asks this process to end is waited for, since the control groups are to go with it.
    let ends = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let password = format!("{:016x}", random());
    print::line(&processors)?;
    let screen = Screen::open(plain, &ends)?;
    let ringing = Ringing::start(seed)?;
    let chain = Chain::open(&password, processors).await?;
    let phones = ringing.register(chain.ends().1, &password)?;
    let mut company = Company { chain, phones, screen, tracks: Tracks::new(), start: Instant::now() };
    let outcome = company.play(phases, seconds).await;
    let Company { chain, phones, .. } = company;
    drop(phones);
    chain.close().await?;
    outcome
}

impl Company {
    async fn play(&mut self, phases: &[Phase], seconds: f64) -> Result<Outcome> {
        let carries =
            if self.chain.is_measured() { measure::carried(self).await? } else { Some(MODEL_CARRIES) };
        let Some(carries) = carries else {
            let quit = Some("Left before the first phase.".to_owned());
            return Ok(self.outcome(Vec::new(), 0.0, CallResults::default(), quit));
        };
        let rates: Vec<_> = phases.iter().map(|phase| phase.load * HIGH * carries).collect();
        let calls = self.call(&plan(&rates, seconds), HOLD)?;
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
            // What the phase before has come to is what was seen last in it.
            while now >= seconds * (ended.len() + 1) as f64 && ended.len() < phases.len() {
                ended.push(end(ended.len(), std::mem::take(&mut last)));
                before = results.clone();
            }
            let index = ended.len().min(phases.len() - 1);
            let lines = self.sample().await?;
            let calls = results.with_times_since(&before);
            if ended.len() < phases.len() {
                last = (lines.clone(), calls.invite_response.clone());
            }
            self.screen.show(&Scene {
                phase: phases[index],
                number: Some((index + 1, phases.len())),
                rate: rates[index],
                seconds: now,
                total,
                is_measured: self.chain.is_measured(),
                lines,
                registered: self.phones.registered(),
                calls,
                ended: &ended,
            })?;
            if self.screen.has_quit().await? {
                let (name, number, of) = (phases[index].name, index + 1, phases.len());
                quit = Some(format!("Left in phase {number}/{of}, {name}: it is not counted here."));
                break;
            }
        }
        if quit.is_none() && ended.len() < phases.len() && !last.0.is_empty() {
            ended.push(end(ended.len(), last));
        }
        Ok(self.outcome(ended, carries, calls.results(), quit))
    }

    fn outcome(&self, ended: Vec<Ended>, carries: f64, calls: CallResults, quit: Option<String>) -> Outcome {
        let (is_measured, registrations) = (self.chain.is_measured(), self.phones.registered());
        Outcome { ended, is_measured, carries, calls, registrations, quit }
    }
}
