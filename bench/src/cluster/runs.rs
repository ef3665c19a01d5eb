//! All runs of a session: which there are to be, what came of those that were made.

use core::fmt;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::sweep::{COLUMNS, LevelResult};
use super::{Product, Way};
use crate::report::name;

/// The parts of unequal servers: one half of them has half as much of a processor as the other.
const HALF: f64 = 0.5;
/// Above this part of all requests a load is carried, as the balancing papers have it.
const DONE: f64 = 0.9999;

/// How many servers there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Their number.
    pub nodes: usize,
    /// Whether every second one has half as much of a processor as the others.
    pub is_unequal: bool,
}

impl Shape {
    /// The part of a processor of each.
    pub fn quotas(self, product: Product) -> Vec<f64> {
        let part = |index| if self.is_unequal && index % 2 == 1 { HALF } else { 1.0 };
        (0..self.nodes).map(|index| part(index) * product.quota()).collect()
    }
}

/// One sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The servers.
    pub product: Product,
    /// How many.
    pub shape: Shape,
    /// Who shares calls out.
    pub way: Way,
    /// Whether that is told the capacities of unequal servers.
    pub are_told: bool,
    /// From 0.
    pub round: u32,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { product, shape: Shape { nodes, is_unequal }, way, are_told, round } = self;
        let kind = match (is_unequal, are_told) {
            (false, _) => "",
            (true, false) => " unequal",
            (true, true) => " unequal, capacities told",
        };
        write!(f, "round {}, {nodes} {}{kind}, {way}", round + 1, name(product))
    }
}

/// The runs of one session, each with its loads in parts of the capacity.
#[derive(Default, Debug)]
pub struct Runs(pub Vec<(Run, Vec<(f64, LevelResult)>)>);

/// The first line of the file of all runs.
pub fn header() -> String {
    format!("product,nodes,unequal,told,way,round,load,{COLUMNS}")
}

/// The lines of a run, one for each load.
pub fn lines(run: &Run, levels: &[(f64, LevelResult)]) -> String {
    let Run { product, shape: Shape { nodes, is_unequal }, way, are_told, round } = run;
    let line = |(load, level): &(f64, LevelResult)| {
        let numbers: Vec<String> = level.numbers().iter().map(|number| format!("{number:.5}")).collect();
        let product = name(product);
        let [is_unequal, are_told] = [is_unequal, are_told].map(|it| u8::from(*it));
        format!("{product},{nodes},{is_unequal},{are_told},{way},{round},{load},{}\n", numbers.join(","))
    };
    levels.iter().map(line).collect()
}

impl Runs {
    /// From a file of such lines. A run whose lines were not all written is left out: each has so many loads.
    ///
    /// # Errors
    /// A line that is none.
    pub fn parse(text: &str, loads: usize) -> Result<Self> {
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let mut lines = whole.lines();
        ensure!(lines.next() == Some(header().as_str()), "the file of runs has other columns");
        let mut runs = Self::default();
        for line in lines {
            let (run, load, level) = parse_line(line).with_context(|| format!("a run: {line}"))?;
            match runs.0.last_mut().filter(|(last, _)| *last == run) {
                Some((_, levels)) => levels.push((load, level)),
                None => runs.0.push((run, vec![(load, level)])),
            }
        }
        runs.0.retain(|(_, levels)| levels.len() == loads);
        Ok(runs)
    }

    /// Whether this run has been made.
    pub fn has(&self, run: &Run) -> bool {
        self.0.iter().any(|(made, _)| made == run)
    }

    /// The runs of all rounds like this one, in their order.
    pub fn like(&self, run: &Run) -> Vec<(u32, &[(f64, LevelResult)])> {
        let same = |made: &Run| Run { round: run.round, ..*made } == *run;
        let mut found: Vec<_> = self
            .0
            .iter()
            .filter(|(made, _)| same(made))
            .map(|(made, levels)| (made.round, levels.as_slice()))
            .collect();
        found.sort_by_key(|(round, _)| *round);
        found
    }
}

