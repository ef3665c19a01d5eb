//! Overload control: how long messages wait, and what is refused.

use super::metric::figures;
use node::{NeighbourReport, OverloadReport};
use overload::hop::Limit;
use shards::{ShardSnapshot, SignalFigures, TriageCounts};
use std::net::SocketAddr;

figures! {
    /// How this process protects itself from more requests than it can serve.
    OverloadView as "Overload" from (
        report: &OverloadReport, unread: usize, neighbours: &[NeighbourReport]
    ) {
        /// Name of the law that decides which new requests are taken.
        law: String = report.law.to_owned(),
        /// The share of new requests that it takes now, from 0 to 1; of several threads the least.
        acceptance: f64 = report.acceptance
            => [gauge "sarabande_overload_acceptance" "Share of new requests that the law takes now."],
        /// How long a message that comes now is expected to wait; of several threads the longest.
        wait_seconds: f64 = report.wait.as_secs_f64()
            => [gauge "sarabande_overload_wait_seconds" "Expected wait of a message that comes now."],
        /// Messages that the threads have read and not handled yet.
        waiting: usize = unread
            => [gauge "sarabande_overload_waiting" "Messages that were read and not handled yet."],
        /// New requests without priority that came to the law.
        offered: u64 = report.usual.offered => [
            counter "sarabande_overload_offered_total" (class = "usual") "New requests that came to the law."
        ],
        /// New requests with priority that came to the law.
        priority_offered: u64 = report.priority.offered
            => [counter "sarabande_overload_offered_total" (class = "priority")],
        /// Those without priority that it refused.
        refused: u64 = report.usual.refused => [
            counter "sarabande_overload_refused_total" (class = "usual") "New requests that the law refused."
        ],
        /// Those with priority that it refused.
        priority_refused: u64 = report.priority.refused
            => [counter "sarabande_overload_refused_total" (class = "priority")],
        /// The share of the new requests of the last 5 to 10 s that was refused, from 0 to 1; 0 where there were none.
        recently_refused: f64 = match report.recent.offered {
            0 => 0.0,
            offered => report.recent.refused as f64 / offered as f64,
        },
        /// Servers with which feedback is exchanged (RFC 7339), by address.
        neighbours: Vec<NeighbourView> = neighbours.iter().map(NeighbourView::new).collect(),
    }
}

figures! {
    /// Overload control with a neighbour.
    NeighbourView as "OverloadNeighbour" from (report: &NeighbourReport) {
        /// Where it is.
        address: SocketAddr = report.address,
        /// Requests a second that it takes from this process now; `null`: it has named no rate.
        rate: Option<f64> = rate(report.limit) => [
            gauge "sarabande_neighbour_requests_per_second_max"
            "Requests a second that a neighbour takes by oc-algo=rate; no value while it names none."
        ],
        /// The part of its requests that it takes from this process now, from 0 to 1; 1: it asks for no reduction.
        acceptance: f64 = acceptance(report.limit)
            => [gauge "sarabande_neighbour_acceptance" "Part of the requests that a neighbour takes by oc-algo=loss."],
        /// Whether a limit of it is in force.
        limited: bool = report.limit.is_some()
            => [gauge "sarabande_neighbour_limited" "1 while a neighbour limits what it is sent."],
        /// Whether it leaves requests unanswered, so that it gets one at a time.
        silent: bool = report.is_silent
            => [gauge "sarabande_neighbour_silent" "1 while a neighbour answers nothing and is only probed."],
        /// Whether it has never answered the offer to keep to feedback.
        ignores_offer: bool = report.ignores_offer() => [
            gauge "sarabande_neighbour_ignores_offer" "1 where a neighbour never answers the offer of overload control."
        ],
        /// Requests for it that came to its limit.
        offered: u64 = report.offered => [
            counter "sarabande_neighbour_offered_total" "Requests for a neighbour that came to its limit."
        ],
        /// Those that its limit held back: another server got them, or a 503.
        refused: u64 = report.refused => [
            counter "sarabande_neighbour_refused_total" "Requests that the limit of a neighbour held back."
        ],
        /// Requests from it that offered to keep to feedback.
        received: u64 = report.received => [
            counter "sarabande_neighbour_received_total" "Requests from a neighbour that keeps to feedback."
        ],
    }
}

fn rate(limit: Option<Limit>) -> Option<f64> {
    if let Some(Limit::Rate(rate)) = limit { Some(rate) } else { None }
}

fn acceptance(limit: Option<Limit>) -> f64 {
    if let Some(Limit::Loss(acceptance)) = limit { acceptance } else { 1.0 }
}

impl OverloadView {
    /// What does not work, if new requests were refused of late.
    pub(super) fn degraded(&self) -> Option<String> {
        let Self { law, recently_refused, wait_seconds, .. } = self;
        (*recently_refused > 0.0).then(|| {
            let (share, wait) = ((recently_refused * 100.0).max(1.0), wait_seconds * 1_000.0);
            format!("overloaded: {share:.0} % of new requests were refused of late (law {law}, messages wait {wait:.0} ms)")
        })
    }
}

/// What a thread measures of itself, and what became of messages that waited for it.
#[derive(Clone, Debug)]
pub(crate) struct ThreadFigures {
    signals: SignalFigures,
    triage: TriageCounts,
}

impl ThreadFigures {
    pub(super) fn new(snapshot: &ShardSnapshot) -> Self {
        Self { signals: snapshot.signals, triage: snapshot.triage }
    }
}

figures! {
    of ThreadFigures {
        signals => [
            counter "sarabande_thread_busy_seconds_total" "Time between wake-up and sleep of a thread."
            |thread| thread.signals.busy
        ] => [
            counter "sarabande_thread_cpu_seconds_total" "Processor time of a thread."
            |thread| thread.signals.processor
        ] => [
            gauge "sarabande_thread_lag_seconds" "Longest turn of a thread's event loop, of the last 10 to 20 s."
            |thread| thread.signals.lag
        ] => [
            gauge "sarabande_thread_wait_seconds" "Longest wait of a message for a thread, of the last 10 to 20 s."
            |thread| thread.signals.waited
        ],
        triage => [
            counter "sarabande_triage_queued_total" "Messages that waited, as a thread had more than time."
            |thread| thread.triage.queued
        ] => [
            counter "sarabande_triage_dropped_total" (reason = "copy") "Messages of the queue of a thread that were dropped."
            |thread| thread.triage.copies
        ] => [
            counter "sarabande_triage_dropped_total" (reason = "full") |thread| thread.triage.full
        ] => [
            counter "sarabande_triage_dropped_total" (reason = "late") |thread| thread.triage.dropped
        ],
    }
}
