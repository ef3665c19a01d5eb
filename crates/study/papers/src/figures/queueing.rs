//! Validation: queues with an exact mean waiting time, run on the engine's processor.

use super::FigureRun;
use crate::report::{Axis, Figure, Plot, PlotSeries, Statement, Style};
use base::{Instant, Rng};
use core::time::Duration;
use rand_distr::{Distribution, Exp};
use sim::engine::{Cpu, CpuConfig, EventQueue, Finish, Priority, Ticket, TimeSpread};
use sim::stats::{Confidence, Interval, Moments};

/// Service times of an external and of a timer message on the base server (Overload paper, section IV-A).
const EXTERNAL: Duration = Duration::from_millis(1);
const TIMER: Duration = Duration::from_micros(500);
const LOADS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
/// Probability of a false alarm in each statement's check, over all its loads.
const FALSE_ALARM: f64 = 0.01;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Model {
    /// External messages with exponential service times.
    Exponential,
    /// External messages with fixed service times.
    Fixed,
    /// Equal numbers of timer and external messages with fixed service times, timers first.
    Priorities,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    model: Model,
    load: f64,
}

impl Case {
    /// Messages per second of each class.
    fn rate(self) -> f64 {
        let work = match self.model {
            Model::Exponential | Model::Fixed => EXTERNAL,
            Model::Priorities => EXTERNAL + TIMER,
        };
        self.load / work.as_secs_f64()
    }

