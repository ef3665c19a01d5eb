//! How an act is played.

use super::act::{Act, EVENT_AT, Event};
use super::measured::{Measured, Track};
use super::side::Side;
use super::view::{self, Scene};
use crate::command::demo::stage::{self, LineClock, Screen};
use anyhow::Result;
use load::CallResults;
use ratatui::Frame;
use std::time::Instant;

/// Shortest and longest wait for the last calls, in seconds. Calls that a side has lost do not end.
const GRACE: f64 = 2.5;
const PATIENCE: f64 = 10.0;

impl stage::Scene for Scene<'_> {
    /// The last heading.
    type Printed = String;

    fn draw(&self, frame: &mut Frame<'_>) {
        view::draw(frame, self);
    }

    fn print(&self, printed: &mut String, clock: &mut LineClock) -> Result<()> {
        let heading = format!("{} {}", self.place(), self.now());
        if *printed != heading {
            print_line!("{heading}")?;
            *printed = heading;
            clock.restart();
        }
        if clock.is_due() {
            for (figures, (name, _)) in self.sides.iter().zip(&self.act().sides) {
                let progress = figures.results.progress();
                print_line!("{} {:4.1} s  {name:<35}  {progress}", self.place(), self.seconds)?;
            }
        }
        Ok(())
    }
}

/// Plays an act on all sides at once. Returns `None` if the user quits.
pub(super) async fn play(
    acts: &[Act],
    number: usize,
    screen: &mut Screen<String>,
    verdicts: &[(usize, String)],
) -> Result<Option<Vec<Measured>>> {
    let act = &acts[number - 1];
    let mut sides = Vec::new();
    for index in 0..act.sides.len() {
        sides.push(Side::open(act, index).await?);
    }
    sides.iter_mut().try_for_each(|side| side.call(act))?;
    let start = Instant::now();
    let mut tracks: Vec<_> = sides.iter().map(|_| Track::default()).collect();
    let (mut is_disturbed, mut mark) = (false, None);
    loop {
        let seconds = start.elapsed().as_secs_f64();
        let results: Vec<_> = sides.iter().map(Side::results).collect();
        if mark.is_none() && seconds >= act.measured_from() {
            mark = Some((seconds, results.clone()));
        }
        let is_over = is_disturbed && is_over(act, seconds - act.seconds, &results[results.len() - 1]);
        if let Some((since, before)) = mark.take_if(|_| is_over) {
            let sides = before.into_iter().zip(results);
            return Ok(Some(
                sides.map(|(before, end)| Measured { before, end, seconds: seconds - since }).collect(),
            ));
        }
        if !is_disturbed && seconds >= EVENT_AT {
            is_disturbed = true;
            for side in &mut sides {
                side.disturb(act).await?;
            }
        }
        let sides =
            tracks.iter_mut().zip(results).map(|(track, results)| track.sample(seconds, results)).collect();
        screen.show(&Scene { acts, number, is_disturbed, seconds, sides, verdicts })?;
        if screen.has_quit().await? {
            return Ok(None);
        }
    }
}

/// Whether an act ends, so many seconds after its last call has started. `with` are the results of the side with the
/// feature, which should miss no call.
fn is_over(act: &Act, late: f64, with: &CallResults) -> bool {
    match act.event {
        Event::Crash | Event::Restart => late > PATIENCE || late > GRACE && act.missing(with) == 0,
        Event::None | Event::Slowdown | Event::Overload => late > 0.0,
    }
}
