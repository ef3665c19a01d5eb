//! Which cells are measured, by which ways, and in which order.

use core::fmt;

use base::Rng;
use clap::ValueEnum;
use rand_distr::{Distribution, Exp1};

use crate::report::name;

/// The program of each server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ServerKind {
    /// Kamailio as a proxy that keeps transactions.
    Kamailio,
    /// `bench/answerer.py`, which answers calls by itself.
    Python,
    /// The same, and each looks calls up in a database of its own: neighbours are beside that.
    PythonDatabase,
    /// The same on a machine of its own: neighbours share its network card.
    PythonCard,
}

/// A way to share calls out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Way {
    /// Sarabande, in turn.
    RoundRobin,
    /// Kamailio's dispatcher, by calls in progress.
    Kamailio,
    /// Sarabande, least work left.
    Tlwl,
    /// The same, which ejects members that fail.
    TlwlOutlier,
    /// Sarabande's queue, as it comes.
    Queue,
    /// The same by response times.
    QueueResponses,
    /// Sarabande's queue, by the monitors beside the servers.
    QueueMonitors,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(self))
    }
}

/// The conditions of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// The program of the servers.
    pub server: ServerKind,
    /// Busy loops in the control group of each disturbed server, or of its database; or senders on its network card.
    pub neighbours: u32,
    /// How long they are busy.
    pub seconds: u32,
    /// Servers that are disturbed, the first ones.
    pub disturbed: usize,
    /// Offered load, in percent of what all servers carry undisturbed.
    pub load: u32,
}

/// Values of each factor. No neighbours, no contention: then length and place say nothing.
const NEIGHBOURS: [u32; 5] = [0, 1, 2, 3, 6];
const SECONDS: [u32; 3] = [1, 5, 30];
const DISTURBED: [usize; 2] = [1, 2];
const LOADS: [u32; 3] = [40, 70, 90];

impl Cell {
    /// The cell around which each factor is varied.
    pub const fn middle(server: ServerKind) -> Self {
        Self { server, neighbours: 3, seconds: 5, disturbed: 1, load: 70 }
    }

    /// The middle cell of the first server, and those that differ from it in one factor.
    pub fn around_middle() -> Vec<Self> {
        let [first, others @ ..] = ServerKind::value_variants() else { return Vec::new() };
        let middle = Self::middle(*first);
        let mut cells: Vec<_> = NEIGHBOURS.map(|neighbours| Self { neighbours, ..middle }).into();
        cells.extend(SECONDS.map(|seconds| Self { seconds, ..middle }));
        cells.extend(DISTURBED.map(|disturbed| Self { disturbed, ..middle }));
        cells.extend(LOADS.map(|load| Self { load, ..middle }));
        cells.extend(others.iter().map(|server| Self::middle(*server)));
        without_copies(cells)
    }

    /// Every combination.
    pub fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for server in ServerKind::value_variants() {
            for neighbours in NEIGHBOURS {
                for seconds in SECONDS {
                    for disturbed in DISTURBED {
                        let cell = Self { neighbours, seconds, disturbed, ..Self::middle(*server) };
                        cells.extend(LOADS.map(|load| Self { load, ..cell }));
                    }
                }
            }
        }
        without_copies(cells)
    }

    /// The middle cell and the same without contention.
    pub fn few(server: ServerKind) -> Vec<Self> {
        let middle = Self::middle(server);
        vec![middle, Self { neighbours: 0, ..middle }]
    }

    /// What all servers would carry of the load, had each the same part, times the number of those disturbed.
    pub(super) fn fair_share(&self) -> f64 {
        self.disturbed as f64 / super::COUNT as f64
    }
}

fn without_copies(cells: Vec<Cell>) -> Vec<Cell> {
    let mut kept: Vec<Cell> = Vec::new();
    for mut cell in cells {
        if cell.neighbours == 0 {
            let Cell { seconds, disturbed, .. } = Cell::middle(cell.server);
            cell = Cell { seconds, disturbed, ..cell };
        }
        if !kept.contains(&cell) {
            kept.push(cell);
        }
    }
    kept
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, neighbours, seconds, disturbed, load } = self;
        let server = name(server);
        match neighbours {
            0 => write!(f, "{server}, no contention, load {load} %"),
            _ => {
                write!(f, "{server}, {neighbours} beside {disturbed} of 3 for {seconds} s, load {load} %")
            }
        }
    }
}