    /// Returns the exact mean wait in seconds.
    ///
    /// The work that an arrival finds in service is W0 = sum over classes of rate E[S²] / 2. A single class waits W0 /
    /// (1 - load) (Pollaczek and Khinchine). Of two classes, the first waits W0 / (1 - a) and the second W0 / ((1 - a)
    /// (1 - load)), where a is the load of the first (Cobham).
    fn exact(self, class: Priority) -> f64 {
        let (external, timer) = (EXTERNAL.as_secs_f64(), TIMER.as_secs_f64());
        let rate = self.rate();
        match self.model {
            Model::Exponential => rate * external * external / (1.0 - self.load),
            Model::Fixed => rate * external * external / 2.0 / (1.0 - self.load),
            Model::Priorities => {
                let residual = rate * (external * external + timer * timer) / 2.0;
                let first = residual / (1.0 - rate * timer);
                if class == Priority::P1 { first } else { first / (1.0 - self.load) }
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Event {
    Arrival(Priority),
    Finished(Ticket),
    WarmedUp,
}

/// Runs one queue for about `messages` messages of each class, after a tenth of that as warm-up. Returns both mean
/// waits in seconds.
fn run(case: Case, messages: f64, seed: u64) -> [f64; 2] {
    let rng = Rng::from_seed(seed);
    let spread = if case.model == Model::Exponential { TimeSpread::Exponential } else { TimeSpread::Fixed };
    let mut cpu = Cpu::new(CpuConfig { spread, ..CpuConfig::default() }, rng.fork("service"));
    let mut arrivals = [rng.fork("timers"), rng.fork("external")];
    let gap = Exp::new(case.rate()).expect("a load is above zero");
    let warm = Duration::from_secs_f64(0.1 * messages / case.rate());
    let end = Instant::ZERO + Duration::from_secs_f64(1.1 * messages / case.rate());

    let (mut events, mut waits) = (EventQueue::default(), [Moments::default(); 2]);
    events.after(warm, Event::WarmedUp);
    let classes: &[Priority] =
        if case.model == Model::Priorities { &[Priority::P1, Priority::P2] } else { &[Priority::P2] };
    for &class in classes {
        events.after(Duration::ZERO, Event::Arrival(class));
    }
    while let Some((now, event)) = events.pop_until(end) {
        match event {
            Event::Arrival(class) => {
                cpu.enqueue(now, class, if class == Priority::P1 { TIMER } else { EXTERNAL });
                let next = gap.sample(&mut arrivals[class as usize]);
                events.after(Duration::from_secs_f64(next), Event::Arrival(class));
            }
            Event::Finished(ticket) => {
                let finish = cpu.finish(now, ticket);
                debug_assert!(matches!(finish, Finish::Done(_)), "nothing stalls or fails here");
            }
            Event::WarmedUp => waits = [Moments::default(); 2],
        }
        while let Some(due) = cpu.start(now, |cost| *cost) {
            waits[due.class as usize].add(due.wait.as_nanos() as f64 / 1e9);
            events.at(due.at, Event::Finished(due.ticket));
        }
    }
    waits.map(|waits| waits.mean())
}

/// Measured mean waits of one class, by load.
struct Measured {
    cases: Vec<(Case, Moments)>,
    class: Priority,
}

impl Measured {
    fn points(&self) -> impl Iterator<Item = (f64, Interval)> {
        self.cases.iter().map(|(case, waits)| {
            let Interval { mean, half_width } = Interval::of(waits, Confidence::P95);
            (case.load, Interval { mean: 1e3 * mean, half_width: 1e3 * half_width })
        })
    }

    fn law(&self) -> impl Iterator<Item = (f64, f64)> {
        let model = self.cases[0].0.model;
        let class = self.class;
        // Finer steps than the measured loads, because the exact curve bends.
        (5..=92).map(move |percent| {
            let case = Case { model, load: f64::from(percent) / 100.0 };
            (case.load, 1e3 * case.exact(class))
        })
    }

    /// Checks whether all intervals contain the exact values. States the largest relative error of a mean.
    fn check(&self, statement: &str, source: &str) -> Statement {
        let confidence = Confidence(1.0 - FALSE_ALARM / self.cases.len() as f64);
        let exact = |case: &Case| case.exact(self.class);
        let count = |confidence| {
            self.cases.iter().filter(|(c, w)| Interval::of(w, confidence).contains(exact(c))).count()
        };
        let miss = self
            .cases
            .iter()
            .map(|(case, waits)| (waits.mean() / exact(case) - 1.0).abs())
            .fold(0.0, f64::max);
        let all = self.cases.len();
        let measured = format!(
            "{} of {all} intervals of 95 % contain the exact value, {} of {all} wider ones of the check; means differ \
             by at most {:.1} %.",
            count(Confidence::P95),
            count(confidence),
            100.0 * miss
        );
        Statement::check(source, statement, measured, count(confidence) == all)
    }
}

pub(in crate::figures) fn mm1(work: &FigureRun<'_>) -> Figure {
    let models = [Model::Exponential, Model::Fixed, Model::Priorities];
    let cases: Vec<Case> = models.iter().flat_map(|&model| LOADS.map(|load| Case { model, load })).collect();
    let (replications, messages) = work.scale((20, 100_000.0), (10, 40_000.0), (10, 40_000.0));
    let one = |case: &Case, seed| run(*case, messages, seed);
    let waits = work.replicate("queues", &cases, replications, one);

    let measured = |model, class: Priority| {
        let cases = cases.iter().zip(&waits).filter(|(case, _)| case.model == model);
        let cases =
            cases.map(|(case, waits)| (*case, waits.iter().map(|wait| wait[class as usize]).collect()));
        Measured { cases: cases.collect(), class }
    };
    let exponential = measured(Model::Exponential, Priority::P2);
    let fixed = measured(Model::Fixed, Priority::P2);
    let timers = measured(Model::Priorities, Priority::P1);
    let external = measured(Model::Priorities, Priority::P2);

    let plots = vec![
        plot("One class, Poisson arrivals", [("M/M/1", &exponential), ("M/D/1", &fixed)]),
        plot(
            "Two non-preemptive priorities",
            [("external messages", &external), ("timer messages", &timers)],
        ),
    ];
    let mut figure = work.figure(plots);
    figure.claims = vec![
        exponential
            .check("With exponential service of mean S, the mean wait is S · load / (1 − load).", "M/M/1"),
        fixed.check("With fixed service the mean wait is half as long.", "M/D/1, Pollaczek and Khinchine"),
        timers
            .check(
                "Timer messages wait W0 / (1 − their load), where W0 is the mean remaining work in service.",
                "M/G/1 with priorities, Cobham",
            )
            .about(1),
        external
            .check(
                "External messages wait as long as timer messages, divided by (1 − total load).",
                "M/G/1 with priorities, Cobham",
            )
            .about(1),
    ];
    figure.assumptions = vec![
        "The base server of the Overload paper, section IV-A: 1 ms an external message, 0.5 ms a timer message, one \
         worker, 1000 places for external messages. At these loads the places never run out."
            .into(),
        "With two priorities there are as many timer messages as external ones.".into(),
    ];
    figure.notes = vec![
        format!(
            "{replications} replications of {messages} messages a class at each load, after a tenth of that as \
             warm-up. Replication i has the same seed at every load."
        ),
        format!(
            "A check uses intervals so wide that a correct simulator fails it with a chance of {:.0} %, all of its \
             loads together.",
            100.0 * FALSE_ALARM
        ),
    ];
    figure
}

fn plot(title: &str, queues: [(&str, &Measured); 2]) -> Plot {
    let series = queues.into_iter().enumerate().flat_map(|(colour, (name, measured))| {
        let points = PlotSeries::intervals(name, Style::Points, measured.points());
        let law = PlotSeries::new(format!("{name}, exact"), Style::Law, measured.law());
        [points, law].map(|series| series.colour(colour))
    });
    Plot::of(title, Axis::linear("load").from_to(0.0, 1.0), Axis::log("mean wait (ms)"), series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::StatementVerdict;

    #[test]
    fn a_wrong_law_is_found_out() {
        // Waits of M/M/1 are compared with the exact values of M/D/1.
        let case = Case { model: Model::Exponential, load: 0.5 };
        let waits = (0..5).map(|seed| run(case, 10_000.0, 1 + seed)[1]).collect();
        let measured =
            Measured { cases: vec![(Case { model: Model::Fixed, ..case }, waits)], class: Priority::P2 };
        assert_eq!(measured.check("half as long", "").verdict, StatementVerdict::Fails);
    }
}
