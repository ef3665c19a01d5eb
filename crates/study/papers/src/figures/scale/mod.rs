//! Scaling after the Cloud paper's section IV-D, with our rules: cost in calls and hours, for a day and a flash crowd.

pub(super) mod day;
pub(super) mod flash;

use crate::report::{Axis, Plot, PlotSeries, ReportTable, Style};
use core::time::Duration;
use elastic::estimate::EstimatorSettings;
use elastic::queue::{Accrual, LengthSettings, MemberChoice, QueueSettings};
use elastic::scale::{ForecastSettings, ScaleSettings};
use load::{ArrivalPlan, ArrivalProcess, RateStep};
use sim::cloud::{
    Announcing, CallTimes, CloudHost, CloudPlan, CloudResults, CloudServers, Front, PROXY, Vantage,
};
use sim::engine::TimeSpread;

/// Calls per second that a server announces, and calls per second that it can process.
const CAPACITY: f64 = 20.0;
const RATE: f64 = 25.0;
/// Threshold of estimators: a server forwards 95 % of its INVITEs within this time at loads up to its capacity.
const THRESHOLD: Duration = Duration::from_millis(50);
/// Price of a server hour, in any currency.
const PRICE: f64 = 0.10;
/// Time that a server takes to start: "Around 1 to 2 minutes".
const START: Duration = Duration::from_secs(90);

/// Rule for the number of servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rule {
    Fixed(usize),
    /// At 80 % utilisation.
    Plain,
    /// At 80 %, plus one spare server.
    Spare,
    /// Like `Spare`, plus the trend of the last minute.
    Trend,
    /// At 80 %, plus the forecast from past days.
    Forecast,
    /// Like `Spare`, with capacities from estimators on the servers.
    Found,
    /// Like `Spare`, where servers pull as they answer: their unanswered calls are bounded, not their announced rate.
    Answers,
}

impl Rule {
    fn name(self) -> String {
        match self {
            Self::Fixed(count) => format!("{count} servers"),
            Self::Plain => "80 % rule".to_owned(),
            Self::Spare => "80 %, a spare".to_owned(),
            Self::Trend => "80 %, a spare, trend".to_owned(),
            Self::Forecast => "80 %, forecast".to_owned(),
            Self::Found => "80 %, a spare, estimated capacities".to_owned(),
            Self::Answers => "80 %, a spare, pulled as answered".to_owned(),
        }
    }

    /// Returns the capacity that servers announce.
    fn announcing(self) -> Announcing {
        if self != Self::Found {
            return Announcing::Fixed(CAPACITY);
        }
        let (threshold, maximum) = (THRESHOLD, RATE);
        Announcing::Estimated(Box::new(EstimatorSettings {
            threshold,
            maximum,
            ..EstimatorSettings::default()
        }))
    }

    /// Returns how servers pull calls: as they answer with [`Self::Answers`], otherwise at the announced rate.
    fn queue(self) -> QueueSettings {
        let smooth = QueueSettings::default();
        let answers = QueueSettings {
            accrual: Accrual::Answers { most: CAPACITY },
            threshold: Some(THRESHOLD),
            ..smooth
        };
        if self == Self::Answers { answers } else { smooth }
    }

    fn servers(self, first: usize, period: Duration) -> CloudServers {
        if let Self::Fixed(count) = self {
            return CloudServers::Fixed(count);
        }
        let forecast =
            ForecastSettings { period, bin: Duration::from_mins(1), ..ForecastSettings::default() };
        let settings = ScaleSettings {
            most: 20,
            capacity: CAPACITY,
            spare: usize::from(matches!(self, Self::Spare | Self::Trend | Self::Found | Self::Answers)),
            trend_most: if self == Self::Trend { 1.3 } else { 1.0 },
            forecast: (self == Self::Forecast).then_some(forecast),
            ..ScaleSettings::default()
        };
        CloudServers::Scaled {
            settings: Box::new(settings),
            first,
            step: Duration::from_secs(5),
            start: START,
        }
    }
}

/// Returns a plan of calls by time in seconds; each rate moves linearly to the next.
fn arrivals(points: &[(u64, f64)]) -> ArrivalPlan {
    let step = |(at, rate): &(u64, f64)| RateStep { at: Duration::from_secs(*at), rate: *rate, ramp: true };
    ArrivalPlan {
        steps: points.iter().map(step).collect(),
        ..ArrivalPlan::steady(ArrivalProcess::Poisson, 0.0)
    }
}

