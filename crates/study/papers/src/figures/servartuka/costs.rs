//! Figure 1: cost of a call in each mode of a proxy, by part. Measured by `bench modes --record`.

use super::super::FigureRun;
use super::claims;
use crate::report::{Axis, Figure, Plot, PlotSeries, ReportTable};

/// Lines of `mode;program;part;part...` in instructions per call, after a line with the names of the parts.
const MEASURED: &str = include_str!("costs.csv");

/// Cost of a call for a program in one mode.
pub(super) struct Cost {
    pub(super) mode: &'static str,
    pub(super) program: &'static str,
    /// Thousands of instructions, in the order of the parts.
    pub(super) parts: Vec<f64>,
}

impl Cost {
    pub(super) fn total(&self) -> f64 {
        self.parts.iter().sum()
    }
}

/// Returns the names of the parts, and the measured costs.
pub(super) fn measured() -> (Vec<&'static str>, Vec<Cost>) {
    let mut lines = MEASURED.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(';'));
    let parts = lines.next().expect("the first line names the parts").skip(2).collect();
    let cost = |mut fields: core::str::Split<'static, char>| {
        let [mode, program] = [(); 2].map(|()| fields.next().expect("a line begins with mode and program"));
        let count = |field: &str| field.parse::<f64>().expect("a count") / 1e3;
        Cost { mode, program, parts: fields.map(count).collect() }
    };
    (parts, lines.map(cost).collect())
}

/// Returns the costs of a program, in the order of the modes.
pub(super) fn of<'a>(costs: &'a [Cost], program: &str) -> Vec<&'a Cost> {
    costs.iter().filter(|cost| cost.program == program).collect()
}

pub(super) const OURS: &str = "sarabande";
pub(super) const THEIRS: &str = "kamailio";

pub(in crate::figures) fn run(work: &FigureRun<'_>) -> Figure {
    let (parts, costs) = measured();
    let plots = [(OURS, "Sarabande"), (THEIRS, "Kamailio")];
    let plots = plots.map(|(program, title)| plot(title, &parts, &of(&costs, program)));
    let mut figure = work.figure(plots.into());
    figure.tables = vec![table(&parts, &costs)];
    figure.claims = claims::of_costs(&parts, &costs);
    figure.assumptions = vec![
        "The paper counts cycles of OpenSER with OProfile; here instructions of the user's side are counted by callgrind, of \
         Sarabande and of Kamailio, into which OpenSER has grown. The kernel's work for sockets is in neither."
            .to_owned(),
        "A call is INVITE, 180, 200, ACK, BYE and 200, with authentication 407, ACK and a second INVITE besides."
            .to_owned(),
    ];
    figure.notes = vec![
        "Nothing is simulated, and the seed means nothing: the data are those that bench modes has measured last \
         (docs/evidence/performance.md)."
            .to_owned(),
        "Kamailio hashes with MD5 for more than authentication: what that has in the modes before is such.".to_owned(),
    ];
    figure
}

fn plot(program: &str, parts: &[&str], costs: &[&Cost]) -> Plot {
    let names = Axis::names("mode", costs.iter().map(|cost| cost.mode));
    let of_part =
        |(index, part): (usize, &&str)| PlotSeries::bars(*part, costs.iter().map(|cost| cost.parts[index]));
    let series = parts.iter().enumerate().map(of_part);
    Plot::of(program, names, Axis::linear("thousand instructions a call"), series).stacked()
}

fn table(parts: &[&str], costs: &[Cost]) -> ReportTable {
    let mut table = ReportTable::new(["thousand instructions a call", "program", "all"]);
    table.header.extend(parts.iter().map(|part| (*part).to_owned()));
    for cost in costs {
        let counts = [cost.total()].into_iter().chain(cost.parts.iter().copied());
        let names = [cost.mode, cost.program].map(str::to_owned);
        table.rows.push(names.into_iter().chain(counts.map(|count| format!("{count:.1}"))).collect());
    }
    table
}
