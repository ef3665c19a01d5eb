//! All figures as Prometheus reads them. What each means is in `docs/admin.md`; a test holds the two together.

mod capacity;
pub(crate) mod process;
mod queues;
mod registrar;
mod scale;
mod text;

use super::view::{NameView, ended};
use crate::records::RecordCounts;
use crate::{Figures, MemberReport, ShardTotals, Totals};
use balance::Why;
use dialog::{CallCounts, Cause};
use node::{Drop, ProxyReport, SharingReport};
use std::collections::BTreeMap;
use std::net::SocketAddr;
pub(crate) use text::Page;
use wire::Method;

/// Upper bounds of response times in microseconds: from a loopback to a callee who lets it ring.
const TIMES: [u64; 18] = [
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    180_000_000,
];
const MICROS_A_SECOND: f64 = 1e6;

/// Upper bounds of occupancy, in transactions.
const OCCUPANCIES: [u64; 13] = [0, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000];

/// What [`MemberView::state`](super::view::MemberView::state) can say.
const STATES: [&str; 9] =
    ["up", "slow-start", "ejected", "paused", "full", "draining", "off", "down", "removed"];

/// The page of `GET /metrics`.
pub(super) fn page(figures: &Figures) -> String {
    let Figures { totals, members, names } = figures;
    let mut page = Page::default();
    general(&mut page, totals);
    process::put(&mut page, totals.uptime_seconds);
    messages(&mut page, totals);
    shards(&mut page, &totals.shards);
    if let Some(report) = &totals.proxy {
        proxy(&mut page, report, &totals.hops);
        if let Some(calls) = &report.calls {
            self::calls(&mut page, calls, &totals.records.clone().unwrap_or_default());
        }
    }
    if let Some(home) = &totals.home {
        registrar::put(&mut page, home);
    }
    queues::put(&mut page, &totals.queues);
    if let Some(report) = &totals.capacity {
        capacity::put(&mut page, report);
    }
    if !totals.scales.is_empty() {
        scale::put(&mut page, &totals.scales);
    }
    let shown = |report: &MemberReport| report.shown.address.to_string();
    let members: Vec<_> =
        members.iter().map(|report| (shown(report), report, report.shown.pools.join(","))).collect();
    member_gauges(&mut page, &members);
    member_history(&mut page, &members);
    self::names(&mut page, names);
    page.finish()
}

fn names(page: &mut Page, names: &[NameView]) {
    let mut addresses =
        page.gauge("sarabande_name_addresses", "Addresses that a member's name stands for; 0: not resolved.");
    for name in names {
        addresses.sample(&[("name", &name.name)], name.addresses);
    }
    let mut failed = page
        .gauge("sarabande_name_failed", "1 if the last look-up of a member's name failed, or a part of it.");
    for name in names {
        failed.sample(&[("name", &name.name)], u8::from(name.error.is_some()));
    }
}

fn general(page: &mut Page, totals: &Totals) {
    page.gauge("sarabande_build_info", "Always 1; the label says which version runs.")
        .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let mut policies =
        page.gauge("sarabande_policy_info", "Always 1; the labels say which policy chooses in which pool.");
    for pool in &totals.pools {
        policies.sample(&[("policy", pool.policy), ("pool", &pool.name)], 1);
    }
    if totals.pools.is_empty() {
        policies.sample(&[("policy", "none"), ("pool", "")], 1);
    }
    page.gauge("sarabande_uptime_seconds", "Time since the process started.")
        .sample(&[], totals.uptime_seconds);
    page.gauge("sarabande_stopping", "1 once a stop was asked for.").sample(&[], u8::from(totals.stopping));
    page.counter("sarabande_log_lines_lost_total", "Lines of the log that could not be written.")
        .sample(&[], totals.unwritten.lost);
    page.counter("sarabande_log_lines_suppressed_total", "Lines of the log that were too many of one kind.")
        .sample(&[], totals.unwritten.suppressed);
    let sum = |of: fn(&ShardTotals) -> usize| totals.shards.iter().map(of).sum::<usize>();
    let mut sessions = page.gauge("sarabande_sessions", "Sessions in the table by state.");
    sessions.sample(&[("state", "active")], sum(|shard| shard.table.active));
    sessions.sample(&[("state", "expired")], sum(|shard| shard.table.expired));
    page.gauge("sarabande_transactions_open", "Transactions without a final response.")
        .sample(&[], sum(|shard| shard.table.transactions));
}

