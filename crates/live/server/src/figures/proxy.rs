//! Transactions, next hops, and calls of dialog-stateful forwarding.

use super::metric::figures;
use super::peer::PeerText;
use super::text::Page;
use dialog::CallCounts;
use node::{ProxyReport, SharingReport};
use shards::RecordCounts;

figures! {
    /// `GET /api/proxy`
    ProxyView as "Proxy" from (report: &ProxyReport, hops: Vec<NextHop>, records: &RecordCounts) {
        /// Next hops of requests.
        next: Vec<NextHop> = hops,
        /// Transactions, including ended ones that are kept for late messages.
        transactions: usize = report.transactions
            => [gauge "sarabande_proxy_transactions" "Transactions in memory, including ended ones that are kept for \
                late messages."],
        /// Limit of transactions.
        max_transactions: usize = report.limits.transactions
            => [gauge "sarabande_proxy_transactions_max" "Limit of transactions."],
        /// Bytes of memory that transactions and their messages take.
        memory_bytes: usize = report.memory
            => [gauge "sarabande_proxy_memory_bytes" "Memory of transactions and their messages in bytes."],
        /// Limit of this memory in bytes.
        max_memory_bytes: usize = report.limits.memory
            => [gauge "sarabande_proxy_memory_max_bytes" "Limit of the memory of transactions in bytes."],
        /// Requests without a final response.
        unanswered: usize = report.unanswered,
        /// Requests that started a transaction and were forwarded.
        forwarded_total: u64 = report.counters.forwarded,
        /// Requests sent to another next hop after one had failed.
        retried_total: u64 = report.counters.retried
            => [counter "sarabande_proxy_retried_total" "Requests sent to another next hop after a failure."],
        /// ACKs and other requests forwarded without a transaction.
        stateless_total: u64 = report.counters.stateless,
        /// Responses relayed.
        relayed_total: u64 = report.counters.relayed,
        /// Branches of requests beyond the first: further next hops, members, or contacts of a user.
        forked_total: u64 = report.counters.forked
            => [counter "sarabande_proxy_forked_total" "Branches of requests beyond the first."],
        /// Groups of branches that were given up after their ring time.
        rung_out_total: u64 = report.counters.rung_out => [
            counter "sarabande_proxy_rung_out_total" "Groups of branches that were cancelled after their ring time."
        ],
        /// CANCELs sent to next hops.
        cancelled_total: u64 = report.counters.cancelled
            => [counter "sarabande_proxy_cancelled_total" "CANCELs sent to next hops."],
        /// Requests that the proxy itself answered with 300 or more in a transaction.
        refused_total: u64 = report.counters.refused,
        /// Responses that matched no transaction and were dropped.
        stray_total: u64 = report.counters.stray,
        /// Calls whose state is distributed among neighbours (`[distribution]`); `null` without distribution.
        distribution: Option<DistributionView> = report.sharing.as_ref().map(DistributionView::new),
        /// Calls whose dialogs are kept (`forward = "dialog"`); `null` without such calls.
        calls: Option<CallsView> = report.calls.as_ref().map(|calls| CallsView::new(calls, records)),
    }
}

figures! {
    /// One next hop.
    NextHop as "NextHop" {
        /// Address of the next hop.
        address: PeerText,
        /// Whether the next hop has failed and is tried last.
        resting: bool => [gauge "sarabande_proxy_hop_resting" "1 for a next hop that has failed and is tried last."],
    }
}

figures! {
    /// New requests, by the proxy that keeps their state or verifies their credentials.
    #[derive(Copy, Default)]
    DistributionView as "Distribution" from (report: &SharingReport) {
        /// Requests forwarded with a transaction here.
        kept_total: u64 = report.state.kept => [
            counter "sarabande_distribution_calls_total" (decision = "kept")
            "New requests by the proxy that keeps their transaction: this one, a later one, or an earlier one."
        ],
        /// Requests forwarded without a transaction, so that a proxy behind keeps one.
        passed_open_total: u64 = report.state.passed_open
            => [counter "sarabande_distribution_calls_total" (decision = "passed_open")],
        /// Requests forwarded without a transaction because an earlier proxy keeps one.
        passed_kept_total: u64 = report.state.passed_kept
            => [counter "sarabande_distribution_calls_total" (decision = "passed_kept")],
        /// Requests whose credentials this proxy challenged or verified, if verification is distributed.
        verified_total: u64 = report.authentication.kept => [
            counter "sarabande_distribution_credentials_total" (decision = "kept")
            "New requests by the proxy that verifies their credentials: this one, a later one, or an earlier one."
        ],
        /// Requests whose credentials were left to a proxy behind.
        left_unverified_total: u64 = report.authentication.passed_open
            => [counter "sarabande_distribution_credentials_total" (decision = "passed_open")],
        /// Requests whose credentials an earlier proxy has verified.
        verified_before_total: u64 = report.authentication.passed_kept
            => [counter "sarabande_distribution_credentials_total" (decision = "passed_kept")],
        /// Share of the available processor time that the work of the last second took, 0 to 1, without the cost of
        /// wake-ups.
        utilisation: f64 = report.utilisation => [
            gauge "sarabande_distribution_utilisation" "Share of the available processor time that the work of the \
                last second took."
        ],
        /// Neighbours that are told to send no more calls without state.
        throttled_neighbours: usize = report.throttled => [
            gauge "sarabande_distribution_throttled_neighbours" "Neighbours that are told to send no more calls \
                without state."
        ],
        /// Share of new requests from senders outside `neighbours` that is accepted, 0 to 1. Below 1 no proxy on the
        /// way has room, and the other requests get 503.
        taken: f64 = report.taken => [
            gauge "sarabande_distribution_taken" "Share of new requests accepted from senders outside `neighbours`."
        ],
    }
}

