//! Transactions that are kept, next hops, and calls whose dialogs are kept.

use super::metric::figures;
use super::peer::PeerText;
use super::text::Page;
use dialog::CallCounts;
use node::{ProxyReport, SharingReport};
use shards::RecordCounts;

figures! {
    /// `GET /api/proxy`
    ProxyView as "Proxy" from (report: &ProxyReport, hops: Vec<NextHop>, records: &RecordCounts) {
        /// Where requests go.
        next: Vec<NextHop> = hops,
        /// Transactions there are, those included that have ended and are kept for late messages.
        transactions: usize = report.transactions
            => [gauge "sarabande_proxy_transactions" "Transactions that are kept."],
        /// Most transactions at a time.
        max_transactions: usize = report.limits.transactions
            => [gauge "sarabande_proxy_transactions_max" "Most transactions at a time."],
        /// Bytes of memory that they and their messages take.
        memory_bytes: usize = report.memory
            => [gauge "sarabande_proxy_memory_bytes" "Memory that transactions and their messages take."],
        /// Most bytes of memory for them.
        max_memory_bytes: usize = report.limits.memory
            => [gauge "sarabande_proxy_memory_max_bytes" "Most memory for them."],
        /// Requests without a final response.
        unanswered: usize = report.unanswered,
        /// Requests that began a transaction and were forwarded.
        forwarded_total: u64 = report.counters.forwarded,
        /// Requests sent to another next hop because one had failed.
        retried_total: u64 = report.counters.retried
            => [counter "sarabande_proxy_retried_total" "Requests sent to another next hop after a failure."],
        /// ACKs and other requests forwarded without a transaction.
        stateless_total: u64 = report.counters.stateless,
        /// Responses relayed.
        relayed_total: u64 = report.counters.relayed,
        /// Branches that requests had beyond their first one: further next hops, members, or contacts of a user.
        forked_total: u64 = report.counters.forked
            => [counter "sarabande_proxy_forked_total" "Branches that requests had beyond their first one."],
        /// Groups of branches that were given up after their ring time.
        rung_out_total: u64 = report.counters.rung_out => [
            counter "sarabande_proxy_rung_out_total" "Groups of members that were given up after their ring time."
        ],
        /// CANCELs sent to next hops.
        cancelled_total: u64 = report.counters.cancelled
            => [counter "sarabande_proxy_cancelled_total" "CANCELs sent to next hops."],
        /// Requests that the proxy has answered itself with 300 or more, and a transaction.
        refused_total: u64 = report.counters.refused,
        /// Responses that answered nothing: dropped.
        stray_total: u64 = report.counters.stray,
        /// Of calls whose state is shared out with neighbours (`[distribution]`); `null` where none is.
        distribution: Option<DistributionView> = report.sharing.as_ref().map(DistributionView::new),
        /// Of calls whose dialogs are kept (`forward = "dialog"`); `null` where none are.
        calls: Option<CallsView> = report.calls.as_ref().map(|calls| CallsView::new(calls, records)),
    }
}

figures! {
    /// One next hop.
    NextHop as "NextHop" {
        /// Where it is.
        address: PeerText,
        /// Whether it has failed and is the last to be asked.
        resting: bool => [gauge "sarabande_proxy_hop_resting" "1 for a next hop that has failed and rests."],
    }
}

