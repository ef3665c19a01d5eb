//! The queues in front of pools.

use super::text::Page;
use crate::QueueStanding;

pub(super) fn put(page: &mut Page, queues: &[QueueStanding]) {
    if queues.is_empty() {
        return;
    }
    let mut waiting = page.gauge("sarabande_queue_waiting", "New calls that wait for a member with room.");
    for queue in queues {
        waiting.sample(&[("pool", &queue.pool)], queue.report.waiting);
    }
    let mut calls = page.counter("sarabande_queue_calls_total", "New calls, by what became of them.");
    for queue in queues {
        let counts = &queue.report.counts;
        let outcomes = [
            ("delivered", counts.delivered),
            ("refused", counts.refused),
            ("expired", counts.expired),
            ("cancelled", counts.removed),
        ];
        for (outcome, count) in outcomes {
            calls.sample(&[("pool", &queue.pool), ("outcome", outcome)], count);
        }
    }
    let name = "sarabande_queue_moved_total";
    let mut moved =
        page.counter(name, "Calls that went to another member, since the first one did not answer.");
    for queue in queues {
        moved.sample(&[("pool", &queue.pool)], queue.report.counts.moved);
    }
    let mut copies = page.counter("sarabande_queue_copies_total", "Copies of what waited.");
    for queue in queues {
        copies.sample(&[("pool", &queue.pool)], queue.report.counts.absorbed);
    }
    let name = "sarabande_queue_wait_seconds_total";
    let mut waits = page.counter(name, "How long the delivered calls had waited, all together.");
    for queue in queues {
        waits.sample(&[("pool", &queue.pool)], queue.report.counts.waited.as_secs_f64());
    }
    let name = "sarabande_queue_capacity";
    let mut capacities = page.gauge(name, "New calls a second that a member can take.");
    for queue in queues {
        for (member, capacity, _) in &queue.members {
            capacities.sample(&[("pool", &queue.pool), ("member", &member.to_string())], *capacity);
        }
    }
    let name = "sarabande_queue_member_silent";
    let mut silent = page.gauge(name, "1 for a member whose monitor has fallen silent.");
    for queue in queues {
        for (member, _, is_silent) in &queue.members {
            silent.sample(&[("pool", &queue.pool), ("member", &member.to_string())], u8::from(*is_silent));
        }
    }
}