/// One run of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Its conditions.
    pub cell: Cell,
    /// From 0.
    pub round: u32,
    /// Who shares calls out.
    pub way: Way,
}

/// All runs in their order: round after round, so that a slow hour of the machine is in every cell, and the ways in
/// alternating order, so that none is always the first.
pub fn schedule(cells: &[Cell], ways: &[Way], rounds: u32) -> Vec<Run> {
    let mut runs = Vec::new();
    for round in 0..rounds {
        for (index, cell) in cells.iter().enumerate() {
            let begin = runs.len();
            runs.extend(ways.iter().map(|way| Run { cell: *cell, round, way: *way }));
            if (round as usize + index) % 2 == 1 {
                runs[begin..].reverse();
            }
        }
    }
    runs
}

/// When calls come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Arrivals {
    /// At random.
    Poisson,
    /// At equal distances.
    Constant,
}

impl Arrivals {
    /// The arrivals of so many seconds, in nanoseconds. The same for the same seed.
    pub(crate) fn times_ns(self, rate: f64, seconds: f64, seed: u64) -> Vec<u64> {
        let mut rng = Rng::from_seed(seed);
        let mut at = 0.0;
        let next = || {
            at += match self {
                Self::Poisson => Distribution::<f64>::sample(&Exp1, &mut rng) / rate,
                Self::Constant => 1.0 / rate,
            };
            (at < seconds).then_some((at * 1e9) as u64)
        };
        std::iter::from_fn(next).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_factor_is_varied_by_itself_around_the_middle() {
        let cells = Cell::around_middle();
        let middle = Cell::middle(ServerKind::Kamailio);
        assert!(cells.contains(&middle));
        for cell in &cells {
            let differs = [
                cell.server != middle.server,
                cell.neighbours != middle.neighbours,
                cell.seconds != middle.seconds,
                cell.disturbed != middle.disturbed,
                cell.load != middle.load,
            ];
            assert!(differs.iter().filter(|differs| **differs).count() <= 1, "{cell}");
        }
        let all = Cell::all();
        assert!(cells.iter().chain(&Cell::few(ServerKind::Kamailio)).all(|cell| all.contains(cell)));
        // Four numbers of neighbours in all combinations, and none at each load.
        let servers = ServerKind::value_variants().len();
        assert_eq!((cells.len(), all.len()), (9 + servers, servers * (4 * 3 * 2 * 3 + 3)));
        let mut names: Vec<String> = all.iter().map(Cell::to_string).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
    }

    #[test]
    fn every_way_has_every_cell_in_every_round_and_none_is_always_first() {
        let (cells, ways) = (Cell::few(ServerKind::Kamailio), Way::value_variants());
        let runs = schedule(&cells, ways, 2);
        for round in 0..2 {
            for cell in &cells {
                for way in ways {
                    let run = Run { cell: *cell, round, way: *way };
                    assert_eq!(runs.iter().filter(|other| **other == run).count(), 1);
                }
            }
        }
        let first = |run: &&Run| run.cell == cells[0] && run.way == ways[0];
        let places: Vec<_> =
            runs.iter().enumerate().filter(|(_, run)| first(run)).map(|(at, _)| at % ways.len()).collect();
        assert_eq!(places, [0, ways.len() - 1]);
    }

    #[test]
    fn arrivals_follow_from_the_seed() {
        let poisson = |seed| Arrivals::Poisson.times_ns(1_000.0, 4.0, seed);
        assert_eq!(poisson(1), poisson(1));
        assert_ne!(poisson(1), poisson(2));
        // Four standard deviations.
        assert!(poisson(1).len().abs_diff(4_000) < 260 && poisson(1).is_sorted());
        assert_eq!(
            Arrivals::Constant.times_ns(4.0, 1.1, 1),
            [250_000_000, 500_000_000, 750_000_000, 1_000_000_000]
        );
    }
}