figures! {
    /// Calls whose dialogs are kept, and their records.
    CallsView as "Calls" from (calls: &CallCounts, records: &RecordCounts) {
        /// Calls that are not answered yet.
        ringing: usize = calls.ringing => [
            gauge "sarabande_calls" (state = "ringing") "Calls whose dialogs are kept, by state."
        ],
        /// Calls that are answered and in progress.
        answered: usize = calls.answered => [gauge "sarabande_calls" (state = "answered")],
        /// Calls that seem to have ended, but without proof. They are watched, and further messages reopen them.
        watched: usize = calls.watched => [gauge "sarabande_calls" (state = "watched")],
        /// Bytes of memory that calls take, just ended calls included.
        memory_bytes: usize = calls.memory => [gauge "sarabande_calls_memory_bytes" "Memory of calls in bytes."],
        /// Calls refused because there was no room for another call.
        refused_total: u64 = calls.refused
            => [counter "sarabande_calls_refused_total" "Calls refused because there was no room."],
        /// Calls from before a restart that were found again.
        found_again_total: u64 = calls.found => [
            counter "sarabande_calls_found_again_total" "Calls from before a restart that were recovered from tokens."
        ],
        /// Calls ended at the time limit of calls.
        time_limit_total: u64 = calls.limited => [
            counter "sarabande_calls_given_up_total" (cause = "time-limit")
            "Calls that this proxy ended, by cause."
        ],
        /// Calls ended because their session was not refreshed.
        session_expired_total: u64 = calls.expired
            => [counter "sarabande_calls_given_up_total" (cause = "session-expired")],
        /// Calls ended because no message of them arrived for too long.
        lost_total: u64 = calls.lost => [counter "sarabande_calls_given_up_total" (cause = "lost")],
        /// Calls that continued after an unproven end, and were reopened.
        reopened_total: u64 = calls.reopened => [
            counter "sarabande_calls_reopened_total" "Calls that continued after an unproven end."
        ],
        /// Call records that were written.
        records_total: u64 = records.written => [counter "sarabande_call_records_total" "Call records that were \
            written."],
        /// Call records that were discarded because there was no room for them for too long.
        records_lost_total: u64 = records.lost => [
            counter "sarabande_call_records_lost_total" "Call records discarded because there was no room for them \
                for too long."
        ],
        /// Call records that the database refuses permanently.
        records_refused_total: u64 = records.refused => [
            counter "sarabande_call_records_refused_total" "Call records that the database refuses permanently."
        ],
        /// Bytes of call records that wait for room on the disk.
        records_waiting_bytes: usize = records.waiting => [
            gauge "sarabande_call_records_waiting_bytes" "Bytes of call records that wait for room on the disk."
        ],
        /// Why records cannot be written, or why the database accepts none; `null` without a fault.
        records_trouble: Option<String> = records.trouble.clone() => [
            gauge "sarabande_call_records_trouble"
            "1 while call records cannot be written, or the database accepts none."
            |calls| calls.records_trouble.is_some()
        ],
    }
}

impl ProxyView {
    pub(super) fn put(&self, page: &mut Page) {
        page.part(self);
        let addresses: Vec<_> = self.next.iter().map(|hop| hop.address.to_string()).collect();
        let hops = addresses.iter().zip(&self.next).map(|(address, hop)| ([("hop", &**address)], hop));
        page.parts(&hops.collect::<Vec<_>>());
        if let Some(distribution) = &self.distribution {
            page.part(distribution);
        }
        if let Some(calls) = &self.calls {
            page.part(calls);
        }
    }
}
