//! Ours, after the Cloud paper's section IV-D: what scaling costs in calls and in hours, over a day and in a flash
//! crowd.

pub(super) mod day;
pub(super) mod flash;

use crate::report::{Axis, Plot, PlotSeries, ReportTable, Style};
use core::time::Duration;
use elastic::estimate::Settings;
use elastic::queue::{Accrual, Choice, LengthSettings, QueueSettings};
use elastic::scale::{ForecastSettings, ScaleSettings};
use load::{ArrivalPlan, ArrivalProcess, RateStep};
use sim::cloud::{
    Announcing, CallTimes, CloudHost, CloudPlan, CloudResults, CloudServers, Front, PROXY, Vantage,
};
use sim::engine::Spread;

/// Calls a second that a server announces, and that it can process.
const CAPACITY: f64 = 20.0;
const RATE: f64 = 25.0;
/// Within this time a server sends on 95 % of its INVITEs while it has no more than its capacity: of estimators.
const THRESHOLD: Duration = Duration::from_millis(50);
/// What an hour of a server costs, in the currency of the reader.
const PRICE: f64 = 0.10;
/// "Around 1 to 2 minutes".
const START: Duration = Duration::from_secs(90);

/// How servers are decided on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rule {
    Fixed(usize),
    /// At 80 %, nothing else.
    Plain,
    /// And one more.
    Spare,
    /// And the trend of the last minute.
    Trend,
    /// At 80 %, and what past days had.
    Forecast,
    /// And one more, of capacities that estimators beside the servers find out.
    Found,
    /// And one more, where servers pull as they answer: what they have unanswered bounds them, not what they announce.
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
            Self::Found => "80 %, a spare, capacities found out".to_owned(),
            Self::Answers => "80 %, a spare, pulled as answered".to_owned(),
        }
    }

    /// What the servers announce.
    fn announcing(self) -> Announcing {
        if self != Self::Found {
            return Announcing::Fixed(CAPACITY);
        }
        let (threshold, maximum) = (THRESHOLD, RATE);
        Announcing::Estimated(Box::new(Settings { threshold, maximum, ..Settings::default() }))
    }

    /// How servers pull: at the rate that they announce, unless they do as they answer.
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

/// Calls, by time in seconds; each rate moves linearly to the next.
fn arrivals(points: &[(u64, f64)]) -> ArrivalPlan {
    let step = |(at, rate): &(u64, f64)| RateStep { at: Duration::from_secs(*at), rate: *rate, ramp: true };
    ArrivalPlan {
        steps: points.iter().map(step).collect(),
        ..ArrivalPlan::steady(ArrivalProcess::Poisson, 0.0)
    }
}

fn plan(rule: Rule, first: usize, points: &[(u64, f64)], from: u64, to: u64, period: u64) -> CloudPlan {
    let queue = QueueSettings {
        choice: Choice::IndexPacking,
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
        host: CloudHost { rate: RATE, work: PROXY, spread: Spread::Fixed, pauses: None, card: None },
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

/// Calls lost, set-up delay and hours of each rule, which `first` says more about.
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

/// Calls that come, and what the servers of each rule carry at most, over time.
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
         docs/elastic.md have it."
            .to_owned(),
    ]
}