figures! {
    /// What became of requests that began something.
    #[derive(Copy, Default)]
    DistributionView as "Distribution" from (report: &SharingReport) {
        /// Forwarded with a transaction here.
        kept_total: u64 = report.state.kept => [
            counter "sarabande_distribution_calls_total" (decision = "kept")
            "New requests whose state is shared out: kept here, passed on for somebody behind to keep, or kept before."
        ],
        /// Forwarded without one, for a proxy behind to keep.
        passed_open_total: u64 = report.state.passed_open
            => [counter "sarabande_distribution_calls_total" (decision = "passed_open")],
        /// Forwarded without one, since a proxy before keeps it.
        passed_kept_total: u64 = report.state.passed_kept
            => [counter "sarabande_distribution_calls_total" (decision = "passed_kept")],
        /// Requests whose credentials are this proxy's to judge, where that is shared out: challenged or verified here.
        verified_total: u64 = report.authentication.kept => [
            counter "sarabande_distribution_credentials_total" (decision = "kept")
            "New requests whose credentials are verified by one of the proxies: here, left to one behind, or before."
        ],
        /// Requests whose credentials were left to a proxy behind.
        left_unverified_total: u64 = report.authentication.passed_open
            => [counter "sarabande_distribution_credentials_total" (decision = "passed_open")],
        /// Requests whose credentials a proxy before has verified.
        verified_before_total: u64 = report.authentication.passed_kept
            => [counter "sarabande_distribution_credentials_total" (decision = "passed_kept")],
        /// What the work of the last second takes of the processor time that the process may use, 0 to 1, without
        /// what waking up for it costs.
        utilisation: f64 = report.utilisation => [
            gauge "sarabande_distribution_utilisation" "Part of its processor time that the work of a second takes."
        ],
        /// Neighbours that are told to send no more calls without state.
        throttled_neighbours: usize = report.throttled => [
            gauge "sarabande_distribution_throttled_neighbours" "Neighbours that are told to hold back."
        ],
        /// Share of new requests that is taken of senders outside `neighbours`, 0 to 1; below 1 no proxy on the way
        /// has room, and the others get 503.
        taken: f64 = report.taken => [
            gauge "sarabande_distribution_taken" "Share of new requests taken of senders that are no neighbours."
        ],
    }
}

figures! {
    /// Calls whose dialogs are kept, and their records.
    CallsView as "Calls" from (calls: &CallCounts, records: &RecordCounts) {
        /// Calls that are not answered yet.
        ringing: usize = calls.ringing => [
            gauge "sarabande_calls" (state = "ringing") "Calls whose dialogs are kept, by how far they are."
        ],
        /// Calls that are answered and go on.
        answered: usize = calls.answered => [gauge "sarabande_calls" (state = "answered")],
        /// Calls that are over as far as somebody has said: they are watched, and what is heard of them yet reopens
        /// them.
        watched: usize = calls.watched => [gauge "sarabande_calls" (state = "watched")],
        /// Bytes of memory that calls take, those included that have just ended.
        memory_bytes: usize = calls.memory => [gauge "sarabande_calls_memory_bytes" "Memory that they take."],
        /// Calls refused for want of room.
        refused_total: u64 = calls.refused
            => [counter "sarabande_calls_refused_total" "Calls refused for want of room."],
        /// Calls from before a restart that were found again.
        found_again_total: u64 = calls.found => [
            counter "sarabande_calls_found_again_total" "Calls from before a restart that were found again."
        ],
        /// Calls ended because they took as long as a call may.
        time_limit_total: u64 = calls.limited => [
            counter "sarabande_calls_given_up_total" (cause = "time-limit")
            "Calls that ended without a BYE of theirs, by the cause."
        ],
        /// Calls ended because their session was not refreshed.
        session_expired_total: u64 = calls.expired
            => [counter "sarabande_calls_given_up_total" (cause = "session-expired")],
        /// Calls ended because nothing was heard of them.
        lost_total: u64 = calls.lost => [counter "sarabande_calls_given_up_total" (cause = "lost")],
        /// Calls reopened: they went on after an end that nothing proved.
        reopened_total: u64 = calls.reopened => [
            counter "sarabande_calls_reopened_total" "Calls that went on after an end that nothing proved."
        ],
        /// Records of calls.
        records_total: u64 = records.written => [counter "sarabande_call_records_total" "Records of calls."],
        /// Records that were thrown away, since there was no room for them for so long.
        records_lost_total: u64 = records.lost => [
            counter "sarabande_call_records_lost_total" "Records thrown away: for too long no room."
        ],
        /// Records that the database refuses, whatever is tried.
        records_refused_total: u64 = records.refused => [
            counter "sarabande_call_records_refused_total" "Records that the database refuses."
        ],
        /// Bytes of records that wait for room on the disk.
        records_waiting_bytes: usize = records.waiting => [
            gauge "sarabande_call_records_waiting_bytes" "Records that wait for room on the disk."
        ],
        /// Why records cannot be written, or why the database takes none; `null` when all is well.
        records_trouble: Option<String> = records.trouble.clone() => [
            gauge "sarabande_call_records_trouble"
            "1 while records cannot be written, or the database takes none."
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
