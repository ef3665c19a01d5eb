//! What the demo shows: the proxies, the phones, and what each phase has come to.

use super::chain::{CAST, HIGH};
use super::phases::Phase;
use super::phones::Registered;
use crate::picture::Rate;
use load::{CallResults, Times};
use server::figures::Standing;

/// What a proxy says of itself.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Line {
    /// How busy it is, from 0 to 1.
    pub(super) busy: f64,
    /// Of the calls lately, those whose state it keeps, from 0 to 1; `None` without calls.
    pub(super) keeps: Option<f64>,
    /// New calls a second, lately.
    pub(super) calls_per_second: f64,
    /// Transactions that it has.
    pub(super) transactions: usize,
    /// Whether it tells the one before to send no more calls without state.
    pub(super) throttles: bool,
}

/// Counts of the proxies a moment ago.
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
    // A request for a user is a fork, which has its state where it forks: there is nothing to decide, and nothing
    // counted as shared.
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

/// One moment, to be shown.
pub(super) struct Scene<'a> {
    pub(super) phase: Phase,
    /// Its number, and how many there are.
    pub(super) number: (usize, usize),
    /// Calls a second that are offered.
    pub(super) rate: f64,
    /// Since the beginning, and of how many, in seconds.
    pub(super) seconds: f64,
    pub(super) total: f64,
    pub(super) lines: Vec<Line>,
    pub(super) registered: Registered,
    /// Counts of all calls, times of this phase.
    pub(super) calls: CallResults,
    /// The phases before.
    pub(super) ended: &'a [Ended],
}

impl Scene<'_> {
    /// Where in the demo it is.
    pub(super) fn place(&self) -> String {
        let (number, of) = self.number;
        format!("phase {number}/{of} ")
    }
}

/// What a phase has come to.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) phase: Phase,
    /// Calls a second that were offered.
    pub(super) rate: f64,
    pub(super) lines: Vec<Line>,
    /// Of the phase's calls: from the INVITE to the 200.
    pub(super) times: Times,
}

/// What came of it all.
pub(super) struct Outcome {
    pub(super) ended: Vec<Ended>,
    pub(super) calls: CallResults,
    pub(super) registrations: Registered,
    /// What is missing since somebody has seen enough.
    pub(super) quit: Option<String>,
}

impl Outcome {
    pub(super) fn refused(&self) -> u64 {
        refused(&self.calls)
    }

    /// Calls that failed otherwise.
    pub(super) fn lost(&self) -> u64 {
        self.calls.calls_failed() - self.refused()
    }
}

/// Calls that a proxy refused since it was full: with 503, or 500 where it stands behind the first one, whose client
/// must not take a 503 for its own (RFC 3261 §16.7).
pub(super) fn refused(calls: &CallResults) -> u64 {
    [500, 503].iter().filter_map(|status| calls.calls_refused.get(status)).sum()
}

/// A part as percent.
pub(super) fn percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}

/// The same of what may not be known.
pub(super) fn known_percent(part: Option<f64>) -> String {
    part.map_or_else(|| "-".to_owned(), percent)
}
