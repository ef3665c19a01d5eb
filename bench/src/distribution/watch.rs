//! A run of loads through a chain, with the usage and reports of each proxy.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::Result;
use serde_json::Value;

use super::chain::Chain;
use super::{DistributionBench, IN_PROGRESS, QUOTA};
use crate::generator::{Level, LoadGenerator, OfferedLoad};
use crate::log::WindowResult;
use crate::process::{ask, own_ns};
use crate::rig::{at_port, beside, server};

/// State of all proxies at one time.
struct Look {
    /// Seconds since the start of the run.
    at: f64,
    /// Processor time of each in seconds.
    used: Vec<f64>,
    /// Processor time of callers and answerers.
    own_ns: u64,
    /// Distribution as reported by each in `GET /api/proxy`.
    reported: Vec<Value>,
}

/// Results of a proxy at a load.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProxyResult {
    /// Processor time as a fraction of the quota.
    pub(super) busy: f64,
    /// Mean of the reported utilisation.
    pub(super) utilisation: f64,
    /// Fraction of requests outside dialogs that it kept.
    pub(super) kept: f64,
}

impl ProxyResult {
    const NOTHING: Self = Self { busy: f64::NAN, utilisation: f64::NAN, kept: f64::NAN };
}

/// Result of a load.
#[derive(Clone, Debug)]
pub(super) struct LoadResult {
    /// Calls.
    pub(super) window: WindowResult,
    /// By proxy.
    pub(super) proxies: Vec<ProxyResult>,
    /// Processors used by callers and answerers.
    pub(super) driver: f64,
    /// Greatest delay between the due time and the start of a call in the whole run, in milliseconds.
    pub(super) late_ms: f64,
}

impl LoadResult {
    /// Returns the results of this proxy, or none if there is no such proxy.
    pub(super) fn proxy(&self, index: usize) -> ProxyResult {
        self.proxies.get(index).copied().unwrap_or(ProxyResult::NOTHING)
    }
}

impl Look {
    fn take(chain: &Chain, reports: bool, epoch: Instant) -> Result<Self> {
        let share = |index| {
            let reported = ask(at_port(server(index), 8060), "/api/proxy");
            reported.map_or(Value::Null, |mut all| all["distribution"].take())
        };
        let reported = if reports { (0..chain.proxies.len()).map(share).collect() } else { Vec::new() };
        let used = chain.proxies.iter().map(|proxy| chain.rig.used(&[*proxy])).collect::<Result<_>>()?;
        Ok(Self { at: epoch.elapsed().as_secs_f64(), used, own_ns: own_ns(), reported })
    }

    fn number(&self, proxy: usize, name: &str) -> f64 {
        self.reported.get(proxy).and_then(|reported| reported[name].as_f64()).unwrap_or(f64::NAN)
    }

    /// Returns the number of requests outside dialogs so far.
    fn outside_dialogs(&self, proxy: usize) -> f64 {
        ["kept_total", "passed_open_total", "passed_kept_total"]
            .iter()
            .map(|name| self.number(proxy, name))
            .sum()
    }
}

impl ProxyResult {
    /// Evaluates the states of a window.
    fn of(looks: &[&Look], proxy: usize) -> Self {
        let [first, .., last] = looks else { return Self::NOTHING };
        // Each report is about the second before.
        let reported: Vec<f64> = looks[1..].iter().map(|look| look.number(proxy, "utilisation")).collect();
        let kept = last.number(proxy, "kept_total") - first.number(proxy, "kept_total");
        Self {
            busy: (last.used[proxy] - first.used[proxy]) / (last.at - first.at) / QUOTA,
            utilisation: reported.iter().sum::<f64>() / reported.len() as f64,
            kept: kept / (last.outside_dialogs(proxy) - first.outside_dialogs(proxy)),
        }
    }
}

impl DistributionBench {
    /// Offers these loads in calls a second, one after the other, and returns their results. `reports`: proxies report
    /// their utilisation.
    pub(super) fn sweep(
        &self,
        generator: &mut LoadGenerator,
        chain: &Chain,
        targets: &[SocketAddr],
        rates: &[f64],
        reports: bool,
    ) -> Result<Vec<LoadResult>> {
        chain.rig.await_calls(generator, targets)?;
        let [warm_up, settle, counted] = self.seconds();
        let seconds = settle + counted;
        let first = Level { rate: rates[0], seconds: warm_up };
        let levels = rates.iter().map(|rate| Level { rate: *rate, seconds });
        let load = OfferedLoad::Open([first].into_iter().chain(levels).collect());
        let from: Vec<f64> =
            (0..rates.len()).map(|index| warm_up + index as f64 * seconds + settle).collect();
        self.play((generator, targets, load), chain, &from, reports)
    }

    /// Keeps calls in progress, and returns the result. With `refuses`, no call gets through first.
    pub(super) fn saturate(
        &self,
        generator: &mut LoadGenerator,
        chain: &Chain,
        targets: &[SocketAddr],
        refuses: bool,
    ) -> Result<LoadResult> {
        if !refuses {
            chain.rig.await_calls(generator, targets)?;
        }
        let [_, settle, counted] = self.seconds();
        let load = OfferedLoad::Closed { calls: IN_PROGRESS, seconds: settle + counted };
        Ok(self.play((generator, targets, load), chain, &[settle], false)?.remove(0))
    }

    /// Plays a load, and reads the state of the chain once a second, as often as proxies update it. Returns the results
    /// of the windows that begin at these times.
    fn play(
        &self,
        (generator, targets, load): (&mut LoadGenerator, &[SocketAddr], OfferedLoad),
        chain: &Chain,
        from: &[f64],
        reports: bool,
    ) -> Result<Vec<LoadResult>> {
        let [.., counted] = self.seconds();
        let end = from.last().map_or(0.0, |from| from + counted);
        let times: Vec<f64> = (0..=end as u32).map(f64::from).collect();
        let epoch = Instant::now();
        let look = |_| Look::take(chain, reports, epoch);
        let (log, looks) = beside(&times, look, || generator.play(targets, load))?;
        let result = |from: &f64| {
            let end = from + counted;
            let within: Vec<&Look> =
                looks.iter().filter(|look| (from - 0.1..end + 0.5).contains(&look.at)).collect();
            let driver = match within[..] {
                [first, .., last] => (last.own_ns - first.own_ns) as f64 / 1e9 / (last.at - first.at),
                _ => f64::NAN,
            };
            LoadResult {
                window: log.window(*from..end),
                proxies: (0..chain.proxies.len()).map(|proxy| ProxyResult::of(&within, proxy)).collect(),
                driver,
                late_ms: log.late_ns_max as f64 / 1e6,
            }
        };
        Ok(from.iter().map(result).collect())
    }
}