fn messages(page: &mut Page, totals: &Totals) {
    let counters = &totals.counters;
    let plain = [
        ("sarabande_requests_received_total", "Requests received that could be read.", counters.requests),
        ("sarabande_responses_received_total", "Responses received that could be read.", counters.responses),
        ("sarabande_requests_forwarded_total", "Requests forwarded.", counters.requests_forwarded),
        ("sarabande_responses_forwarded_total", "Responses forwarded.", counters.responses_forwarded),
        ("sarabande_tokens_refused_total", "Route tokens that did not verify.", counters.tokens_refused),
        ("sarabande_look_ups_forgotten_total", "Names not looked up: too many.", totals.look_ups_forgotten),
    ];
    for (name, help, count) in plain {
        page.counter(name, help).sample(&[], count);
    }
    let mut replies = page.counter("sarabande_replies_total", "Requests answered by the balancer itself.");
    for ((status, reason), count) in &counters.replies {
        replies.sample(&[("status", &status.to_string()), ("reason", reason)], count);
    }
    // Also those that have not happened: a series that begins at its first event hides it from `rate()`.
    let mut drops: BTreeMap<&str, u64> = Drop::ALL.iter().map(|drop| (drop.reason(), 0)).collect();
    drops.extend(&counters.drops);
    let mut family = page.counter("sarabande_drops_total", "Messages dropped without an answer.");
    for (reason, count) in drops {
        family.sample(&[("reason", reason)], count);
    }
    let mut decisions = page.counter("sarabande_decisions_total", "Requests by what decided their member.");
    for (why, count) in Why::ALL.into_iter().zip(counters.decisions) {
        decisions.sample(&[("why", why.name())], count);
    }
    let mut operations = page.counter("sarabande_operations_total", "Operations that cost time.");
    for (operation, count) in totals.ledger.iter() {
        operations.sample(&[("operation", operation.name())], count);
    }
}

fn proxy(page: &mut Page, report: &ProxyReport, hops: &[(SocketAddr, bool)]) {
    let mut transactions = page.gauge("sarabande_proxy_transactions", "Transactions that are kept.");
    transactions.sample(&[], report.transactions);
    page.gauge("sarabande_proxy_transactions_max", "Most transactions at a time.")
        .sample(&[], report.limits.transactions);
    page.gauge("sarabande_proxy_memory_bytes", "Memory that transactions and their messages take.")
        .sample(&[], report.memory);
    page.gauge("sarabande_proxy_memory_max_bytes", "Most memory for them.").sample(&[], report.limits.memory);
    let mut resting =
        page.gauge("sarabande_proxy_hop_resting", "1 for a next hop that has failed and rests.");
    for (address, rests) in hops {
        resting.sample(&[("hop", &address.to_string())], u8::from(*rests));
    }
    page.counter("sarabande_proxy_retried_total", "Requests sent to another next hop after a failure.")
        .sample(&[], report.counters.retried);
    page.counter("sarabande_proxy_forked_total", "Branches that requests had beyond their first one.")
        .sample(&[], report.counters.forked);
    page.counter(
        "sarabande_proxy_rung_out_total",
        "Groups of members that were given up after their ring time.",
    )
    .sample(&[], report.counters.rung_out);
    page.counter("sarabande_proxy_cancelled_total", "CANCELs sent to next hops.")
        .sample(&[], report.counters.cancelled);
    if let Some(sharing) = &report.sharing {
        distribution(page, sharing);
    }
}

fn distribution(page: &mut Page, report: &SharingReport) {
    let mut calls = page.counter(
        "sarabande_distribution_calls_total",
        "New requests whose state is shared out: kept here, passed on for somebody behind to keep, or kept before.",
    );
    let counts =
        [("kept", report.kept), ("passed_open", report.passed_open), ("passed_kept", report.passed_kept)];
    for (decision, count) in counts {
        calls.sample(&[("decision", decision)], count);
    }
    page.gauge("sarabande_distribution_utilisation", "Part of its processor time that the process used.")
        .sample(&[], report.utilisation);
    page.gauge("sarabande_distribution_throttled_neighbours", "Neighbours that are told to hold back.")
        .sample(&[], report.throttled);
}

