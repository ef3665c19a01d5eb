//! The queue of new calls of a pool.

use super::metric::figures;
use super::text::Page;
use node::QueueReport;

figures! {
    /// The queue of new calls of a pool. Counts start when the queue is set up.
    QueueView as "Queue" from (report: &QueueReport, queue_members: Vec<QueueMemberView>) {
        /// Calls that wait for a member with room.
        waiting: usize = report.waiting
            => [gauge "sarabande_queue_waiting" "New calls that wait for a member with room."],
        /// New calls that arrived, retransmissions not counted.
        offered: u64 = report.counts.offered,
        /// Calls that members have pulled.
        delivered: u64 = report.counts.delivered => [
            counter "sarabande_queue_calls_total" (outcome = "delivered") "New calls by outcome."
        ],
        /// Calls that were refused at once because too many waited.
        refused: u64 = report.counts.refused => [counter "sarabande_queue_calls_total" (outcome = "refused")],
        /// Calls that were refused after the longest wait.
        expired: u64 = report.counts.expired => [counter "sarabande_queue_calls_total" (outcome = "expired")],
        /// Calls whose callers hung up while they waited.
        cancelled: u64 = report.counts.removed
            => [counter "sarabande_queue_calls_total" (outcome = "cancelled")],
        /// Retransmissions of waiting calls.
        copies: u64 = report.counts.absorbed => [counter "sarabande_queue_copies_total" "Retransmissions of waiting \
            calls."],
        /// Mean wait of the delivered calls; `null` if there are none.
        mean_wait_ms: Option<f64> = (report.counts.delivered > 0)
            .then(|| report.counts.waited.as_secs_f64() * 1000.0 / report.counts.delivered as f64),
        /// Total wait of the delivered calls.
        #[serde(skip)]
        waited_seconds: f64 = report.counts.waited.as_secs_f64() => [
            counter "sarabande_queue_wait_seconds_total" "Total wait of the delivered calls in seconds."
        ],
        /// Capacity of each member.
        members: Vec<QueueMemberView> = queue_members,
    }
}

figures! {
    /// A member in the queue's view.
    QueueMemberView as "QueueMember" {
        /// Address of the member.
        address: String,
        /// New calls a second that the member can take.
        calls_per_second: f64 => [gauge "sarabande_queue_capacity" "New calls a second that a member can take."],
        /// Whether the member's monitor has fallen silent.
        silent: bool
            => [gauge "sarabande_queue_member_silent" "1 for a member whose monitor has fallen silent."],
        /// Source of `calls_per_second`: `monitor`, `responses`, `configured`, or `initial` while the capacity is
        /// unknown. `responses` is used while the monitor is silent: the response times, or the rest of its last
        /// announcement if that is more.
        by: String,
        /// Calls that were sent to the member and have no response at all.
        unanswered: usize => [
            gauge "sarabande_queue_member_unanswered" "Calls that were sent to a member from the queue and have no \
                response."
        ],
        /// Number of unanswered calls from which on the member gets no more calls.
        unanswered_most: f64,
    }
}

/// Adds the metrics of these queues, each with the name of its pool.
pub(super) fn put<'a>(page: &mut Page, queues: impl Iterator<Item = (&'a str, &'a QueueView)>) {
    let queues: Vec<_> = queues.map(|(pool, queue)| ([("pool", pool)], queue)).collect();
    if !queues.is_empty() {
        page.parts(&queues);
        let members = queues.iter().flat_map(|([pool], queue)| {
            queue.members.iter().map(|member| ([*pool, ("member", &*member.address)], member))
        });
        page.parts(&members.collect::<Vec<_>>());
    }
}
