//! Overload control of running processes, each limited to a small fraction of a processor. Callers that retransmit
//! offer them up to ten times their capacity (Overload paper, sections IV to VII).
//!
//! - `parts`: the programs between callers and answerers in each part, and their models.
//! - `registrations`: telephones that all register after an outage, beside calls.
//!
//! Capacity is measured first, once for each part and session, with the first alternative and a constant number of
//! calls in progress. Offered load is given as a multiple of it.

mod parts;
mod registrations;

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use papers::report::Axis;

use crate::generator::{Level, LoadGenerator, OfferedLoad};
use crate::log::WindowResult;
use crate::rig::{ProgramPaths, Rig, beside};
use crate::study::{
    Alternative, Bound, Cell, Layout, Measure, Over, Picture, Question, Round, Samples, Session, Study,
    StudyArguments, Values,
};
use parts::{Part, Start, Way};

/// Quota of each limited program, as a fraction of a processor.
const QUOTA: f64 = 0.05;
/// Sockets of the callers.
const CALLERS: usize = 4;
/// Calls in progress while capacity is measured: enough work for a period of the quota, with a queue too short for
/// retransmissions.
const IN_PROGRESS: usize = 40;
/// Length of the windows of a course over time, in seconds.
const WINDOW: f64 = 0.5;

/// Measures goodput and set-up delay under overload: of SIPp and Kamailio behind the balancer, and of the balancer
/// itself. Needs root, for control groups.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    study: StudyArguments,
    /// Parts to measure.
    #[arg(long, value_delimiter = ',', default_values = ["members", "chain", "local", "kamailio", "registrations"])]
    parts: Vec<PartName>,
}

#[derive(Clone, Copy, ValueEnum)]
enum PartName {
    Members,
    Chain,
    Local,
    Kamailio,
    Registrations,
}

/// The measurement set-up.
pub(crate) struct OverloadBench {
    paths: ProgramPaths,
    quick: bool,
}

/// Measures the requested parts.
pub fn run(arguments: &Arguments) -> Result<()> {
    let bench = OverloadBench { paths: arguments.study.programs.clone(), quick: arguments.study.quick };
    let mut session = Session::open("overload", &arguments.study)?;
    for part in &arguments.parts {
        let part = match part {
            PartName::Members => parts::members(),
            PartName::Chain => parts::chain(),
            PartName::Local => parts::local(),
            PartName::Kamailio => parts::kamailio(),
            PartName::Registrations => {
                session.measure(&bench.registrations())?;
                continue;
            }
        };
        session.measure(&bench.loads(&part))?;
        for course in &part.courses {
            session.measure(&bench.course(&part, course))?;
        }
    }
    Ok(())
}

/// Result of a load, or of a window of a course.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    window: WindowResult,
    /// Capacity of the limited programs in calls a second.
    capacity: f64,
}

/// The measures, of which tables show these.
fn measures(shown: &[&str]) -> Vec<Measure<Sample>> {
    let measure =
        |column, digits, of| Measure { column, digits: shown.contains(&column).then_some(digits), of };
    vec![
        measure("offered", 0, |it: &Sample| it.window.offered),
        measure("in_time", 0, |it| it.window.goodput),
        measure("in_time_of_capacity", 2, |it| it.window.goodput / it.capacity),
        measure("in_time_of_offered", 2, |it| it.window.goodput / it.window.offered),
        measure("set_up", 0, |it| it.window.set_up),
        measure("refused_of_offered", 2, |it| it.window.refused / it.window.offered),
        measure("repetitions_a_call", 2, |it| it.window.repetitions / it.window.offered),
        measure("p50_ms", 0, |it| it.window.p50_ms),
        measure("p99_ms", 0, |it| it.window.p99_ms),
    ]
}

impl OverloadBench {
    /// Returns the seconds of each load that do not count, and those that do.
    fn seconds(&self) -> [f64; 2] {
        if self.quick { [0.5, 1.0] } else { [1.5, 2.0] }
    }

    /// Returns the capacity of a part's programs without overload control, in calls a second.
    fn capacity(&self, name: &str, answerers: usize, first: &Start, round: &mut Round<'_>) -> Result<f64> {
        round.figures.once(&format!("calls/s that {name} takes"), || {
            let mut generator = LoadGenerator::new(CALLERS, answerers)?;
            let (_rig, targets) = self.start(first, &mut generator, f64::NAN)?;
            let [settle, counted] = self.seconds();
            let seconds = settle + counted;
            let load = OfferedLoad::Closed { calls: IN_PROGRESS, seconds };
            let found = generator.play(&targets, load)?.window(settle..seconds).goodput;
            ensure!(found > 10.0, "{targets:?} takes {found} calls/s, which is too little to measure");
            Ok(found)
        })
    }

    /// Starts programs, and waits until calls get through.
    fn start(
        &self,
        start: &Start,
        generator: &mut LoadGenerator,
        capacity: f64,
    ) -> Result<(Rig, Vec<SocketAddr>)> {
        let mut rig = Rig::new(&self.paths)?;
        let targets = start(&mut rig, &generator.answerers(), capacity)?;
        rig.await_calls(generator, &targets)?;
        Ok((rig, targets))
    }

