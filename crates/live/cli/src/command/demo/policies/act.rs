//! The acts of the demo: their events, and how they run.

use super::cast::{CAST, Cast, Part, rate};
use super::scene::{Act, Outcome, Plot, Scene};
use super::view;
use crate::command::demo::stage::{self, LineClock, Screen};
use crate::picture::{Line, Past, Tracks};
use anyhow::Result;
use ratatui::Frame;
use server::figures::MemberView;
use std::time::Instant;

/// Progress of the plain output within an act.
#[derive(Default)]
pub(super) struct Printed {
    act: String,
    news: usize,
}

impl stage::Scene for Scene<'_> {
    type Printed = Printed;

    fn draw(&self, frame: &mut Frame<'_>) {
        view::draw(frame, self);
    }

    fn print(&self, printed: &mut Printed, clock: &mut LineClock) -> Result<()> {
        let (number, policy) = (self.number, &self.act.policy);
        if printed.act != number {
            *printed = Printed { act: number.to_owned(), news: 0 };
            clock.restart();
        }
        for news in &self.news[printed.news..] {
            print_line!("{number} {policy:<12} {news}")?;
        }
        printed.news = self.news.len();
        if clock.is_due() {
            print_line!("{number} {policy:<12} {:4.1} s  {}", self.seconds, self.results.progress())?;
        }
        Ok(())
    }
}

/// Longest wait for the last calls of an act, in seconds: one or two retransmissions.
const PATIENCE: f64 = 3.0;

/// Plays an act. Returns `None` if the user quits.
pub(super) async fn play(
    act: &Act,
    number: &str,
    screen: &mut Screen<Printed>,
    outcomes: &[Outcome],
) -> Result<Option<Outcome>> {
    let rate = rate(act.load);
    let mut cast = Cast::open(&act.policy, rate, act.seconds).await?;
    let start = Instant::now();
    let mut script = Script::new(act);
    let mut tracks = Tracks::default();
    while !cast.caller.is_finished() {
        let seconds = start.elapsed().as_secs_f64();
        if seconds > act.seconds + PATIENCE {
            break;
        }
        script.follow(seconds, &mut cast).await?;
        let members = cast.members().await?;
        let lines = lines(&members, tracks.sample(seconds, &members));
        let results = cast.caller.snapshot().results;
        screen.show(&Scene { number, act, seconds, lines, results, news: &script.news, outcomes })?;
        if screen.has_quit().await? {
            cast.close().await?;
            return Ok(None);
        }
    }
    let results = cast.close().await?;
    Ok(Some(Outcome { plot: act.plot, policy: act.policy.clone(), rate, results }))
}

/// Rows of the servers, in the order of the cast.
fn lines(members: &[MemberView], pasts: Vec<Past>) -> Vec<Line> {
    let line = |((part, member), past): ((&Part, &MemberView), Past)| {
        Line::new(part.name.to_owned(), 1.0 / part.slowdown, member, past)
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

/// Index of the server that crashes. `DRAINED` is the index of the drained server.
const CRASHING: usize = 0;
const DRAINED: usize = 2;

/// Events of an act: the events still to come, and the texts of past events.
struct Script {
    /// Events with their times in seconds.
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

    async fn follow(&mut self, seconds: f64, cast: &mut Cast) -> Result<()> {
        let Some(&(at, event)) = self.events.first() else { return Ok(()) };
        if seconds < at {
            return Ok(());
        }
        self.events.remove(0);
        let (crashing, drained) = (CAST[CRASHING].name, CAST[DRAINED].name);
        let news = match event {
            Event::Crash => {
                cast.crash(CRASHING)?;
                format!("{crashing} is killed together with its calls")
            }
            Event::Restart => {
                cast.restart(CRASHING)?;
                format!("{crashing} is started again without its calls; slow start")
            }
            Event::Drain => {
                cast.drain(DRAINED, true).await?;
                format!("{drained} is drained: its calls go on, new calls go to others")
            }
            Event::Undrain => {
                cast.drain(DRAINED, false).await?;
                format!("{drained} takes new calls again")
            }
        };
        self.news.push(format!("{seconds:4.1} s  {news}"));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::CallResults;

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