fn parse_line(line: &str) -> Result<(Run, f64, LevelResult)> {
    let fields: Vec<&str> = line.split(',').collect();
    let [product, nodes, is_unequal, are_told, way, round, load, numbers @ ..] = fields.as_slice() else {
        anyhow::bail!("too few fields");
    };
    let numbers: Vec<f64> = numbers.iter().map(|number| number.parse()).collect::<Result<_, _>>()?;
    let shape = Shape { nodes: nodes.parse()?, is_unequal: *is_unequal == "1" };
    let run = Run {
        product: Product::from_str(product, false).map_err(anyhow::Error::msg)?,
        shape,
        way: Way::from_str(way, false).map_err(anyhow::Error::msg)?,
        are_told: *are_told == "1",
        round: round.parse()?,
    };
    let level = LevelResult::from_numbers(&numbers).context("another number of fields")?;
    Ok((run, load.parse()?, level))
}

/// The most calls a second up to which more than 99.99 % of the requests were done at every load, and of so many none had
/// to be sent again: a load counts for seconds only, and where one is lasting that is too high, what is done late now is
/// not done later. NaN where that is not so at the first load.
pub fn peak(levels: &[(f64, LevelResult)]) -> f64 {
    // INVITE and BYE.
    let repeated = |level: &LevelResult| level.repeated / (2.0 * level.rate);
    let carried = levels.iter().take_while(|(_, level)| level.done > DONE && repeated(level) < 1.0 - DONE);
    carried.map(|(_, level)| level.rate).fold(f64::NAN, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(way: Way, round: u32) -> Run {
        let shape = Shape { nodes: 8, is_unequal: false };
        Run { product: Product::Java, shape, way, are_told: false, round }
    }

    fn level(rate: f64, done: f64) -> LevelResult {
        LevelResult { rate, done, ..LevelResult::default() }
    }

    #[test]
    fn what_is_written_is_read_but_for_a_run_that_was_cut_off() {
        let levels = vec![(0.5, level(50.0, 1.0)), (1.0, level(100.0, 0.5))];
        let made = [run(Way::Tlwl, 0), run(Way::Hash, 0), run(Way::Tlwl, 1)];
        let text: String = made.iter().map(|run| lines(run, &levels)).collect();
        let text = format!("{}\n{text}", header());
        let runs = Runs::parse(&text, 2).expect("good lines");
        assert_eq!(runs.0, made.map(|run| (run, levels.clone())));
        let rounds: Vec<u32> = runs.like(&made[2]).iter().map(|(round, _)| *round).collect();
        assert_eq!(rounds, [0, 1]);

        let cut = Runs::parse(&text[..text.len() - 5], 2).expect("good lines");
        assert_eq!(made.map(|run| cut.has(&run)), [true, true, false]);
        assert!(Runs::parse("other\n", 2).is_err());
    }

    #[test]
    fn the_peak_is_below_the_first_load_that_is_not_carried() {
        let levels = [level(50.0, 1.0), level(60.0, 0.99995), level(70.0, 0.999), level(80.0, 1.0)];
        let levels = levels.map(|level| (0.0, level));
        assert!((peak(&levels) - 60.0).abs() < 1e-9);
        assert!(peak(&levels[2..]).is_nan());
        let mut late = [level(50.0, 1.0), level(60.0, 1.0)].map(|level| (0.0, level));
        late[1].1.repeated = 1.0;
        assert!((peak(&late) - 50.0).abs() < 1e-9, "what is sent again comes late");
    }

    #[test]
    fn unequal_servers_have_half() {
        let shape = Shape { nodes: 4, is_unequal: true };
        assert_eq!(shape.quotas(Product::Java), [0.09, 0.045, 0.09, 0.045]);
    }
}
