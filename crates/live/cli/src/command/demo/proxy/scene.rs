//! Data that the demo shows: the proxies, the phones, and the results of each phase.

use super::chain::{CAST, HIGH};
use super::phases::Phase;
use super::phones::Registered;
use crate::picture::Rate;
use load::{CallResults, Times};
use server::figures::Standing;

/// Figures of a proxy.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Line {
    /// Load, from 0 to 1.
    pub(super) busy: f64,
    /// Share of the recent calls whose state it keeps, from 0 to 1; `None` without calls.
    pub(super) keeps: Option<f64>,
    /// Recent rate of new calls a second.
    pub(super) calls_per_second: f64,
    /// Open transactions.
    pub(super) transactions: usize,
    /// Whether the proxy asks the one before it to send no more calls without state.
    pub(super) throttles: bool,
}

/// Earlier counts of the proxies.
pub(super) struct Tracks([(Rate, Rate); CAST.len()]);

impl Tracks {
    pub(super) fn new() -> Self {
        Self(CAST.map(|_| <(Rate, Rate)>::default()))
    }

    /// Takes a sample of all proxies, in their order.
    pub(super) fn sample(&mut self, seconds: f64, standings: &[Standing]) -> Vec<Line> {
        let rates = self.0.iter_mut();
        rates.zip(standings).map(|(rates, standing)| line(rates, seconds, standing)).collect()
    }
}

fn line((kept, all): &mut (Rate, Rate), seconds: f64, standing: &Standing) -> Line {
    let Some(proxy) = &standing.proxy else { return Line::default() };
    let sharing = proxy.distribution.unwrap_or_default();
    // A request for a user is a fork. Its state is always where it forks, so nothing is decided or counted as divided.
    let rung = standing.registrar.as_ref().map_or(0, |home| home.look_ups.found_total);
    let is_home = standing.registrar.is_some();
    let kept = kept.sample(seconds, sharing.kept_total + rung);
    let passed = sharing.passed_open_total + sharing.passed_kept_total;
    let all = all.sample(seconds, sharing.kept_total + passed + rung);
    Line {
        busy: sharing.utilisation,
        keeps: (all > 0.0).then(|| kept / all),
        calls_per_second: all,
        transactions: proxy.transactions,
        throttles: sharing.throttled_neighbours > 0 || (is_home && sharing.utilisation >= HIGH),
    }
}

/// A moment to show.
pub(super) struct Scene<'a> {
    pub(super) phase: Phase,
    /// Number of the phase, and of all phases.
    pub(super) number: (usize, usize),
    /// Arrivals, in calls a second.
    pub(super) rate: f64,
    /// Seconds since the start; `total`: of the whole demo.
    pub(super) seconds: f64,
    pub(super) total: f64,
    pub(super) lines: Vec<Line>,
    pub(super) registered: Registered,
    /// Counts of all calls, and times of this phase.
    pub(super) calls: CallResults,
    /// Results of earlier phases.
    pub(super) ended: &'a [Ended],
}

impl Scene<'_> {
    /// Text about the position in the demo.
    pub(super) fn place(&self) -> String {
        let (number, of) = self.number;
        format!("phase {number}/{of} ")
    }
}

/// Results of a phase.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) phase: Phase,
    /// Arrivals, in calls a second.
    pub(super) rate: f64,
    pub(super) lines: Vec<Line>,
    /// Times from the INVITE to the 200, of the calls of the phase.
    pub(super) times: Times,
}

/// Results of the demo.
pub(super) struct Outcome {
    pub(super) ended: Vec<Ended>,
    pub(super) calls: CallResults,
    pub(super) registrations: Registered,
    /// Note on the phases without figures after the user has quit.
    pub(super) quit: Option<String>,
}

impl Outcome {
    pub(super) fn refused(&self) -> u64 {
        refused(&self.calls)
    }

    /// Calls that failed for other reasons than a refusal.
    pub(super) fn lost(&self) -> u64 {
        self.calls.calls_failed() - self.refused()
    }
}

/// Calls that a full proxy refused with 503. The first proxy changes a 503 of a later proxy to 500 (RFC 3261 §16.7).
pub(super) fn refused(calls: &CallResults) -> u64 {
    [500, 503].iter().filter_map(|status| calls.calls_refused.get(status)).sum()
}

/// A share as percent.
pub(super) fn percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}

/// A share as percent, or a dash.
pub(super) fn known_percent(part: Option<f64>) -> String {
    part.map_or_else(|| "-".to_owned(), percent)
}
