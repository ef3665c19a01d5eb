//! The queue in front of a pool.

use super::metric::figures;
use super::text::Page;
use node::QueueReport;

figures! {
    /// The queue in front of a pool: counts are since the queue was set up.
    QueueView as "Queue" from (report: &QueueReport, queue_members: Vec<QueueMemberView>) {
        /// Calls that wait for a member with room.
        waiting: usize = report.waiting
            => [gauge "sarabande_queue_waiting" "New calls that wait for a member with room."],
        /// New calls that came, copies not counted.
        offered: u64 = report.counts.offered,
        /// Those that members have pulled.
        delivered: u64 = report.counts.delivered => [
            counter "sarabande_queue_calls_total" (outcome = "delivered") "New calls, by what became of them."
        ],
        /// Those that were refused at once, since too many waited.
        refused: u64 = report.counts.refused => [counter "sarabande_queue_calls_total" (outcome = "refused")],
        /// Those that had waited for too long.
        expired: u64 = report.counts.expired => [counter "sarabande_queue_calls_total" (outcome = "expired")],
        /// Those whose callers hung up while they waited.
        cancelled: u64 = report.counts.removed
            => [counter "sarabande_queue_calls_total" (outcome = "cancelled")],
        /// Copies of what waited.
        copies: u64 = report.counts.absorbed => [counter "sarabande_queue_copies_total" "Copies of what waited."],
        /// How long the delivered ones had waited, on the average; `null` without any.
        mean_wait_ms: Option<f64> = (report.counts.delivered > 0)
            .then(|| report.counts.waited.as_secs_f64() * 1000.0 / report.counts.delivered as f64),
        /// The same, all together.
        #[serde(skip)]
        waited_seconds: f64 = report.counts.waited.as_secs_f64() => [
            counter "sarabande_queue_wait_seconds_total" "How long the delivered calls had waited, all together."
        ],
        /// What each member can take.
        members: Vec<QueueMemberView> = queue_members,
    }
}

figures! {
    /// A member as the queue sees it.
    QueueMemberView as "QueueMember" {
        /// Its address.
        address: String,
        /// New calls a second that it can take.
        calls_per_second: f64 => [gauge "sarabande_queue_capacity" "New calls a second that a member can take."],
        /// Whether its monitor has fallen silent.
        silent: bool
            => [gauge "sarabande_queue_member_silent" "1 for a member whose monitor has fallen silent."],
        /// Where `calls_per_second` comes from: `monitor`, `responses` (its response times; while its monitor is silent, or
        /// what is left of its last word, whichever is more), `configured`, or `initial` while nothing is known.
        by: String,
        /// Calls that it got and has not answered at all.
        unanswered: usize => [
            gauge "sarabande_queue_member_unanswered" "Calls that a member got from the queue and has not answered at all."
        ],
        /// Unanswered calls from which on it gets no other one.
        unanswered_most: f64,
    }
}

/// The metrics of the queues in front of the pools of these names.
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
