//! The Cloud paper: latency of a server against its load (figure 3), with and without neighbours (figure 5), and the
//! reaction of its law to the threshold (figure 6). The same with a database behind the servers and with a shared
//! network card. Cost of a monitor on the server's machine (figures 7 and 8).

pub(super) mod card;
pub(super) mod contention;
pub(super) mod database;
pub(super) mod estimation;
pub(super) mod latency;
pub(super) mod overhead;
mod ways;

use super::FigureRun;
use core::time::Duration;
use load::{ArrivalPlan, ArrivalProcess};
use sim::cloud::{
    Announcing, CallTimes, CloudHost, CloudPlan, CloudResults, CloudSecond, CloudServers, Front, Neighbours,
    PROXY, Resource, Vantage,
};
use sim::engine::{QuantileTable, StallConfig, TimeSpread};

/// Calls per second that the server can process. At 300 calls/s the 95th percentile is well below the paper's 1 ms.
const RATE: f64 = 700.0;
/// Threshold of the paper.
const THRESHOLD: Duration = Duration::from_millis(1);

/// Quantiles of a message's service time relative to the mean: few messages take much longer than most.
const QUANTILES: [f64; 8] = [0.6, 0.75, 0.85, 0.95, 1.0, 1.1, 1.3, 2.2];

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn pauses(spacing: Duration, length: Duration) -> StallConfig {
    StallConfig { spacing, length, length_spread: TimeSpread::Exponential }
}

/// Returns a plan with one server alone on its host, without a limit.
fn server(load: f64, from: u64, to: u64) -> CloudPlan {
    let table = QuantileTable::new(&QUANTILES);
    CloudPlan {
        arrivals: ArrivalPlan::steady(ArrivalProcess::Poisson, load),
        calls: CallTimes { way: Duration::from_millis(20), ringing: seconds(1), talking: seconds(10) },
        from: seconds(from),
        to: seconds(to),
        host: CloudHost {
            rate: RATE,
            work: PROXY,
            spread: TimeSpread::Measured(table),
            pauses: Some(pauses(Duration::from_millis(500), Duration::from_millis(1))),
            card: None,
        },
        neighbours: Vec::new(),
        database: None,
        servers: CloudServers::Fixed(1),
        front: Front::Queue(Box::default()),
        announcing: Announcing::Fixed(1e6),
        measured: Vantage::Server,
    }
}

/// Neighbours that take a third of the processor while they are active, and a twentieth of the time in long slices.
fn neighbours(when: Vec<(Duration, Duration)>) -> Neighbours {
    let steal = Some(pauses(Duration::from_millis(20), Duration::from_millis(1)));
    Neighbours { resource: Resource::Processor, when, share: 0.33, steal }
}

/// Runs each plan with several seeds, because a single run is not reliable.
fn runs(work: &FigureRun<'_>, plans: &[CloudPlan]) -> Vec<Vec<CloudResults>> {
    work.replicate("seeds", plans, work.scale(10, 10, 2), sim::cloud::run)
}

/// Converts to microseconds; NaN for `None`.
fn micros(latency: Option<Duration>) -> f64 {
    latency.map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e6)
}

/// Returns the seconds after the warm-up that have samples.
fn settled<'r>(results: &'r CloudResults, plan: &CloudPlan) -> Vec<&'r CloudSecond> {
    let from = plan.from.as_secs_f64();
    results.seconds.iter().filter(|second| second.at > from && second.p95.is_some()).collect()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

fn deviation(values: &[f64]) -> f64 {
    let center = mean(values.iter().copied());
    mean(values.iter().map(|value| (value - center).powi(2))).sqrt()
}

fn assumptions() -> Vec<String> {
    vec![
        format!(
            "A server can process {RATE:.0} calls/s; the paper does not say what its servers can, only that their peak is \
             below 500. Each of a call's six messages takes a sixth of that, with few that take up to twice as long."
        ),
        "A server stands still for 1 ms in the mean every 500 ms: its own scheduler, page faults, the network card."
            .to_owned(),
    ]
}

/// Describes the assumptions of [`neighbours`].
fn about_neighbours() -> String {
    "Neighbours take a third of the processor while they are busy, and let the server stand still for 1 ms in the mean every \
     20 ms. The paper suspects a network card that is shared; but a monitor on the server does not see the waits for a card \
     that a hypervisor shares out (smace-card), so here it is the processor."
        .to_owned()
}