    /// Starts this alternative of a part with its callers, and returns the part's capacity too.
    fn prepare(
        &self,
        part: &Part,
        way: &Way,
        round: &mut Round<'_>,
    ) -> Result<(LoadGenerator, Rig, Vec<SocketAddr>, f64)> {
        let capacity = self.capacity(part.name, part.answerers, &part.ways[0].start, round)?;
        let mut generator = LoadGenerator::new(CALLERS, part.answerers)?;
        let (rig, targets) = self.start(&way.start, &mut generator, capacity)?;
        generator.seed = Some(round.seed);
        Ok((generator, rig, targets, capacity))
    }

    /// Offers the loads of a part one after the other.
    fn sweep(&self, part: &Part, way: &Way, loads: &[f64], round: &mut Round<'_>) -> Result<Samples<Sample>> {
        let (mut generator, _rig, targets, capacity) = self.prepare(part, way, round)?;
        let [settle, counted] = self.seconds();
        let seconds = settle + counted;
        let levels = loads.iter().map(|load| Level { rate: load * capacity, seconds }).collect();
        let log = generator.play(&targets, OfferedLoad::Open(levels))?;
        let sample = |(index, load): (usize, &f64)| {
            let from = index as f64 * seconds;
            (*load, Sample { window: log.window(from + settle..from + seconds), capacity })
        };
        Ok(loads.iter().enumerate().map(sample).collect())
    }

    /// A part at steady loads, on processes and in the simulator.
    fn loads<'a>(&'a self, part: &'a Part) -> Study<'a, Sample> {
        let loads = if self.quick { &part.loads[..2] } else { part.loads };
        let live = part
            .ways
            .iter()
            .map(|way| Alternative::new(way.name, move |round| self.sweep(part, way, loads, round)));
        let models = part.models.iter().map(|(name, model)| {
            Alternative::model(format!("{name}, simulated"), move |round| {
                let name = format!("calls/s that {} takes", part.name);
                let capacity = round.figures.get(&name).unwrap_or(f64::NAN);
                let model = model(capacity)?;
                let at = |load: &f64| {
                    (*load, Sample { window: model.at(load * capacity, round.seed).window, capacity })
                };
                Ok(loads.iter().map(at).collect())
            })
        });
        let most = loads.last().copied();
        let question = |way: &Way| Question {
            statement: format!(
                "At {} times the capacity {} carries three quarters of it.",
                most.unwrap_or(0.0),
                way.name
            ),
            source: "us",
            left: Values::new(part.title, way.name, most, "in_time_of_capacity"),
            right: None,
            bound: Bound::Above(0.75),
        };
        let axis = || Over::Places(Axis::log("offered load (times the capacity)"));
        Study {
            at: "load",
            layout: Layout::LineForEachMeasure,
            cells: vec![Cell::new(part.title, live.chain(models).collect())],
            measures: measures(&["in_time_of_capacity", "refused_of_offered", "p99_ms"]),
            // The first way has no overload control.
            questions: part.ways[1..].iter().map(question).collect(),
            pictures: vec![
                Picture {
                    title: "Goodput",
                    column: "in_time_of_capacity",
                    over: axis(),
                    y: Axis::linear("set up in time (part of the capacity)"),
                },
                Picture {
                    title: "Delay",
                    column: "p99_ms",
                    over: axis(),
                    y: Axis::log("99 % set up within (ms)"),
                },
            ],
            ..Study::new(part.name, part.title, format!("{}. In time is within half a second.", part.title))
        }
    }

    /// A course of loads and events, window by window.
    fn course<'a>(&'a self, part: &'a Part, course: &'a parts::Course) -> Study<'a, Sample> {
        let alternative = |way: &usize| {
            let way = &part.ways[*way];
            Alternative::new(way.name, move |round| {
                let (mut generator, mut rig, targets, capacity) = self.prepare(part, way, round)?;
                let scale = if self.quick { 0.1 } else { 1.0 };
                let levels = course.loads.iter();
                let levels =
                    levels.map(|(load, seconds)| Level { rate: load * capacity, seconds: scale * seconds });
                let load = OfferedLoad::Open(levels.collect());
                let times: Vec<f64> = course.events.iter().map(|(_, at)| scale * at).collect();
                let act = |event: usize| course.act.map_or(Ok(()), |act| act(&mut rig, event));
                let (log, _) = beside(&times, act, || generator.play(&targets, load))?;
                let sample = |(at, window)| (at, Sample { window, capacity });
                Ok(log.course(WINDOW).into_iter().map(sample).collect())
            })
        };
        Study {
            at: "time",
            marks: course.marks(),
            cells: vec![Cell::new(course.title, course.ways.iter().map(alternative).collect())],
            measures: measures(&["in_time_of_offered", "refused_of_offered", "p99_ms"]),
            pictures: vec![Picture {
                title: course.title,
                column: "in_time_of_capacity",
                over: Over::Places(Axis::linear("time (s)")),
                y: Axis::linear("set up in time (part of the capacity)"),
            }],
            ..Study::new(course.name, course.title, format!("{}. Windows of half a second.", course.title))
        }
    }
}
