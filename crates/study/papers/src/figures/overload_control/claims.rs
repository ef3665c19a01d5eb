//! Expected results of the comparison.

use super::Row;
use super::network::{MANY, MANY_TIMES, NEIGHBOURS, RECOMMENDED};
use crate::report::{ReportTable, Statement};
use core::cmp::Ordering;

/// Minimum goodput in percent of the capacity for a recommended law.
const ENOUGH: f64 = 95.0;
/// Length of an epoch of the occupancy algorithm, in seconds.
const EPOCH: u64 = 1;

/// Goodput at a load.
fn at(steady: &[(f64, f64)], times: f64) -> f64 {
    let point = steady.iter().find(|point| (point.0 - times).abs() < 1e-9);
    point.expect("a claim is about a load that was simulated").1
}

impl Row {
    fn at(&self, ack: usize, times: f64) -> f64 {
        at(&self.steady[ack], times)
    }

    /// Smallest goodput above the capacity in percent, over all prices of an ACK and numbers of neighbours.
    fn least(&self) -> f64 {
        let above = self.steady.iter().flatten().filter(|point| point.0 > 1.0);
        above.map(|point| point.1).fold(self.many, f64::min)
    }

    /// Orders laws: first those with enough goodput, by the shortest delays; then the others, by goodput.
    fn order(&self, other: &Self) -> Ordering {
        let enough = |row: &Self| row.least() >= ENOUGH;
        let by_goodput = other.least().total_cmp(&self.least());
        match (enough(self), enough(other)) {
            (true, true) => self.worst.cmp(&other.worst).then(by_goodput),
            (one, two) => two.cmp(&one).then(by_goodput),
        }
    }
}

fn row<'a>(rows: &'a [Row], name: &str) -> &'a Row {
    rows.iter().find(|row| row.law.name == name).expect("a claim is about a law that there is")
}

/// Returns a table with a row for each law and all numbers of the claims.
pub(super) fn table(rows: &[Row]) -> ReportTable {
    let mut table = ReportTable::new(["% of the capacity"]);
    let loads = ["2", "10", "20"].map(|times| format!("{times} times"));
    table.header.extend(loads.iter().cloned());
    table.header.extend(loads.map(|load| format!("{load}, ACKs free")));
    let step = "step to 400";
    table.header.push(format!("{MANY_TIMES} times, {MANY} neighbours"));
    table.header.extend(["", ": settled after", ": recovered after"].map(|what| format!("{step}{what}")));
    table.header.push(format!("99 of 100 answers within, {NEIGHBOURS} neighbours"));
    for Row { law, step, worst, many, steady, .. } in rows {
        let of = |ack: usize, times: f64| format!("{:.0}", at(&steady[ack], times));
        let steady = [0, 1].into_iter().flat_map(|ack| [2.0, 10.0, 20.0].map(|times| of(ack, times)));
        let mut cells: Vec<String> = [law.name.to_owned()].into_iter().chain(steady).collect();
        cells.extend([format!("{many:.0}"), format!("{:.0}", step.percent)]);
        cells.extend([step.settled_text(), step.recovered_text()].map(|text| format!("{text} s")));
        cells.push(format!("{} ms", worst.as_millis()));
        table.rows.push(cells);
    }
    table
}

/// Describes the four best laws, best first.
fn ranking(rows: &[Row]) -> String {
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by(|a, b| a.order(b));
    let each = |row: &&Row| {
        let (name, least, worst) = (row.law.name, row.least(), row.worst.as_millis());
        format!("\"{name}\" {least:.1} %, {worst} ms")
    };
    sorted.iter().take(4).map(each).collect::<Vec<_>>().join("; ") + "."
}

pub(super) fn claims(rows: &[Row]) -> Vec<Statement> {
    let [best, occupancy, none, delay] =
        [RECOMMENDED, "occupancy", "none", "delay"].map(|name| row(rows, name));
    let own = rows.iter().filter(|row| row.law.decides());
    let first = own.min_by(|a, b| a.order(b)).expect("there are laws");
    let kept = [best.at(0, 10.0), best.at(1, 10.0)];
    claims! {
        "aim of this project",
        format!("\"{RECOMMENDED}\" keeps at least {ENOUGH} % of the capacity at ten times the capacity."),
            ["{:.1} % if the ACK to a rejection costs 1 ms, {:.1} % if it is free.", kept[0], kept[1]],
            kept.iter().all(|&kept| kept >= ENOUGH), about(1);
        "aim of this project",
        format!("\"{RECOMMENDED}\" reacts to a step from 140 to 400 calls/s within an epoch of {EPOCH} s."),
            ["Settled after {} s, 99 of 100 answers within {} ms, goodput {:.1} %.", best.step.settled(),
             best.step.worst.as_millis(), best.step.percent],
            best.step.settled() <= EPOCH, about(7);
        "section VI-B, equation 2", "The occupancy algorithm reacts slowly to a step: as utilisation is at most 1, f \
         falls by at most a tenth per epoch.",
            ["Settled after {} s.", occupancy.step.settled_text()],
            occupancy.step.settled() >= 5 * EPOCH, about(5);
        "section VI-C", "Local control does not prevent a collapse: rejecting takes up the server as well.",
            ["\"delay\" keeps {:.0} % at 10 times the capacity if ACKs cost 1 ms, {:.0} % if they are free.",
             delay.at(0, 10.0), delay.at(1, 10.0)],
            delay.at(0, 10.0) < 50.0 && delay.at(0, 10.0) < delay.at(1, 10.0);
        "section V-A", "Without control the collapse outlasts the overload; with the recommended control there is no \
         collapse.",
            ["Recovered after {} s without, after {} s with \"{RECOMMENDED}\".", none.step.recovered_text(),
             best.step.recovered()],
            none.step.stays_down() && best.step.recovered() <= EPOCH, about(6);
        "docs/overload-laws.md", "The recommended law has the shortest delays of all laws that keep enough goodput at \
         any load and with many neighbours, and that also work without feedback.",
            ["It is \"{}\". Least goodput and p99 of answers, best first: {}", first.law.name, ranking(rows)],
            first.law.name == RECOMMENDED, about(7);
    }
}
