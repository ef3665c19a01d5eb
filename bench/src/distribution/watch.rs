//! One run of loads through a chain, and what each proxy used and said meanwhile.

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

/// One look at all proxies.
struct Look {
    /// Seconds since the start of the run.
    at: f64,
    /// Processor time that each has used, in seconds.
    used: Vec<f64>,
    /// Processor time of callers and answerers.
    own_ns: u64,
    /// What `GET /api/proxy` of each says of the distribution.
    said: Vec<Value>,
}

/// What a proxy did while a load was counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProxyResult {
    /// Processor time as part of the quota.
    pub(super) busy: f64,
    /// Utilisation as it says it, in the mean.
    pub(super) utilisation: f64,
    /// Part of what begins something that it kept.
    pub(super) kept: f64,
}

impl ProxyResult {
    const NOTHING: Self = Self { busy: f64::NAN, utilisation: f64::NAN, kept: f64::NAN };
}

/// What a load came to.
#[derive(Clone, Debug)]
pub(super) struct LoadResult {
    /// Calls.
    pub(super) window: WindowResult,
    /// By proxy.
    pub(super) proxies: Vec<ProxyResult>,
    /// Processors that callers and answerers took.
    pub(super) driver: f64,
    /// Longest that a call of the whole run left after it was due, in milliseconds.
    pub(super) late_ms: f64,
}

impl LoadResult {
    /// Of the proxy of this index, if there is one.
    pub(super) fn proxy(&self, index: usize) -> ProxyResult {
        self.proxies.get(index).copied().unwrap_or(ProxyResult::NOTHING)
    }
}

impl Look {
    fn take(chain: &Chain, says: bool, epoch: Instant) -> Result<Self> {
        let share = |index| {
            let said = ask(at_port(server(index), 8060), "/api/proxy");
            said.map_or(Value::Null, |mut all| all["distribution"].take())
        };
        let said = if says { (0..chain.proxies.len()).map(share).collect() } else { Vec::new() };
        let used = chain.proxies.iter().map(|proxy| chain.rig.used(&[*proxy])).collect::<Result<_>>()?;
        Ok(Self { at: epoch.elapsed().as_secs_f64(), used, own_ns: own_ns(), said })
    }

    fn number(&self, proxy: usize, name: &str) -> f64 {
        self.said.get(proxy).and_then(|said| said[name].as_f64()).unwrap_or(f64::NAN)
    }

    /// Requests so far that began something.
    fn begun(&self, proxy: usize) -> f64 {
        ["kept_total", "passed_open_total", "passed_kept_total"]
            .iter()
            .map(|name| self.number(proxy, name))
            .sum()
    }
}

impl ProxyResult {
    /// From the looks of a window.
    fn of(looks: &[&Look], proxy: usize) -> Self {
        let [first, .., last] = looks else { return Self::NOTHING };
        // Each says what the second before was like.
        let said: Vec<f64> = looks[1..].iter().map(|look| look.number(proxy, "utilisation")).collect();
        let kept = last.number(proxy, "kept_total") - first.number(proxy, "kept_total");
        Self {
            busy: (last.used[proxy] - first.used[proxy]) / (last.at - first.at) / QUOTA,
            utilisation: said.iter().sum::<f64>() / said.len() as f64,
            kept: kept / (last.begun(proxy) - first.begun(proxy)),
        }
    }
}

impl DistributionBench {
    /// Offers these loads, calls a second, one after the other; what each came to. `says`: whether proxies tell their
    /// utilisation.
    pub(super) fn sweep(
        &self,
        generator: &mut LoadGenerator,
        chain: &Chain,
        targets: &[SocketAddr],
        rates: &[f64],
        says: bool,
    ) -> Result<Vec<LoadResult>> {
        chain.rig.await_calls(generator, targets)?;
        let [warm_up, settle, counted] = self.seconds();
        let seconds = settle + counted;
        let first = Level { rate: rates[0], seconds: warm_up };
        let levels = rates.iter().map(|rate| Level { rate: *rate, seconds });
        let load = OfferedLoad::Open([first].into_iter().chain(levels).collect());
        let from: Vec<f64> =
            (0..rates.len()).map(|index| warm_up + index as f64 * seconds + settle).collect();
        self.play((generator, targets, load), chain, &from, says)
    }

    /// Keeps calls in progress; what that came to. Where proxies refuse, no call gets through before.
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

    /// Plays a load while the chain is looked at once a second, as often as proxies look at themselves; what came of the
    /// windows that begin then.
    fn play(
        &self,
        (generator, targets, load): (&mut LoadGenerator, &[SocketAddr], OfferedLoad),
        chain: &Chain,
        from: &[f64],
        says: bool,
    ) -> Result<Vec<LoadResult>> {
        let [.., counted] = self.seconds();
        let end = from.last().map_or(0.0, |from| from + counted);
        let times: Vec<f64> = (0..=end as u32).map(f64::from).collect();
        let epoch = Instant::now();
        let look = |_| Look::take(chain, says, epoch);
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
