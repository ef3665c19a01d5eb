//! Measurements of a side, now and at the end.

use super::cast::CAST;
use crate::picture::Rate;
use load::CallResults;
use std::time::Duration;

/// Index of the server that dies or becomes slow.
pub(super) const DISTURBED: usize = 0;
/// A call counts as served if it is answered within this time.
pub(super) const IN_TIME: Duration = Duration::from_secs(1);

/// Results of a side.
pub(super) struct Measured {
    /// At the start of the measurement, which is the event in most acts, and at the end.
    pub(super) before: CallResults,
    pub(super) end: CallResults,
    /// Seconds between them.
    pub(super) seconds: f64,
}

impl Measured {
    /// Calls that were not set up.
    pub(super) fn lost(&self) -> u64 {
        let CallResults { invite_timeouts, calls_abandoned, calls_answered_late, .. } = self.end;
        refused(&self.end) + invite_timeouts + calls_abandoned + calls_answered_late
    }

    /// Calls answered in time, a second.
    pub(super) fn served_per_second(&self) -> f64 {
        (served(&self.end) - served(&self.before)) as f64 / self.seconds
    }

    /// Share of the disturbed server in the answered calls before the event, in percent.
    pub(super) fn share_before(&self) -> f64 {
        percent(by_server(&self.before, DISTURBED), self.before.calls_answered)
    }

    /// The same share since the event.
    pub(super) fn share_after(&self) -> f64 {
        let calls = by_server(&self.end, DISTURBED) - by_server(&self.before, DISTURBED);
        percent(calls, self.end.calls_answered - self.before.calls_answered)
    }
}

fn percent(part: u64, all: u64) -> f64 {
    100.0 * part as f64 / all.max(1) as f64
}

fn by_server(results: &CallResults, index: usize) -> u64 {
    results.calls_by_server.get(CAST[index].name).copied().unwrap_or(0)
}

/// Calls answered in time.
fn served(results: &CallResults) -> u64 {
    results.invite_response.count_within(IN_TIME)
}

pub(super) fn refused(results: &CallResults) -> u64 {
    results.calls_refused.values().sum()
}

/// Earlier counts of a side: answered calls of each server, and calls answered in time.
#[derive(Default)]
pub(super) struct Track([Rate; CAST.len()], Rate);

/// Figures of a side.
pub(super) struct Figures {
    /// Recent rate of answered calls a second of each server, and of calls answered in time.
    pub(super) servers: Vec<f64>,
    pub(super) served: f64,
    pub(super) results: CallResults,
}

impl Track {
    pub(super) fn sample(&mut self, seconds: f64, results: CallResults) -> Figures {
        let rates = self.0.iter_mut().enumerate();
        let servers = rates.map(|(index, rate)| rate.sample(seconds, by_server(&results, index))).collect();
        Figures { servers, served: self.1.sample(seconds, served(&results)), results }
    }
}
