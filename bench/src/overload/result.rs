//! What a part of the experiment came to: tables, pictures, lines of CSV.

use std::fmt::Write as _;

use papers::report::{Axis, Plot, PlotSeries, ReportTable, Style};

use super::log::{CallLog, WindowResult};
use crate::report::number;

/// Length of the windows of a course, in seconds.
const WINDOW: f64 = 0.5;
/// First line of the CSV of all parts.
pub const CSV_HEADER: &str = "part,kind,case,at,offered,goodput,set_up,refused,repetitions,p50_ms,p99_ms\n";

/// What one way of protection does at each load.
pub struct Curve {
    /// The way.
    pub name: String,
    /// Loads in capacities, and what they came to.
    pub points: Vec<(f64, WindowResult)>,
}

/// What happens in the course of time, to each way.
pub struct Course {
    name: &'static str,
    title: &'static str,
    /// What happens, and when, in seconds.
    pub marks: Vec<(String, f64)>,
    curves: Vec<Curve>,
    capacity: f64,
}

impl Course {
    /// Of nobody yet.
    pub fn new(name: &'static str, title: &'static str) -> Self {
        Self { name, title, marks: Vec::new(), curves: Vec::new(), capacity: f64::NAN }
    }

    /// Adds what this way came to, with so many calls/s of capacity.
    pub fn add(&mut self, name: &str, log: &CallLog, capacity: f64) {
        self.curves.push(Curve { name: name.to_owned(), points: log.course(WINDOW) });
        self.capacity = capacity;
    }

    fn plot(&self) -> Plot {
        let axis = Axis::linear("set up in time (% of capacity)");
        let mut plot = Plot::new(self.title, Axis::linear("time (s)"), axis);
        for (label, at) in &self.marks {
            plot.mark(label, *at);
        }
        for Curve { name, points } in &self.curves {
            let points = points.iter().map(|(at, window)| (*at, 100.0 * window.goodput / self.capacity));
            plot.series(PlotSeries::new(name, Style::Line, points));
        }
        plot
    }

    /// Between the marks: goodput as part of what was offered, and the longest delays.
    fn table(&self) -> ReportTable {
        let mut table = ReportTable::new([
            self.name,
            "seconds",
            "in time, of offered",
            "refused",
            "p99, ms (worst 0.5 s)",
        ]);
        let ends = |at: usize| self.marks.get(at).map_or(f64::INFINITY, |(_, end)| *end);
        for Curve { name, points } in &self.curves {
            for phase in 0..=self.marks.len() {
                let from = phase.checked_sub(1).map_or(0.0, ends);
                let within: Vec<&WindowResult> = points
                    .iter()
                    .filter(|(at, _)| (from..ends(phase)).contains(at))
                    .map(|(_, window)| window)
                    .collect();
                let sum = |of: fn(&WindowResult) -> f64| within.iter().map(|window| of(window)).sum::<f64>();
                let offered = sum(|window| window.offered);
                let worst = within.iter().map(|window| window.p99_ms).fold(f64::NAN, f64::max);
                let end = points.last().map_or(0.0, |(at, _)| at + WINDOW / 2.0).min(ends(phase));
                table.rows.push(vec![
                    name.clone(),
                    format!("{from:.0} to {end:.0}"),
                    percent(sum(|window| window.goodput), offered),
                    percent(sum(|window| window.refused), offered),
                    number(worst, 0),
                ]);
            }
        }
        table
    }
}

/// What a part came to.
pub struct PartResult {
    /// Its name on the command line and of its files.
    pub name: &'static str,
    /// One line.
    pub title: &'static str,
    /// Calls a second that the limited programs can take.
    pub capacity: f64,
    /// Steady loads.
    pub curves: Vec<Curve>,
    /// Courses of time.
    pub courses: Vec<Course>,
    /// Further tables.
    pub others: Vec<ReportTable>,
}

impl PartResult {
    /// Its tables: steady loads, then the courses.
    pub fn tables(&self) -> Vec<ReportTable> {
        let mut table = ReportTable::new([
            self.name,
            "offered, of capacity",
            "in time, of capacity",
            "p50, p99 of set-up, ms",
            "refused",
            "repetitions a call",
        ]);
        for Curve { name, points } in &self.curves {
            for (load, window) in points {
                table.rows.push(vec![
                    name.clone(),
                    format!("{load}"),
                    percent(window.goodput, self.capacity),
                    format!("{}, {}", number(window.p50_ms, 0), number(window.p99_ms, 0)),
                    percent(window.refused, window.offered),
                    number(window.repetitions / window.offered, 2),
                ]);
            }
        }
        let loads = (!self.curves.is_empty()).then_some(table);
        let courses = self.courses.iter().map(Course::table);
        loads.into_iter().chain(courses).chain(self.others.iter().cloned()).collect()
    }

    /// Goodput and delay by load, then the courses.
    pub fn plots(&self) -> Vec<Plot> {
        let curves = |title: &str, axis: Axis, of: &dyn Fn(&WindowResult) -> f64| {
            let mut plot = Plot::new(title, Axis::log("offered load (times the capacity)"), axis);
            for Curve { name, points } in &self.curves {
                let points = points.iter().map(|(load, window)| (*load, of(window)));
                plot.series(PlotSeries::new(name, Style::Line, points));
            }
            plot
        };
        let mut plots = if self.curves.is_empty() {
            Vec::new()
        } else {
            vec![
                curves(
                    &format!("{}: goodput", self.title),
                    Axis::linear("set up in time (% of capacity)"),
                    &|window| 100.0 * window.goodput / self.capacity,
                ),
                curves(&format!("{}: delay", self.title), Axis::log("99 % set up within (ms)"), &|window| {
                    window.p99_ms
                }),
            ]
        };
        plots.extend(self.courses.iter().map(Course::plot));
        plots
    }

    /// All windows.
    pub fn csv(&self) -> String {
        let mut csv = String::new();
        let mut add = |kind: &str, curves: &[Curve]| {
            for Curve { name, points } in curves {
                for (at, window) in points {
                    let WindowResult { offered, goodput, set_up, refused, repetitions, p50_ms, p99_ms } =
                        window;
                    writeln!(
                        csv,
                        "{},{kind},\"{name}\",{at},{offered:.1},{goodput:.1},{set_up:.1},{refused:.1},\
                         {repetitions:.1},{p50_ms:.2},{p99_ms:.2}",
                        self.name
                    )
                    .expect("memory takes all");
                }
            }
        };
        add("load", &self.curves);
        self.courses.iter().for_each(|course| add(course.name, &course.curves));
        csv
    }
}

fn percent(part: f64, of: f64) -> String {
    let percent = 100.0 * part / of;
    if percent.is_nan() { "-".to_owned() } else { format!("{percent:.0} %") }
}
