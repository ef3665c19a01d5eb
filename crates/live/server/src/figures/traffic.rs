//! Counts of messages and datagrams, for metrics only.

use super::metric::figures;
use crate::log::Unwritten;
use balance::Why;
use base::Ledger;
use node::{Drop, ShardCounters};
use shards::{MirrorCounts, Traffic};
use std::collections::BTreeMap;

/// Counts of the pipelines and of the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Messages {
    /// Counts of the pipelines.
    pub(super) counters: ShardCounters,
    /// Costs of the pipelines' work.
    pub(super) ledger: Ledger,
    /// Names in requests that were not looked up because too many look-ups were under way.
    pub(super) look_ups_forgotten: u64,
}

figures! {
    of ShardCounters {
        requests
            => [counter "sarabande_requests_received_total" "Well-formed requests received."],
        responses
            => [counter "sarabande_responses_received_total" "Well-formed responses received."],
        requests_forwarded => [counter "sarabande_requests_forwarded_total" "Requests forwarded."],
        responses_forwarded => [counter "sarabande_responses_forwarded_total" "Responses forwarded."],
        tokens_refused => [counter "sarabande_tokens_refused_total" "Tokens that failed verification."],
        replies => [
            counter "sarabande_replies_total" (status, reason) "Requests that this process answered itself."
        ],
        drops => [
            counter "sarabande_drops_total" (reason) "Messages dropped without an answer."
            |counters| drops(counters)
        ],
        decisions => [
            counter "sarabande_decisions_total" (why) "Requests by the reason for the choice of their member."
            |counters| Why::ALL.iter().map(|why| why.name()).zip(counters.decisions).collect::<BTreeMap<_, _>>()
        ],
    }
}

figures! {
    of Messages {
        look_ups_forgotten
            => [counter "sarabande_look_ups_forgotten_total" "Names in requests not looked up because too many \
                look-ups were under way."],
        ledger => [
            counter "sarabande_operations_total" (operation) "Costly operations, by kind."
            |messages| messages.ledger.iter().map(|(operation, count)| (operation.name(), count)).collect::<BTreeMap<_, _>>()
        ],
    }
}

figures! {
    of Unwritten {
        lost => [counter "sarabande_log_lines_lost_total" "Log lines that could not be written."],
        suppressed => [
            counter "sarabande_log_lines_suppressed_total" "Log lines suppressed by the rate limit of their kind."
        ],
    }
}

figures! {
    of MirrorCounts {
        sent => [counter "sarabande_hep_sent_total" "Copies of messages sent to the collector of `[hep]`."],
        lost => [
            counter "sarabande_hep_lost_total" "Copies of messages lost: too slow or unreachable collector, or too long."
        ],
    }
}

figures! {
    of Traffic {
        received => [counter "sarabande_datagrams_received_total" "Datagrams received by a thread."],
        sent => [counter "sarabande_datagrams_sent_total" "Datagrams sent by a thread."],
        send_failed
            => [counter "sarabande_datagrams_send_failed_total" "Datagrams that the kernel refused to send."],
        receive_lost
            => [counter "sarabande_datagrams_receive_lost_total" "Datagrams lost because a thread was late."],
        handed_over
            => [counter "sarabande_datagrams_handed_over_total" "Datagrams handed over to the thread of their call."],
        handover_lost => [counter "sarabande_datagrams_handover_lost_total" "Datagrams lost while they were handed \
            over."],
        undelivered => [
            counter "sarabande_messages_undelivered_total" "Messages that could not be delivered over a connection."
        ],
    }
}

/// Counts of dropped messages by reason, zeros included: a series that starts at its first event hides that event from
/// `rate()`.
fn drops(counters: &ShardCounters) -> BTreeMap<&'static str, u64> {
    let mut drops: BTreeMap<_, _> = Drop::ALL.iter().map(|drop| (drop.reason(), 0)).collect();
    drops.extend(&counters.drops);
    drops
}
