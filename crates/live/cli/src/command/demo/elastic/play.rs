//! Runs the demo: starts the calls, disturbs one server for a time, and shows how the balancer reacts.

use super::cluster::{Cluster, SERVICE};
use super::output::Printed;
use super::scene::Outcome;
use super::story::{PHASES, Story};
use super::tracks::Tracks;
use crate::command::demo::neighbour::Neighbour;
use crate::command::demo::stage::Screen;
use anyhow::{Result, bail};
use instruments::agents::RunningAgent;
use load::CallResults;
use std::time::{Duration, Instant};
use tokio::signal::unix::SignalKind;

/// Longest wait for the last calls, in seconds: one or two retransmissions.
const PATIENCE: f64 = 5.0;
/// Longest wait for the first server beyond its start time.
const START: Duration = Duration::from_secs(20);

/// Plays all phases, or until the user quits.
pub(super) async fn play(story: &Story) -> Result<Outcome> {
    // All signals that end this process are handled, because the servers should end with it.
    let ends = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let mut screen = Screen::open(&ends)?;
    let cluster = Cluster::open(story).await?;
    let outcome = show(&cluster, story, &mut screen).await;
    cluster.close().await?;
    outcome
}

async fn show(cluster: &Cluster, story: &Story, screen: &mut Screen<Printed>) -> Result<Outcome> {
    let opened = Instant::now();
    let mut tracks = Tracks::new(story);
    let mut caller: Option<(Instant, RunningAgent<CallResults>)> = None;
    let mut neighbour = None;
    let mut quit = None;
    loop {
        let seconds = caller.as_ref().map_or(0.0, |(since, _)| since.elapsed().as_secs_f64());
        let index = story.over(seconds);
        let phase = PHASES.get(index);
        match (phase.is_some_and(|phase| phase.has_neighbour), &neighbour) {
            (true, None) => neighbour = Some(Neighbour::of(cluster.disturbed(), SERVICE)?),
            (false, Some(_)) => neighbour = None,
            _ => {}
        }
        let moment = cluster.look().await?;
        if caller.is_none() {
            if moment.ready() > 0 {
                caller = Some((Instant::now(), cluster.call(story)?));
            } else if opened.elapsed() > story.pace.boot + START {
                let why = moment.trouble.as_deref().unwrap_or("the server does not answer");
                bail!("the first server does not start: {why}");
            }
        }
        tracks.see(seconds, moment, results(caller.as_ref()), neighbour.is_some());
        screen.show(&tracks.scene())?;
        if caller.as_ref().is_some_and(|(_, caller)| caller.is_finished()) || seconds > story.total + PATIENCE
        {
            break;
        }
        if screen.has_quit().await? {
            let name = phase.map_or("the last calls", |phase| phase.name);
            quit = Some(format!(
                "Interrupted in phase {}/{}, {name}.",
                (index + 1).min(PHASES.len()),
                PHASES.len()
            ));
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

fn results(caller: Option<&(Instant, RunningAgent<CallResults>)>) -> CallResults {
    caller.map(|(_, caller)| caller.snapshot().results).unwrap_or_default()
}
