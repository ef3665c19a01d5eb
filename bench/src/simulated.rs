//! Repeats measurements in the simulator: hosts with the measured costs, under the load of the measurement.
//!
//! The rate rises for some seconds, so that adaptive laws can settle. Results count after a further delay.

use std::time::Duration;

use anyhow::{Context, Result};
use base::Instant;
use config::scenario::{Costs, Group, RunSettings, Scenario, Stream};
use load::{ArrivalProcess, RandomTime, RateStep};
use proxy::ProxyTimers;
use sim::model::{NetworkState, run_sharing};

use crate::log::{IN_TIME_NS, WindowResult};

/// Seconds in which the load rises, and seconds at the load that do not count.
const RISE: u64 = 10;
const SETTLE: u64 = 20;

/// Messages of a call at a proxy or balancer.
pub(crate) const MESSAGES: f64 = 6.0;
/// Approximate number of messages in the socket buffer of Sarabande.
pub(crate) const BUFFER: u32 = 3_000;

/// Hosts in series and their costs, to be simulated at any rate.
pub(crate) struct Model {
    pub(crate) groups: Vec<Group>,
    pub(crate) costs: Costs,
    /// State keeping of the proxies.
    pub(crate) state: NetworkState,
    /// Time from the answer of a call to its BYE.
    pub(crate) holding: RandomTime,
    /// Seconds that count.
    pub(crate) counted: u64,
}

/// Simulated results of a load. Times are means in milliseconds unless named otherwise.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Simulated {
    pub(crate) window: WindowResult,
    pub(crate) invite: f64,
    pub(crate) invite_p99: f64,
    pub(crate) bye: f64,
    /// Mean utilisation of all hosts except the first.
    pub(crate) busy: f64,
}

/// Parses the groups of a scenario with these host tables, in the order of `path`.
pub(crate) fn groups(hosts: &str, path: &[&str]) -> Result<Vec<Group>> {
    let text = format!(
        "[run]\nduration = \"30s\"\nwarm_up = \"10s\"\n\n{hosts}\n[calls.main]\npath = {path:?}\nrate = 1\n"
    );
    let scenario =
        config::scenario::parse(&text, "hosts").map_err(|errors| anyhow::anyhow!("{errors:?}: {text}"))?;
    let find = |name: &&str| scenario.groups.iter().find(|group| group.name == **name).cloned();
    path.iter().map(find).collect::<Option<_>>().context("a host of the path is not there")
}

impl Model {
    /// Simulates this many calls a second.
    pub(crate) fn at(&self, rate: f64, seed: u64) -> Simulated {
        let warm_up = Duration::from_secs(RISE + SETTLE);
        let step = |at, rate, ramp| RateStep { at: Duration::from_secs(at), rate, ramp };
        let calls = Stream {
            holding: self.holding,
            arrivals: ArrivalProcess::Poisson,
            load: vec![step(0, rate / 2.0, true), step(RISE, rate, false)],
            ..Stream::of_paper("calls", (0..self.groups.len()).collect(), rate)
        };
        let scenario = Scenario {
            title: "as measured".to_owned(),
            run: RunSettings {
                duration: warm_up + Duration::from_secs(self.counted),
                warm_up,
                bin: Duration::from_secs(1),
                ..RunSettings::default()
            },
            costs: self.costs.clone(),
            timers: ProxyTimers::default(),
            groups: self.groups.clone(),
            streams: vec![calls],
            links: Vec::new(),
            faults: Vec::new(),
        };
        let results = run_sharing(&scenario, &self.state, seed);
        let (calls, counted) = (&results.streams[0], self.counted as f64);
        let (from, to) = (Instant::ZERO + warm_up, Instant::ZERO + scenario.run.duration);
        let ms = |time: Duration| 1e3 * time.as_secs_f64();
        let set_up = calls.answered[0].rate(from, to);
        let invite_p99 = ms(calls.answer_delay.percentile(99.0));
        let bins = results.hosts.iter().skip(1).flat_map(|host| &host.utilisation);
        let bins: Vec<f64> = bins.filter(|(at, _)| *at > from).map(|(_, used)| *used).collect();
        Simulated {
            window: WindowResult {
                offered: calls.offered.rate(from, to),
                // The simulator does not count late calls separately. With the 99th percentile in time there are almost
                // none; otherwise the goodput is unknown.
                goodput: if invite_p99 > IN_TIME_NS as f64 / 1e6 { f64::NAN } else { set_up },
                set_up,
                refused: calls.outcomes.refused as f64 / counted,
                repetitions: calls.resends.rate(from, to),
                p50_ms: ms(calls.answer_delay.percentile(50.0)),
                p99_ms: invite_p99,
            },
            invite: ms(calls.answer_delay.mean()),
            invite_p99,
            bye: ms(calls.bye_delay.mean()),
            busy: bins.iter().sum::<f64>() / bins.len() as f64,
        }
    }
}
