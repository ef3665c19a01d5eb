//! What an act is, what a moment of it shows, and what has come of it.

use super::cast::CAST;
use crate::picture::Line;
use load::CallResults;

/// What happens in an act.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Plot {
    /// Nothing but calls.
    Compare,
    /// A server crashes and comes back, then another is drained and taken back.
    Crash,
}

pub(super) struct Act {
    pub(super) plot: Plot,
    pub(super) policy: String,
    /// Share of all servers' capacity.
    pub(super) load: f64,
    /// How long calls are started.
    pub(super) seconds: f64,
}

/// What came of an act.
pub(super) struct Outcome {
    pub(super) plot: Plot,
    pub(super) policy: String,
    /// Calls a second.
    pub(super) rate: f64,
    pub(super) results: CallResults,
}

/// Calls that were not set up.
pub(super) fn calls_lost(results: &CallResults) -> u64 {
    results.calls_refused.values().sum::<u64>()
        + results.invite_timeouts
        + results.calls_abandoned
        + results.calls_answered_late
}

/// Answered calls that could not be ended: their server had forgotten them.
pub(super) fn calls_broken(results: &CallResults) -> u64 {
    results.bye_refused.values().sum::<u64>() + results.bye_timeouts
}

impl Outcome {
    /// Load of the busiest server over the mean of all.
    pub(super) fn imbalance(&self) -> f64 {
        let load = CAST.iter().map(|part| {
            let calls = self.results.calls_by_server.get(part.name).copied().unwrap_or(0);
            calls as f64 * part.slowdown
        });
        let mean = load.clone().sum::<f64>() / CAST.len() as f64;
        if mean > 0.0 { load.fold(0.0, f64::max) / mean } else { 1.0 }
    }
}

/// One moment of an act, to be shown.
pub(super) struct Scene<'a> {
    /// Number of the act, of how many.
    pub(super) number: &'a str,
    pub(super) act: &'a Act,
    /// Since its begin, in seconds.
    pub(super) seconds: f64,
    pub(super) lines: Vec<Line>,
    pub(super) results: CallResults,
    /// What happened in it.
    pub(super) news: &'a [String],
    /// The acts before.
    pub(super) outcomes: &'a [Outcome],
}
