//! An act, a moment of it, and its results.

use super::cast::CAST;
use crate::picture::Line;
use load::CallResults;

/// Events of an act.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Plot {
    /// Calls only.
    Compare,
    /// A server crashes and comes back, then another one is drained and taken back.
    Crash,
}

pub(super) struct Act {
    pub(super) plot: Plot,
    pub(super) policy: String,
    /// Load as a share of the capacity of all servers.
    pub(super) load: f64,
    /// Time in which calls are started, in seconds.
    pub(super) seconds: f64,
}

/// Results of an act.
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

/// Answered calls that could not be ended, because their server had lost them.
pub(super) fn calls_broken(results: &CallResults) -> u64 {
    results.bye_refused.values().sum::<u64>() + results.bye_timeouts
}

impl Outcome {
    /// Load of the busiest server, divided by the mean of all.
    pub(super) fn imbalance(&self) -> f64 {
        let load = CAST.iter().map(|part| {
            let calls = self.results.calls_by_server.get(part.name).copied().unwrap_or(0);
            calls as f64 * part.slowdown
        });
        let mean = load.clone().sum::<f64>() / CAST.len() as f64;
        if mean > 0.0 { load.fold(0.0, f64::max) / mean } else { 1.0 }
    }
}

/// A moment of an act to show.
pub(super) struct Scene<'a> {
    /// Number of the act and of all acts.
    pub(super) number: &'a str,
    pub(super) act: &'a Act,
    /// Seconds since the start of the act.
    pub(super) seconds: f64,
    pub(super) lines: Vec<Line>,
    pub(super) results: CallResults,
    /// Events so far.
    pub(super) news: &'a [String],
    /// Results of earlier acts.
    pub(super) outcomes: &'a [Outcome],
}