fn calls(page: &mut Page, calls: &CallCounts, records: &RecordCounts) {
    let mut open = page.gauge("sarabande_calls", "Calls whose dialogs are kept, by how far they are.");
    open.sample(&[("state", "ringing")], calls.ringing);
    open.sample(&[("state", "answered")], calls.answered);
    open.sample(&[("state", "watched")], calls.watched);
    page.gauge("sarabande_calls_memory_bytes", "Memory that they take.").sample(&[], calls.memory);
    page.counter("sarabande_calls_refused_total", "Calls refused for want of room.")
        .sample(&[], calls.refused);
    page.counter("sarabande_calls_found_again_total", "Calls from before a restart that were found again.")
        .sample(&[], calls.found);
    let mut ended = page
        .counter("sarabande_calls_given_up_total", "Calls that ended without a BYE of theirs, by the cause.");
    for (cause, count) in
        [(Cause::TimeLimit, calls.limited), (Cause::SessionExpired, calls.expired), (Cause::Lost, calls.lost)]
    {
        ended.sample(&[("cause", cause.name())], count);
    }
    page.counter("sarabande_calls_reopened_total", "Calls that went on after an end that nothing proved.")
        .sample(&[], calls.reopened);
    page.counter("sarabande_call_records_total", "Records of calls.").sample(&[], records.written);
    page.counter("sarabande_call_records_lost_total", "Records thrown away: for too long no room.")
        .sample(&[], records.lost);
    page.counter("sarabande_call_records_refused_total", "Records that the database refuses.")
        .sample(&[], records.refused);
    page.gauge("sarabande_call_records_waiting_bytes", "Records that wait for room on the disk.")
        .sample(&[], records.waiting);
    page.gauge(
        "sarabande_call_records_trouble",
        "1 while records cannot be written, or the database takes none.",
    )
    .sample(&[], u8::from(records.trouble.is_some()));
}

/// Name, help and value of a figure that one thing of a kind has.
type Figure<T, V> = (&'static str, &'static str, fn(&T) -> V);

fn shards(page: &mut Page, shards: &[ShardTotals]) {
    let figures: [Figure<ShardTotals, u64>; 6] = [
        ("sarabande_datagrams_received_total", "Datagrams received by a thread.", |s| s.received),
        ("sarabande_datagrams_sent_total", "Datagrams sent by a thread.", |s| s.sent),
        ("sarabande_datagrams_send_failed_total", "Datagrams that the kernel refused to send.", |s| {
            s.send_failed
        }),
        ("sarabande_datagrams_receive_lost_total", "Datagrams lost because a thread was late.", |s| {
            s.receive_lost
        }),
        ("sarabande_datagrams_handed_over_total", "Datagrams given to the call's thread.", |s| s.handed_over),
        ("sarabande_datagrams_handover_lost_total", "Datagrams lost on the way there.", |s| s.handover_lost),
    ];
    for (name, help, value) in figures {
        let mut family = page.counter(name, help);
        for (index, shard) in shards.iter().enumerate() {
            family.sample(&[("shard", &index.to_string())], value(shard));
        }
    }
}

/// Members with their addresses as text and the names of their pools. One that is in several has them all in one label, with
/// commas: it has one load, and a sum over the members counts it once.
type Members<'a> = [(String, &'a MemberReport, String)];

type Label<'a> = (&'a str, &'a str);

fn labels<'a>((address, report, pool): &'a (String, &MemberReport, String)) -> [Label<'a>; 3] {
    [("member", address), ("name", &report.shown.name), ("pool", pool)]
}

/// The labels of a member and one more.
fn with<'a>([member, of, pool]: [Label<'a>; 3], name: &'a str, value: &'a str) -> [Label<'a>; 4] {
    [member, of, pool, (name, value)]
}

