//! The acts of the demo: what happens in each, and how it goes.

use super::plain::Lines;
use super::screen::Screen;
use super::stage::{CAST, Part, Stage, rate};
use crate::picture::{Line, Past, Tracks};
use anyhow::Result;
use load::CallResults;
use server::admin::view::MemberView;
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;

/// What happens in an act.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Plot {
    /// Nothing but calls.
    Compare,
    /// A server crashes and comes back, then another is drained and taken back.
    Crash,
}

pub(super) struct Act {
    pub(super) plot: Plot,
    pub(super) policy: String,
    /// Share of all servers' capacity.
    pub(super) load: f64,
    /// How long calls are started.
    pub(super) seconds: f64,
}

/// What came of an act.
pub(super) struct Outcome {
    pub(super) plot: Plot,
    pub(super) policy: String,
    /// Calls a second.
    pub(super) rate: f64,
    pub(super) results: CallResults,
}

impl Outcome {
    /// Calls that were not set up.
    pub(super) fn calls_lost(&self) -> u64 {
        let results = &self.results;
        results.calls_refused.values().sum::<u64>()
            + results.invite_timeouts
            + results.calls_abandoned
            + results.calls_answered_late
    }

    /// Answered calls that could not be ended: their server had forgotten them.
    pub(super) fn calls_broken(&self) -> u64 {
        self.results.bye_refused.values().sum::<u64>() + self.results.bye_timeouts
    }

    /// Load of the busiest server over the mean of all.
    pub(super) fn imbalance(&self) -> f64 {
        let load = CAST.iter().map(|part| {
            let calls = self.results.calls_by_server.get(part.name).copied().unwrap_or(0);
            calls as f64 * part.slowdown
        });
        let mean = load.clone().sum::<f64>() / CAST.len() as f64;
        if mean > 0.0 { load.fold(0.0, f64::max) / mean } else { 1.0 }
    }
}

/// One moment of an act, to be shown.
pub(super) struct Scene<'a> {
    /// Number of the act, of how many.
    pub(super) number: &'a str,
    pub(super) act: &'a Act,
    /// Since its begin, in seconds.
    pub(super) seconds: f64,
    pub(super) lines: Vec<Line>,
    pub(super) results: CallResults,
    /// What happened in it.
    pub(super) news: &'a [String],
    /// The acts before.
    pub(super) outcomes: &'a [Outcome],
}

/// How often the scene is shown.
const FRAME: Duration = Duration::from_millis(200);
/// How long the last calls of an act may take to end: that is repeated once or twice, if need be.
const PATIENCE: f64 = 3.0;

/// Plays an act; `None` when somebody has seen enough.
pub(super) async fn play(
    act: &Act,
    number: &str,
    seed: u64,
    screen: &mut Screen<Lines>,
    outcomes: &[Outcome],
) -> Result<Option<Outcome>> {
    let rate = rate(act.load);
    let mut stage = Stage::open(&act.policy, rate, act.seconds, seed).await?;
    let start = Instant::now();
    let mut script = Script::new(act);
    let mut tracks = Tracks::default();
    let mut frames = tokio::time::interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !stage.caller.is_finished() {
        let seconds = start.elapsed().as_secs_f64();
        if seconds > act.seconds + PATIENCE {
            break;
        }
        script.follow(seconds, &mut stage).await?;
        let members = stage.members().await?;
        let lines = lines(&members, tracks.sample(seconds, &members));
        let results = stage.caller.snapshot().results;
        screen.show(&Scene { number, act, seconds, lines, results, news: &script.news, outcomes })?;
        let interrupted = tokio::select! {
            _ = frames.tick() => false,
            _ = tokio::signal::ctrl_c() => true,
        };
        if interrupted || screen.quit_asked()? {
            stage.close().await?;
            return Ok(None);
        }
    }
    let results = stage.close().await?;
    Ok(Some(Outcome { plot: act.plot, policy: act.policy.clone(), rate, results }))
}

/// What is shown of the servers, which are in the order of the cast.
fn lines(members: &[MemberView], pasts: Vec<Past>) -> Vec<Line> {
    let line = |((part, member), past): ((&Part, &MemberView), Past)| {
        Line::new(part.name.to_owned(), 1.0 / part.slowdown, member.state.clone(), member, past)
    };
    CAST.iter().zip(members).zip(pasts).map(line).collect()
}

#[derive(Clone, Copy)]
enum Event {
    Crash,
    Restart,
    Drain,
    Undrain,
}

/// The server that crashes, and the one that is drained.
const CRASHING: usize = 0;
const DRAINED: usize = 2;

/// What is still to happen in an act, and what has.
struct Script {
    /// With the second at which it is due.
    events: Vec<(f64, Event)>,
    news: Vec<String>,
}

impl Script {
    fn new(act: &Act) -> Self {
        let events: &[(f64, Event)] = match act.plot {
            Plot::Compare => &[],
            Plot::Crash => {
                &[(0.15, Event::Crash), (0.4, Event::Restart), (0.6, Event::Drain), (0.85, Event::Undrain)]
            }
        };
        let events = events.iter().map(|&(share, event)| (share * act.seconds, event)).collect();
        Self { events, news: Vec::new() }
    }

    async fn follow(&mut self, seconds: f64, stage: &mut Stage) -> Result<()> {
        let Some(&(at, event)) = self.events.first() else { return Ok(()) };
        if seconds < at {
            return Ok(());
        }
        self.events.remove(0);
        let (crashing, drained) = (CAST[CRASHING].name, CAST[DRAINED].name);
        let news = match event {
            Event::Crash => {
                stage.crash(CRASHING)?;
                format!("{crashing} is killed, with the calls that it has")
            }
            Event::Restart => {
                stage.restart(CRASHING)?;
                format!("{crashing} is started again and knows nothing; the balancer eases it in")
            }
            Event::Drain => {
                stage.drain(DRAINED, true).await?;
                format!("{drained} is drained: its calls go on, new ones go elsewhere")
            }
            Event::Undrain => {
                stage.drain(DRAINED, false).await?;
                format!("{drained} takes calls again")
            }
        };
        self.news.push(format!("{seconds:4.1} s  {news}"));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imbalance_is_the_busiest_over_the_mean() {
        let mut results = CallResults::default();
        for (part, calls) in CAST.iter().zip([100, 100, 100, 100]) {
            results.calls_by_server.insert(part.name.to_owned(), calls);
        }
        let outcome = Outcome { plot: Plot::Compare, policy: String::new(), rate: 1.0, results };
        assert!((outcome.imbalance() - 1.6 / 1.225).abs() < 1e-9);
    }
}
