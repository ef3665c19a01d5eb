//! Has the callers call, disturbs a server and relieves it, and shows what the balancer makes of it.

use super::neighbour::Neighbour;
use super::scene::Outcome;
use super::screen::Lines;
use super::stage::Stage;
use super::story::{PHASES, Story};
use super::tracks::Tracks;
use crate::command::demo::screen::Screen;
use anyhow::{Result, bail};
use load::CallResults;
use server::agents::Running;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::MissedTickBehavior;

/// How often it is shown.
const FRAME: Duration = Duration::from_millis(200);
/// How long the last calls may take to end: that is repeated once or twice, if need be.
const PATIENCE: f64 = 5.0;
/// How long the first server may take beyond its time to start.
const START: Duration = Duration::from_secs(20);

/// Plays all phases, or until somebody has seen enough.
pub(super) async fn play(story: &Story, seed: u64, screen: &mut Screen<Lines>) -> Result<Outcome> {
    let stage = Stage::open(story).await?;
    let outcome = show(&stage, story, seed, screen).await;
    stage.close().await?;
    outcome
}

async fn show(stage: &Stage, story: &Story, seed: u64, screen: &mut Screen<Lines>) -> Result<Outcome> {
    let opened = Instant::now();
    let mut ends = Ends::new()?;
    let mut tracks = Tracks::new(story);
    let mut caller: Option<(Instant, Running<CallResults>)> = None;
    let mut neighbour = None;
    let mut frames = tokio::time::interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut quit = None;
    loop {
        let seconds = caller.as_ref().map_or(0.0, |(since, _)| since.elapsed().as_secs_f64());
        let index = story.over(seconds);
        let phase = PHASES.get(index);
        match (phase.is_some_and(|phase| phase.has_neighbour), &neighbour) {
            (true, None) => neighbour = Some(Neighbour::of(stage.disturbed())?),
            (false, Some(_)) => neighbour = None,
            _ => {}
        }
        let moment = stage.look().await?;
        if caller.is_none() {
            if moment.ready() > 0 {
                caller = Some((Instant::now(), stage.call(story, seed)?));
            } else if opened.elapsed() > story.pace.boot + START {
                let why = moment.trouble.as_deref().unwrap_or("it does not answer");
                bail!("the first server does not start: {why}");
            }
        }
        tracks.see(seconds, moment, results(caller.as_ref()), neighbour.is_some());
        screen.show(&tracks.scene())?;
        if caller.as_ref().is_some_and(|(_, caller)| caller.is_finished()) || seconds > story.total + PATIENCE
        {
            break;
        }
        let interrupted = tokio::select! {
            _ = frames.tick() => false,
            () = ends.asked() => true,
        };
        if interrupted || screen.quit_asked()? {
            let name = phase.map_or("the last calls", |phase| phase.name);
            quit = Some(format!("Left in phase {}/{}, {name}.", (index + 1).min(PHASES.len()), PHASES.len()));
            break;
        }
    }
    Ok(Outcome {
        calls: results(caller.as_ref()),
        started: tracks.news.started,
        stopped: tracks.news.stopped,
        usage: tracks.usage(),
        ended: tracks.ended,
        quit,
    })
}

fn results(caller: Option<&(Instant, Running<CallResults>)>) -> CallResults {
    caller.map(|(_, caller)| caller.snapshot().results).unwrap_or_default()
}

/// What asks this process to end. Each is waited for, since the servers are to end with it.
struct Ends {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Ends {
    fn new() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}