fn member_gauges(page: &mut Page, members: &Members<'_>) {
    let mut states = page.gauge("sarabande_member_state", "1 for the state that the member is in.");
    for member in members {
        for state in STATES {
            states.sample(&with(labels(member), "state", state), u8::from(member.1.shown.state == state));
        }
    }
    let figures: [Figure<MemberReport, f64>; 10] = [
        ("sarabande_member_reachable", "Whether it counts as alive.", |m| f64::from(m.shown.reachable)),
        ("sarabande_member_answers_probes", "0 if it answers calls but no OPTIONS probes, else 1.", |m| {
            f64::from(m.shown.answers_probes != Some(false))
        }),
        ("sarabande_member_accepting", "Whether it takes new calls.", |m| f64::from(m.shown.accepting)),
        ("sarabande_member_draining", "Whether it is drained, by an operator or a scaler.", |m| {
            f64::from(m.shown.draining)
        }),
        ("sarabande_member_calls", "Calls in progress.", |m| m.shown.calls.into()),
        ("sarabande_member_calls_max", "Most calls at a time; 0 for no limit.", |m| m.shown.max_calls.into()),
        ("sarabande_member_transactions_open", "Transactions without a final response.", |m| {
            m.shown.transactions.into()
        }),
        ("sarabande_member_work", "Weighted work of the open transactions; a BYE is 1.", |m| m.shown.work),
        ("sarabande_member_capacity", "Configured capacity, relative to the others.", |m| m.shown.capacity),
        ("sarabande_member_capacity_now", "Capacity now: less in the slow start.", |m| m.shown.capacity_now),
    ];
    for (name, help, value) in figures {
        let mut family = page.gauge(name, help);
        for member in members {
            family.sample(&labels(member), value(member.1));
        }
    }
}

fn member_history(page: &mut Page, members: &Members<'_>) {
    let figures: [Figure<MemberReport, u64>; 3] = [
        ("sarabande_member_assigned_total", "Calls and dialog-less requests given to it.", |m| {
            m.stats.assigned
        }),
        ("sarabande_member_transactions_total", "Transactions opened on it.", |m| m.stats.transactions),
        ("sarabande_member_ejections_total", "Times that it was ejected as an outlier.", |m| {
            m.shown.ejections_total.into()
        }),
    ];
    for (name, help, value) in figures {
        let mut family = page.counter(name, help);
        for member in members {
            family.sample(&labels(member), value(member.1));
        }
    }
    let name = "sarabande_member_requests_total";
    let mut requests = page.counter(name, "Requests sent to it, repetitions included.");
    for member in members {
        for (method, count) in Method::ALL.into_iter().zip(member.1.stats.requests) {
            requests.sample(&with(labels(member), "method", method.name()), count);
        }
    }
    let name = "sarabande_member_responses_total";
    let mut responses = page.counter(name, "Responses that came from it, repetitions included.");
    for member in members {
        for (status, count) in member.1.stats.responses.iter() {
            responses.sample(&with(labels(member), "status", &status.to_string()), count);
        }
    }
    let name = "sarabande_member_transaction_ends_total";
    let mut ends = page.counter(name, "Transactions ended on it, by how.");
    for member in members {
        for (outcome, count) in ended(&member.1.stats) {
            ends.sample(&with(labels(member), "outcome", outcome), count);
        }
    }
    let name = "sarabande_member_invite_response_seconds";
    let mut invites = page.histogram(name, "Time from an INVITE to its 2xx.");
    for member in members {
        invites.buckets(&labels(member), &member.1.stats.invite_micros, &TIMES, MICROS_A_SECOND);
    }
    let mut byes = page.histogram("sarabande_member_bye_response_seconds", "Time from a BYE to its 2xx.");
    for member in members {
        byes.buckets(&labels(member), &member.1.stats.bye_micros, &TIMES, MICROS_A_SECOND);
    }
    let name = "sarabande_member_occupancy_transactions";
    let mut occupancy = page.histogram(name, "Open transactions that an arriving one found there.");
    for member in members {
        occupancy.buckets(&labels(member), &member.1.stats.occupancy, &OCCUPANCIES, 1.0);
    }
}
