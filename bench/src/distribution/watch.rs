//! One run of loads through a chain, and what each proxy used and said meanwhile.

use std::net::SocketAddr;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::DistributionBench;
use super::chain::Chain;
use crate::overload::load::{Level, LoadGenerator, OfferedLoad};
use crate::overload::log::{CallLog, WindowResult};
use crate::process::{ask, own_ns};

/// How often proxies are looked at: as often as they look at themselves.
const PERIOD: Duration = Duration::from_secs(1);

/// One look at all proxies.
struct Look {
    /// Seconds since the start of the run.
    at: f64,
    /// Processor time that each has used.
    used_ns: Vec<u64>,
    /// Processor time of callers and answerers.
    own_ns: u64,
    /// What `GET /api/proxy` of each says of the distribution.
    said: Vec<Value>,
}

/// What a proxy did while a load was counted.
#[derive(Clone, Copy, Debug)]
pub struct ProxyResult {
    /// Processor time as part of the quota.
    pub busy: f64,
    /// Utilisation as it says it, in the mean.
    pub utilisation: f64,
    /// Part of what begins something that it kept.
    pub kept: f64,
}

/// What a load came to.
#[derive(Clone, Debug)]
pub struct LoadResult {
    /// Calls.
    pub window: WindowResult,
    /// By proxy.
    pub proxies: Vec<ProxyResult>,
    /// Processors that callers and answerers took.
    pub driver: f64,
    /// Longest that a call of the whole run left after it was due, in milliseconds.
    pub late_ms: u64,
}

impl Look {
    fn take(chain: &Chain, says: bool, epoch: Instant) -> Result<Self> {
        let share = |&admin: &SocketAddr| {
            ask(admin, "/api/proxy").map_or(Value::Null, |mut all| all["distribution"].take())
        };
        let said = if says { chain.admin.iter().map(share).collect() } else { Vec::new() };
        let at = epoch.elapsed().as_secs_f64();
        Ok(Self { at, used_ns: chain.used_ns()?, own_ns: own_ns(), said })
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
    fn of(looks: &[&Look], proxy: usize, quota: f64) -> Self {
        let [first, .., last] = looks else {
            return Self { busy: f64::NAN, utilisation: f64::NAN, kept: f64::NAN };
        };
        let used_s = (last.used_ns[proxy] - first.used_ns[proxy]) as f64 / 1e9;
        // Each says what the second before was like.
        let said: Vec<f64> = looks[1..].iter().map(|look| look.number(proxy, "utilisation")).collect();
        let kept = last.number(proxy, "kept_total") - first.number(proxy, "kept_total");
        Self {
            busy: used_s / (last.at - first.at) / quota,
            utilisation: said.iter().sum::<f64>() / said.len() as f64,
            kept: kept / (last.begun(proxy) - first.begun(proxy)),
        }
    }
}

/// Plays a load while the chain is looked at once a second.
fn play(
    generator: &mut LoadGenerator,
    chain: &Chain,
    targets: &[SocketAddr],
    load: OfferedLoad,
    says: bool,
) -> Result<(CallLog, Vec<Look>)> {
    let epoch = Instant::now();
    let (end, ended) = channel::<()>();
    thread::scope(|scope| {
        let watch = scope.spawn(move || {
            let mut looks = vec![Look::take(chain, says, epoch)?];
            loop {
                let next = PERIOD * looks.len() as u32;
                let wait = next.saturating_sub(epoch.elapsed());
                if ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    return anyhow::Ok(looks);
                }
                looks.push(Look::take(chain, says, epoch)?);
            }
        });
        let log = generator.play(targets, load);
        drop(end);
        let looks = watch.join().ok().context("the watch has failed")??;
        Ok((log?, looks))
    })
}

impl DistributionBench {
    /// Offers these loads, calls a second, one after the other; what each came to.
    pub(super) fn sweep(
        &self,
        generator: &mut LoadGenerator,
        chain: &Chain,
        targets: &[SocketAddr],
        rates: &[f64],
        says: bool,
    ) -> Result<Vec<LoadResult>> {
        generator.await_calls(targets).with_context(|| format!("the proxies say:\n{}", chain.logs()))?;
        let seconds = self.settle + self.counted;
        let first = Level { rate: rates[0], seconds: self.warm_up };
        let levels = rates.iter().map(|rate| Level { rate: *rate, seconds });
        let load = OfferedLoad::Open([first].into_iter().chain(levels).collect());
        let (log, looks) = play(generator, chain, targets, load, says)?;
        let result = |index: usize| {
            let from = self.warm_up + index as f64 * seconds + self.settle;
            self.result(&log, &looks, chain.proxies.len(), from)
        };
        Ok((0..rates.len()).map(result).collect())
    }

    /// Keeps so many calls in progress; what that came to.
    pub(super) fn saturate(
        &self,
        generator: &mut LoadGenerator,
        chain: &Chain,
        targets: &[SocketAddr],
        calls: usize,
    ) -> Result<LoadResult> {
        generator.await_calls(targets).with_context(|| format!("the proxies say:\n{}", chain.logs()))?;
        self.saturate_started(generator, chain, targets, calls)
    }

    /// The same, where no call may get through.
    pub(super) fn saturate_started(
        &self,
        generator: &mut LoadGenerator,
        chain: &Chain,
        targets: &[SocketAddr],
        calls: usize,
    ) -> Result<LoadResult> {
        let seconds = self.settle + self.counted;
        let load = OfferedLoad::Closed { calls, seconds };
        let (log, looks) = play(generator, chain, targets, load, false)?;
        Ok(self.result(&log, &looks, chain.proxies.len(), self.settle))
    }

    fn result(&self, log: &CallLog, looks: &[Look], proxies: usize, from: f64) -> LoadResult {
        let end = from + self.counted;
        let within: Vec<&Look> =
            looks.iter().filter(|look| (from - 0.1..end + 0.5).contains(&look.at)).collect();
        let driver = match within[..] {
            [first, .., last] => (last.own_ns - first.own_ns) as f64 / 1e9 / (last.at - first.at),
            _ => f64::NAN,
        };
        LoadResult {
            window: log.window(from..end),
            proxies: (0..proxies).map(|proxy| ProxyResult::of(&within, proxy, self.quota)).collect(),
            driver,
            late_ms: log.late_ns_max / 1_000_000,
        }
    }
}
