//! Rounds, as tables and pictures.

use std::fmt::Write as _;

use papers::report::{Axis, Plot, PlotSeries, ReportTable, Style};
use sarabande_bench::distribution::goodput::{Case, Round};
use sarabande_bench::distribution::prices::{self, CallPrice, NetworkPrices, NodePrices};
use sarabande_bench::distribution::ramp::{self, Ramp};
use sarabande_bench::distribution::simulated::SimulatedPoint;
use sarabande_bench::distribution::{LoadResult, Product};
use sarabande_bench::report::{median, number};

use super::middle;
use crate::files::PartReport;

fn percent(value: f64) -> String {
    number(100.0 * value, 0)
}

/// The middle value, least and most, of so many of a unit; one is no interval.
fn several(values: &[f64], unit: f64) -> String {
    let (value, least, most) = middle(values);
    let shown = |value: f64| number(unit * value, 0);
    match values {
        [] => "-".to_owned(),
        [_] => shown(value),
        _ => format!("{} ({} - {})", shown(value), shown(least), shown(most)),
    }
}

/// The same in percent.
fn percents(values: &[f64]) -> String {
    several(values, 100.0)
}

/// What a call costs, of all rounds.
pub(super) struct PriceRounds {
    quota: f64,
    /// Product, index of the mode, and the price.
    all: Vec<(Product, usize, CallPrice)>,
}

impl PriceRounds {
    pub(super) fn new(quota: f64) -> Self {
        Self { quota, all: Vec::new() }
    }

    pub(super) fn add(&mut self, product: Product, mode: usize, price: CallPrice) {
        self.all.push((product, mode, price));
    }

    fn of(&self, product: Product, mode: usize, value: fn(&CallPrice) -> f64) -> Vec<f64> {
        let all = self.all.iter().filter(|(whose, which, _)| *whose == product && *which == mode);
        all.map(|(.., price)| value(price)).collect()
    }

    pub(super) fn part(&self) -> Option<PartReport> {
        (!self.all.is_empty()).then(|| PartReport {
            name: "prices".to_owned(),
            title: "What a call costs a proxy, by what it keeps".to_owned(),
            head: format!(
                "Processor time of a call with the kernel's part, in microseconds; a proxy may use {:.0} % of a \
                 processor. Middle, least and most of {} round(s).",
                100.0 * self.quota,
                self.of(Product::Sarabande, 0, |price| price.full_us).len()
            ),
            tables: vec![self.table()],
            plots: vec![self.plot()],
            csv: self.csv(),
        })
    }

    fn table(&self) -> ReportTable {
        let mut table = ReportTable::new([
            "program",
            "what it keeps",
            "calls/s",
            "us a call, full",
            "of stateless",
            "us a call, a tenth of that load",
        ]);
        for product in [Product::Sarabande, Product::Kamailio] {
            let stateless = median(&self.of(product, 0, |price| price.full_us));
            for (mode, (name, _)) in prices::MODES.iter().enumerate() {
                let full = self.of(product, mode, |price| price.full_us);
                let (value, ..) = middle(&full);
                table.rows.push(vec![
                    format!("{product:?}"),
                    (*name).to_owned(),
                    number(median(&self.of(product, mode, |price| price.capacity)), 0),
                    several(&full, 1.0),
                    number(value / stateless, 2),
                    number(median(&self.of(product, mode, |price| price.idle_us)), 0),
                ]);
            }
        }
        table
    }

    /// What each step adds, on each other.
    fn plot(&self) -> Plot {
        let products = [Product::Sarabande, Product::Kamailio];
        let names =
            products.iter().flat_map(|product| prices::MODES.map(|(name, _)| format!("{product:?}: {name}")));
        let x = Axis::names("", names);
        let price = |product, mode| median(&self.of(product, mode, |price| price.full_us));
        let part = |step: usize| {
            let height = |product, mode: usize| match (step, mode) {
                _ if mode < step => f64::NAN,
                (0, _) => price(product, 0),
                _ => (price(product, step) - price(product, step - 1)).max(0.0),
            };
            let heights = products.iter().flat_map(|product| {
                (0..prices::MODES.len()).map(move |mode| height(*product, mode)).collect::<Vec<_>>()
            });
            PlotSeries::bars(prices::MODES[step].0, heights.collect::<Vec<_>>())
        };
        let y = Axis::linear("processor time of a call (us)");
        Plot::of("What a call costs a full proxy", x, y, (0..prices::MODES.len()).map(part)).stacked()
    }