fn plan(rule: Rule, first: usize, points: &[(u64, f64)], from: u64, to: u64, period: u64) -> CloudPlan {
    let queue = QueueSettings {
        choice: MemberChoice::IndexPacking,
        length: LengthSettings { delay: Duration::from_millis(500), ..QueueSettings::default().length },
        bound: Duration::from_millis(500),
        ..rule.queue()
    };
    CloudPlan {
        arrivals: arrivals(points),
        calls: CallTimes {
            way: Duration::from_millis(20),
            ringing: Duration::from_secs(1),
            talking: Duration::from_secs(30),
        },
        from: Duration::from_secs(from),
        to: Duration::from_secs(to),
        host: CloudHost { rate: RATE, work: PROXY, spread: TimeSpread::Fixed, pauses: None, card: None },
        neighbours: Vec::new(),
        database: None,
        servers: rule.servers(first, Duration::from_secs(period)),
        front: Front::Queue(Box::new(queue)),
        announcing: rule.announcing(),
        measured: Vantage::Server,
    }
}

fn p95(results: &CloudResults) -> f64 {
    results.set_up.percentile(95.0).as_secs_f64() * 1e3
}

/// Returns a table of lost calls, set-up delay and hours of each rule, with `first` as the title of the first column.
fn table(first: &str, rules: &[Rule], results: &[CloudResults]) -> ReportTable {
    let mut table = ReportTable::new([
        first,
        "calls lost",
        "of all",
        "95th percentile of set-up",
        "server hours",
        "price",
    ]);
    for (rule, results) in rules.iter().zip(results) {
        table.rows.push(vec![
            rule.name(),
            results.lost.to_string(),
            format!("{:.2} %", 100.0 * results.lost_part()),
            format!("{:.0} ms", p95(results)),
            format!("{:.1}", results.server_hours),
            format!("{:.2}", PRICE * results.server_hours),
        ]);
    }
    table
}

/// Plots the offered calls and the capacity of the servers under each rule, over time.
fn plots(rules: &[Rule], results: &[CloudResults], from: u64) -> Vec<Plot> {
    let bin = (results[0].seconds.len() as u64).saturating_sub(from).div_ceil(300).max(1) as usize;
    let after = |results: &CloudResults| results.seconds[from as usize..].to_vec();
    let offered = after(&results[0]);
    let rates = offered.chunks(bin).map(|bin| {
        let calls: u64 = bin.iter().map(|second| second.offered).sum();
        (bin[0].at, calls as f64 / bin.len() as f64)
    });
    let of_rule = |(rule, results): (&Rule, &CloudResults)| {
        let seconds = after(results);
        let points = seconds.chunks(bin).map(|bin| (bin[0].at, bin[0].ready as f64 * CAPACITY));
        PlotSeries::new(rule.name(), Style::Step, points)
    };
    let title = "Arrivals, and capacity of the servers that take calls";
    let lines =
        [PlotSeries::line("arrivals", rates)].into_iter().chain(rules.iter().zip(results).map(of_rule));
    let servers = Plot::of(title, Axis::linear("time (s)"), Axis::linear("calls/s"), lines);
    let names = || Axis::names("rule", rules.iter().map(|rule| rule.name()));
    let bars = |title: &str, y: &str, value: fn(&CloudResults) -> f64| {
        Plot::of(title, names(), Axis::linear(y), [PlotSeries::bars(y, results.iter().map(value))])
    };
    vec![
        servers,
        bars("Calls lost", "part of all (%)", |results| 100.0 * results.lost_part()),
        bars("Hours of servers", "server hours", |results| results.server_hours),
    ]
}

fn assumptions() -> Vec<String> {
    vec![
        format!(
            "Servers announce {CAPACITY:.0} calls/s and can process {RATE:.0}: some twenty times less than the paper's, so that a \
             run is short. With so few calls chance is larger than it would be."
        ),
        format!(
            "A server takes {} s to start; an hour of one costs {PRICE:.2}, from the decision to start it on. Calls last 30 s in the mean.",
            START.as_secs()
        ),
        "Calls wait for 500 ms at most, then they are refused, and do not come again. Index packing; all else as the settings in \
         docs/evidence/elastic-simulated.md have it."
            .to_owned(),
    ]
}
