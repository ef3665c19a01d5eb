//! Overload control: wait of messages, refused requests, limits of neighbours.

use super::metric::figures;
use node::{NeighbourReport, OverloadReport};
use overload::hop::ClientLimit;
use shards::{ShardSnapshot, SignalFigures, TriageCounts};
use std::net::SocketAddr;

figures! {
    /// Overload control of this process.
    OverloadView as "Overload" from (
        report: &OverloadReport, unread: usize, read_share: f64, neighbours: &[NeighbourReport]
    ) {
        /// Name of the overload controller that admits new requests.
        law: String = report.law.to_owned(),
        /// Share of new requests that the controller admits now, from 0 to 1; the lowest of all threads.
        acceptance: f64 = report.acceptance
            => [gauge "sarabande_overload_acceptance" "Share of new requests that the overload controller admits now."],
        /// Expected wait of a message that arrives now; the longest of all threads.
        wait_seconds: f64 = report.wait.as_secs_f64()
            => [gauge "sarabande_overload_wait_seconds" "Expected wait of a message that arrives now."],
        /// Messages that the threads have read but not handled yet.
        waiting: usize = unread
            => [gauge "sarabande_overload_waiting" "Messages that the threads have read but not handled yet."],
        /// Share of new requests that the kernel passes to this process, from 0 to 1; the lowest of all threads. It
        /// drops the rest without an answer, as long as refusals would take too much time.
        read_share: f64 = read_share => [
            gauge "sarabande_overload_read_share" "Share of new requests that the kernel passes; it drops the rest \
                unread."
        ],
        /// New requests without priority that reached the controller.
        offered: u64 = report.usual.offered => [
            counter "sarabande_overload_offered_total" (class = "usual") "New requests that reached the overload \
                controller."
        ],
        /// New requests with priority that reached the controller.
        priority_offered: u64 = report.priority.offered
            => [counter "sarabande_overload_offered_total" (class = "priority")],
        /// New requests without priority that the controller refused.
        refused: u64 = report.usual.refused => [
            counter "sarabande_overload_refused_total" (class = "usual") "New requests that the overload controller \
                refused."
        ],
        /// New requests with priority that the controller refused.
        priority_refused: u64 = report.priority.refused
            => [counter "sarabande_overload_refused_total" (class = "priority")],
        /// Share of the new requests of the last 5 to 10 s that was refused, from 0 to 1; 0 without new requests.
        recently_refused: f64 = match report.recent.offered {
            0 => 0.0,
            offered => report.recent.refused as f64 / offered as f64,
        },
        /// Neighbours that exchange feedback (RFC 7339) with this process, by address.
        neighbours: Vec<NeighbourView> = neighbours.iter().map(NeighbourView::new).collect(),
    }
}

figures! {
    /// Overload control with one neighbour.
    NeighbourView as "OverloadNeighbour" from (report: &NeighbourReport) {
        /// Address of the neighbour.
        address: SocketAddr = report.address,
        /// Requests a second that the neighbour accepts from this process now; `null` if it has named no rate.
        rate: Option<f64> = rate(report.limit) => [
            gauge "sarabande_neighbour_requests_per_second_max"
            "Requests a second that a neighbour accepts (oc-algo=rate); no value if it has named no rate."
        ],
        /// Share of requests that the neighbour accepts from this process now, from 0 to 1; 1 if it asks for no
        /// reduction.
        acceptance: f64 = acceptance(report.limit)
            => [gauge "sarabande_neighbour_acceptance" "Share of requests that a neighbour accepts (oc-algo=loss)."],
        /// Whether the neighbour limits what it is sent now.
        limited: bool = report.limit.is_some()
            => [gauge "sarabande_neighbour_limited" "1 while a neighbour limits the requests that it is sent."],
        /// Whether the neighbour leaves requests unanswered. It then gets one request at a time.
        silent: bool = report.is_silent
            => [gauge "sarabande_neighbour_silent" "1 while a neighbour leaves requests unanswered and gets one at a \
                time."],
        /// Whether the neighbour has never answered the offer of overload control.
        ignores_offer: bool = report.ignores_offer() => [
            gauge "sarabande_neighbour_ignores_offer" "1 if a neighbour has never answered the offer of overload \
                control."
        ],
        /// Requests for the neighbour that its limit was applied to.
        offered: u64 = report.offered => [
            counter "sarabande_neighbour_offered_total" "Requests for a neighbour that its limit was applied to."
        ],
        /// Requests that the neighbour's limit held back. They went to another server or were answered with 503.
        refused: u64 = report.refused => [
            counter "sarabande_neighbour_refused_total" "Requests that the neighbour's limit held back."
        ],
        /// Requests from the neighbour that offered overload control.
        received: u64 = report.received => [
            counter "sarabande_neighbour_received_total" "Requests from a neighbour that offered overload control."
        ],
    }
}

fn rate(limit: Option<ClientLimit>) -> Option<f64> {
    if let Some(ClientLimit::Rate(rate)) = limit { Some(rate) } else { None }
}

fn acceptance(limit: Option<ClientLimit>) -> f64 {
    if let Some(ClientLimit::Loss(acceptance)) = limit { acceptance } else { 1.0 }
}

impl OverloadView {
    /// Returns a text about recently refused requests; `None` if none was refused.
    pub(super) fn degraded(&self) -> Option<String> {
        let Self { law, recently_refused, wait_seconds, .. } = self;
        (*recently_refused > 0.0).then(|| {
            let (share, wait) = ((recently_refused * 100.0).max(1.0), wait_seconds * 1_000.0);
            format!("overloaded: {share:.0} % of recent new requests were refused (controller {law}, messages wait \
                {wait:.0} ms)")
        })
    }
}

/// Load signals of one thread, and counts of the messages that waited for it.
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
            gauge "sarabande_thread_lag_seconds" "Longest iteration of a thread's event loop in the last 10 to 20 s."
            |thread| thread.signals.lag
        ] => [
            gauge "sarabande_thread_wait_seconds" "Longest wait of a message for a thread in the last 10 to 20 s."
            |thread| thread.signals.waited
        ],
        triage => [
            counter "sarabande_triage_queued_total" "Messages that were queued because a thread was busy."
            |thread| thread.triage.queued
        ] => [
            counter "sarabande_triage_dropped_total" (reason = "copy") "Messages dropped from the queue of a thread, \
                by reason."
            |thread| thread.triage.copies
        ] => [
            counter "sarabande_triage_dropped_total" (reason = "full") |thread| thread.triage.full
        ] => [
            counter "sarabande_triage_dropped_total" (reason = "late") |thread| thread.triage.dropped
        ],
    }
}