    fn csv(&self) -> String {
        let mut csv = String::new();
        for (product, mode, price) in &self.all {
            let CallPrice { full_us, idle_us, capacity } = price;
            let mode = prices::MODES[*mode].0;
            writeln!(csv, "prices,{product:?},{mode},{capacity:.1},{full_us:.2},{idle_us:.2}")
                .expect("memory takes all");
        }
        csv
    }
}

/// Utilisation against load, of all rounds.
#[derive(Default)]
pub(super) struct RampRounds(Vec<(&'static str, usize, Ramp)>);

impl RampRounds {
    pub(super) fn add(&mut self, mode: &'static str, threads: usize, ramp: Ramp) {
        self.0.push((mode, threads, ramp));
    }

    fn of(&self, mode: &str, threads: usize, index: usize, value: fn(&LoadResult) -> f64) -> Vec<f64> {
        let all = self.0.iter().filter(|(name, number, _)| *name == mode && *number == threads);
        all.map(|(.., ramp)| value(&ramp.points[index])).collect()
    }

    fn capacity(&self, mode: &str, threads: usize) -> f64 {
        let all = self.0.iter().filter(|(name, number, _)| *name == mode && *number == threads);
        median(&all.map(|(.., ramp)| ramp.capacity).collect::<Vec<_>>())
    }

    pub(super) fn part(&self) -> Option<PartReport> {
        let plots = [1, 2].map(|threads| self.plot(threads));
        (!self.0.is_empty()).then(|| PartReport {
            name: "ramp".to_owned(),
            title: "Utilisation of one proxy as the load goes up".to_owned(),
            head:
                "Utilisation as the proxy says it, in percent, middle, least and most of all rounds; and the \
                   processor time that it took, of its quota."
                    .to_owned(),
            tables: vec![self.table()],
            plots: plots.to_vec(),
            csv: self.csv(),
        })
    }

    fn table(&self) -> ReportTable {
        let mut table = ReportTable::new(["offered, % of capacity"]);
        let modes = || [1, 2].into_iter().flat_map(|threads| ramp::MODES.map(|(name, _)| (name, threads)));
        for (name, threads) in modes() {
            let capacity = self.capacity(name, threads);
            table.header.push(format!("{name}, {threads} thread(s), {capacity:.0} calls/s"));
            table.header.push("processor".to_owned());
        }
        for (index, load) in ramp::LOADS.iter().enumerate() {
            let mut row = vec![percent(*load)];
            for (name, threads) in modes() {
                row.push(percents(&self.of(name, threads, index, |point| point.proxies[0].utilisation)));
                row.push(percent(median(&self.of(name, threads, index, |point| point.proxies[0].busy))));
            }
            table.rows.push(row);
        }
        table
    }

    fn plot(&self, threads: usize) -> Plot {
        let x = Axis::linear("offered load (% of what the proxy carries)");
        let y = Axis::linear("%").from_to(0.0, 110.0);
        let title = format!(
            "Utilisation as the load goes up, {threads} thread{}",
            if threads > 1 { "s" } else { "" }
        );
        let mut plot = Plot::new(title, x, y);
        let line = |name: &str, value: fn(&LoadResult) -> f64| -> Vec<(f64, f64)> {
            let point = |(index, load): (usize, &f64)| {
                (100.0 * load, 100.0 * median(&self.of(name, threads, index, value)))
            };
            ramp::LOADS.iter().enumerate().map(point).collect()
        };
        let ideal = [(0.0, 0.0), (100.0, 100.0), (130.0, 100.0)];
        plot.series(PlotSeries::new("offered, of capacity", Style::Law, ideal));
        for (name, _) in ramp::MODES {
            plot.series(PlotSeries::line(
                format!("says, {name}"),
                line(name, |point| point.proxies[0].utilisation),
            ));
        }
        for (name, _) in ramp::MODES {
            let points = line(name, |point| point.proxies[0].busy);
            plot.series(PlotSeries::new(format!("processor time, {name}"), Style::Points, points));
        }
        plot
    }

    fn csv(&self) -> String {
        let mut csv = String::new();
        for (mode, threads, ramp) in &self.0 {
            for (load, point) in ramp::LOADS.iter().zip(&ramp.points) {
                let [proxy] = point.proxies[..] else { continue };
                writeln!(
                    csv,
                    "ramp,{mode},{threads},{:.1},{load},{:.1},{:.3},{:.3}",
                    ramp.capacity, point.window.set_up, proxy.utilisation, proxy.busy
                )
                .expect("memory takes all");
            }
        }
        csv
    }
}

/// The plan where the entries spend time on what they refuse.
const MOST: &str = "the plan, refusals paid";

/// Goodput of one network, of all rounds.
pub(super) struct CaseRounds {
    pub(super) case: Case,
    pub(super) loads: Vec<f64>,
    pub(super) rounds: Vec<Round>,
    pub(super) simulated: Vec<SimulatedPoint>,
}

impl CaseRounds {
    pub(super) fn plan(&self) -> f64 {
        median(&self.rounds.iter().map(|round| round.plan).collect::<Vec<_>>())
    }

    /// What can be carried at each load by a plan that pays for refusals, as part of the plan, of each round.
    fn most(&self, load: usize) -> Vec<f64> {
        let of = |round: &Round| {
            self.case.shape.carried(&round.prices, self.loads[load] * round.plan) / round.plan
        };
        self.rounds.iter().map(of).collect()
    }

    pub(super) fn prices(&self) -> NetworkPrices {
        let rate = |of: &dyn Fn(&NetworkPrices) -> f64| {
            median(&self.rounds.iter().map(|round| of(&round.prices)).collect::<Vec<_>>())
        };
        let nodes = [0, 1].map(|index| NodePrices {
            stateless: rate(&|prices| prices.nodes[index].stateless),
            stateful: rate(&|prices| prices.nodes[index].stateful),
        });
        NetworkPrices { nodes, refusals: rate(&|prices| prices.refusals) }
    }

    fn names(&self) -> Vec<&str> {
        self.rounds[0].lines.iter().map(|line| line.name.as_str()).collect()
    }

    /// Of each round, as part of its plan where `of_plan` says so.
    fn of(&self, name: &str, load: usize, value: impl Fn(&LoadResult) -> f64, of_plan: bool) -> Vec<f64> {
        let round = |round: &Round| {
            let line = round.lines.iter().find(|line| line.name == name)?;
            let unit = if of_plan { round.plan } else { 1.0 };
            Some(value(&line.points[load]) / unit)
        };
        self.rounds.iter().filter_map(round).collect()
    }

    pub(super) fn part(&self) -> PartReport {
        let NetworkPrices { nodes: [first, second], refusals } = self.prices();
        let carried = |prices: NodePrices| format!("{:.0} and {:.0}", prices.stateless, prices.stateful);
        let mut tables = vec![self.summary(), self.details()];
        if !self.simulated.is_empty() {
            tables.push(self.beside_simulated());
        }
        PartReport {
            name: self.case.name.to_owned(),
            title: self.case.title.to_owned(),
            head: format!(
                "The plan carries {:.0} calls/s: the first proxy of a series carries {} calls/s without and with \
                 state, one behind it {}; one that does nothing else refuses {:.0} calls/s. {} round(s); in percent of \
                 each round's own plan: middle, least and most.",
                self.plan(),
                carried(first),
                carried(second),
                refusals,
                self.rounds.len()
            ),
            tables,
            plots: vec![self.plot()],
            csv: self.csv(),
        }
    }

    fn summary(&self) -> ReportTable {
        let mut table = ReportTable::new(["answered in time, % of the plan"]);
        table.header.extend(self.loads.iter().map(|load| format!("at {} %", percent(*load))));
        let most = (0..self.loads.len()).map(|load| percents(&self.most(load)));
        table.rows.push([MOST.to_owned()].into_iter().chain(most).collect());
        for name in self.names() {
            let each = |load| percents(&self.of(name, load, |point| point.window.goodput, true));
            let row = (0..self.loads.len()).map(each);
            table.rows.push([name.to_owned()].into_iter().chain(row).collect());
        }
        table
    }

    fn details(&self) -> ReportTable {
        let mut table = ReportTable::new([
            "who keeps",
            "offered, % of the plan",
            "answered at all",
            "refused, % of offered",
            "sent again a call",
            "p99, ms",
            "processor of each, %",
            "utilisation of each, %",
            "kept by each, %",
        ]);
        for name in self.names() {
            for (load, offered) in self.loads.iter().enumerate() {
                let middle = |value: fn(&LoadResult) -> f64| median(&self.of(name, load, value, false));
                let proxies = self.rounds[0].lines[0].points[0].proxies.len();
                let each = |value: fn(&LoadResult, usize) -> f64| {
                    let of =
                        |proxy| percent(median(&self.of(name, load, |point| value(point, proxy), false)));
                    (0..proxies).map(of).collect::<Vec<_>>().join(", ")
                };
                table.rows.push(vec![
                    name.to_owned(),
                    percent(*offered),
                    percent(median(&self.of(name, load, |point| point.window.set_up, true))),
                    percent(middle(|point| point.window.refused / point.window.offered)),
                    number(middle(|point| point.window.repetitions / point.window.offered), 2),
                    number(middle(|point| point.window.p99_ms), 0),
                    each(|point, proxy| point.proxies[proxy].busy),
                    each(|point, proxy| point.proxies[proxy].utilisation),
                    each(|point, proxy| point.proxies[proxy].kept),
                ]);
            }
        }
        table
    }

    fn beside_simulated(&self) -> ReportTable {
        let mut table =
            ReportTable::new(["answered, % of the plan", "offered", "live", "simulated", "simulated / live"]);
        for point in &self.simulated {
            let load = self.loads.iter().position(|load| (*load - point.load).abs() < 1e-9).unwrap_or(0);
            let live = median(&self.of(point.name, load, |point| point.window.set_up, true));
            let simulated = point.goodput / self.plan();
            table.rows.push(vec![
                point.name.to_owned(),
                percent(point.load),
                percent(live),
                percent(simulated),
                number(simulated / live, 2),
            ]);
        }
        table
    }

    fn plot(&self) -> Plot {
        let x = Axis::linear("offered load (% of the plan)");
        let y = Axis::linear("answered in time (% of the plan)").from_to(0.0, 130.0);
        let mut plot = Plot::new(format!("Goodput. {}", self.case.title), x, y);
        for name in self.names() {
            let point = |(index, load): (usize, &f64)| {
                (100.0 * load, 100.0 * median(&self.of(name, index, |point| point.window.goodput, true)))
            };
            plot.series(PlotSeries::line(name, self.loads.iter().enumerate().map(point)));
        }
        let most = |(index, load): (usize, &f64)| (100.0 * load, 100.0 * median(&self.most(index)));
        plot.series(PlotSeries::new(MOST, Style::Law, self.loads.iter().enumerate().map(most)));
        plot
    }

    fn csv(&self) -> String {
        let mut csv = String::new();
        for (number, round) in (1..).zip(&self.rounds) {
            for line in &round.lines {
                for (load, point) in self.loads.iter().zip(&line.points) {
                    let window = &point.window;
                    writeln!(
                        csv,
                        "{},{number},\"{}\",{load},{:.1},{:.1},{:.1},{:.1},{:.1},{:.1},{:.1},{:.2}",
                        self.case.name,
                        line.name,
                        round.plan,
                        window.offered,
                        window.goodput,
                        window.set_up,
                        window.refused,
                        window.repetitions,
                        window.p99_ms,
                        point.driver
                    )
                    .expect("memory takes all");
                }
            }
        }
        csv
    }
}
