//! What monitors have announced, and what has come of their connections.

use super::text::Page;
use crate::capacity::CapacityReport;

pub(super) fn put(page: &mut Page, CapacityReport { counts, announced, .. }: &CapacityReport) {
    page.gauge("sarabande_capacity_connections", "Connections of monitors.").sample(&[], counts.open);
    page.counter("sarabande_capacity_connections_total", "Connections that there have been.")
        .sample(&[], counts.connections);
    page.counter("sarabande_capacity_updates_total", "Updates of capacity that were accepted.")
        .sample(&[], counts.accepted);
    let help = "Connections for updates of capacity that were closed by this side, by the reason.";
    let mut closed = page.counter("sarabande_capacity_closed_total", help);
    for (reason, count) in &counts.closed {
        closed.sample(&[("reason", reason)], count);
    }
    let help = "Calls a second that a member can take, as its monitor has announced last.";
    let mut capacity = page.gauge("sarabande_capacity_announced", help);
    for each in announced {
        capacity.sample(&[("member", &each.member.to_string())], each.capacity);
    }
    let help = "What that counts for: less once updates stay out.";
    let mut now = page.gauge("sarabande_capacity_now", help);
    for each in announced {
        now.sample(&[("member", &each.member.to_string())], each.now);
    }
    let mut age = page.gauge("sarabande_capacity_age_seconds", "Time since the last update.");
    for each in announced {
        age.sample(&[("member", &each.member.to_string())], each.age.as_secs_f64());
    }
}
