//! Members and former members: state, load and counts of each.

use super::metric::{Buckets, figures};
use super::peer::PeerText;
use super::view::View;
use balance::{EndReason, Load, MemberRoom, NodeHistograms, NodeRefusal, NodeStats, NodeTotals, TimeSum};
use base::Instant;
use control::{ListedMember, MemberName};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use wire::Method;

figures! {
    /// `GET /api/members`. Drain and undrain answer with the members that the request named.
    MembersView as "Members" {
        /// Members, and former members until they are forgotten.
        members: Vec<MemberView>,
        /// Names that the configuration has as members, with the result of their look-up; empty for drain and undrain.
        names: Vec<NameView>,
    }
}

figures! {
    /// A name that the configuration has as a member.
    NameView as "Name" from (known: &MemberName) {
        /// The name in the configuration.
        name: String = known.name.clone(),
        /// Number of its addresses; 0 if none was ever found, so that the name stands for no member.
        addresses: usize = known.addresses => [
            gauge "sarabande_name_addresses" "Addresses that a member's name resolves to; 0 if it is not resolved."
        ],
        /// Error of the last look-up or of a part of it; `null` if there was none.
        error: Option<String> = known.error.clone() => [
            gauge "sarabande_name_failed" "1 if the last look-up of a member's name failed, in whole or in part."
            |name| name.error.is_some()
        ],
    }
}

figures! {
    /// One member or former member.
    MemberView as "Member" from (
        member: &ListedMember, view: &View, load: Load, room: Option<MemberRoom>, totals: NodeTotals,
        stats: Option<Box<NodeStats>>, oldest: Option<Instant>,
    ) {
        /// Name of the member in the configuration; without one its address or host name there.
        name: String = member.label.clone(),
        /// Address of the member: `10.0.0.1:5060` over UDP, and `10.0.0.1:5060;transport=tcp` over TCP.
        address: PeerText = member.peer.into(),
        /// Names of its pools, in their order; of a former member, the pools that still exist.
        pools: Vec<String> = view.named(&member.pools),
        /// State of the member: `up`, `slow-start`, `ejected`, `paused`, `full`, `limit` (as many unanswered requests
        /// as it may have), `max_rate` (as many new calls a second as it may get), `draining`, `off` (switched off by
        /// the scaler of its pool), `down` or `removed`.
        state: String = state(member, view.now, load, room).to_owned() => [
            gauge "sarabande_member_state" (state) "1 for the present state of the member."
            |member| BTreeMap::from([(&*member.state, 1)])
        ],
        /// Whether the configuration names it.
        member: bool = member.node.member,
        /// Whether the member counts as alive.
        reachable: bool = member.node.is_up()
            => [gauge "sarabande_member_reachable" "1 if the member counts as alive."],
        /// Whether the member answers OPTIONS probes; `null` until that is known.
        answers_probes: Option<bool> = member.node.answers_probes => [
            gauge "sarabande_member_answers_probes" "0 if the member answers calls but no OPTIONS probes."
            |member| member.answers_probes.filter(|answers| !answers)
        ],
        /// Whether the member takes new calls; also true if it is only at a limit, which `state` shows.
        accepting: bool = member.node.refusal(view.now, load.calls).is_none()
            => [gauge "sarabande_member_accepting" "1 if the member takes new calls."],
        /// Whether the member is drained, by an operator or by the scaler of its pool.
        draining: bool = member.node.draining
            => [gauge "sarabande_member_draining" "1 if an operator or a scaler drains the member."
            |member| some(u32::from(member.draining))],
        /// Whether the scaler of its pool drains the member, because the server is not meant to take calls. An operator
        /// cannot undo this drain.
        drained_by_scaler: bool = member.drains.scaler,
        /// Time until the pause that the member requested (503) ends; 0 for no pause.
        paused_seconds: f64 = member.node.paused_until.saturating_since(view.now).as_secs_f64(),
        /// Time until the member gets new calls again after outlier ejection; 0 if it is not ejected.
        ejected_seconds: f64 = member.node.ejected_until.saturating_since(view.now).as_secs_f64(),
        /// Number of ejections.
        ejections_total: u32 = member.node.ejections
            => [counter "sarabande_member_ejections_total" "Ejections of the member as an outlier."],
        /// Capacity in the configuration, relative to the other members.
        capacity: f64 = member.node.capacity
            => [gauge "sarabande_member_capacity" "Configured capacity, relative to the other members."],
        /// Present capacity, which is lower during the slow start.
        capacity_now: f64 = member.node.capacity_at(view.now)
            => [gauge "sarabande_member_capacity_now" "Present capacity, which is lower during the slow start."],
        /// Limit of calls in progress; 0 for no limit.
        max_calls: u32 = member.node.max_calls
            => [gauge "sarabande_member_calls_max" "Limit of calls in progress." |member| some(member.max_calls)],
        /// Limit of new calls a second; 0 for no limit.
        max_rate: u32 = member.node.max_rate
            => [gauge "sarabande_member_calls_per_second_max" "Limit of new calls a second."
            |member| some(member.max_rate)],
        /// Controller of the limit that is found from the member's answers; `null` if no such limit is used.
        limit_law: Option<String> = room.and_then(|room| room.law).map(|law| law.name().to_owned()),
        /// New requests without any answer, not even 100; `null` if no such limit is used.
        unanswered: Option<u32> = room.filter(|room| room.law.is_some()).map(|room| room.open) => [
            gauge "sarabande_member_unanswered" "New requests without any answer, not even 100."
        ],
        /// Limit of unanswered new requests, found from the delay of the member's answers; `null` while nothing limits
        /// them.
        limit: Option<u32> = room.and_then(|room| room.limit) => [
            gauge "sarabande_member_limit"
            "Limit of new requests without any answer; no value while nothing limits them."
        ],
        /// Seconds since this limit is in force; `null` without a limit.
        limited_seconds: Option<f64> = room.and_then(|room| room.limited_for).map(|time| time.as_secs_f64()),
        /// Most answers to new requests a second that the member has sent in the last 5 to 10 s. While the limit is in
        /// force, this is the believed capacity. `null` without such answers.
        answers_per_second: Option<f64> = room.and_then(|room| room.pace) => [
            gauge "sarabande_member_answers_per_second_max"
            "Most answers to new requests a second in the last 5 to 10 s: under a limit, the believed capacity."
        ],
        /// New requests that a limit kept from the member, by the kind of limit: `limit` (found from its answers) or
        /// `max_rate`. Another member got these requests, or they were refused.
        held_back: BTreeMap<String, u64> =
            NodeStats::LIMITS.iter().map(|by| by.name().to_owned()).zip(totals.held_back).collect() => [
            counter "sarabande_member_held_back_total" (limit)
            "New requests that a limit kept from the member, by the kind of limit."
            |member| counted(member.held_back.iter().map(|(by, count)| (&**by, *count)))
        ],
        /// New requests that were chosen for the member: those that it got, and those that its limits kept from it.
        offered_total: u64 = totals.assigned + totals.held_back.iter().sum::<u64>()
            => [counter "sarabande_member_offered_total" "New requests chosen for the member, including those that \
                its limits kept from it." |member| Some(member.offered_total).filter(|all| *all > member.assigned_total)],
        /// Calls in progress.
        calls: u32 = load.calls => [gauge "sarabande_member_calls" "Calls in progress."],
        /// Transactions without a final response.
        transactions: u32 = load.transactions
            => [gauge "sarabande_member_transactions_open" "Transactions without a final response."],
        /// Weighted work of the open transactions; a BYE is 1.
        work: f64 = work(load.work)
            => [gauge "sarabande_member_work" "Weighted work of the open transactions; a BYE is 1."],
        /// Calls and requests outside dialogs that were ever assigned to the member.
        assigned_total: u64 = totals.assigned
            => [counter "sarabande_member_assigned_total" "Calls and requests outside dialogs that were assigned to \
                the member."],
        /// Transactions that were ever opened with the member.
        transactions_total: u64 = totals.transactions
            => [counter "sarabande_member_transactions_total" "Transactions opened with the member."],
        /// Ended transactions, by reason.
        ended: BTreeMap<String, u64> =
            EndReason::ALL.iter().map(|reason| reason.name().to_owned()).zip(totals.ended).collect() => [
            counter "sarabande_member_transaction_ends_total" (outcome) "Ended transactions, by outcome."
            |member| (member.transactions_total > 0).then(|| member.ended.clone())
        ],
        /// Responses of the member by class, from `1xx` to `6xx`, retransmissions included.
        responses: BTreeMap<String, u64> =
            (1..).map(|class: u8| format!("{class}xx")).zip(totals.responses).collect(),
        /// Time from an INVITE to its 2xx.
        invite_ms: TimesView = TimesView::new(totals.invites, histograms(stats.as_deref()).map(|all| &all.invite_micros)),
        /// Time from a BYE to its 2xx.
        bye_ms: TimesView = TimesView::new(totals.byes, histograms(stats.as_deref()).map(|all| &all.bye_micros)),
        /// Open transactions with the member that each new transaction found.
        occupancy: OccupancyView = OccupancyView::new(histograms(stats.as_deref()).map(|all| &all.occupancy)),
        /// Age of the oldest call; `null` without calls, or if the query does not ask for it.
        oldest_call_seconds: Option<f64> =
            oldest.map(|began| view.now.saturating_since(began).as_secs_f64()),
        /// Result of the last probe, or why no connection for it could be opened; `null` before the first probe.
        last_probe: Option<String> = view.last_probe(member),
        /// Time since the member joined, or was last found dead or alive.
        since_change_seconds: f64 = view.now.saturating_since(member.last_change).as_secs_f64(),
        /// All counts of the member; `None` if the figures were read from JSON.
        #[serde(skip)]
        stats: Option<Box<NodeStats>> = stats => [
            counter "sarabande_member_requests_total" (method) "Requests sent to the member, retransmissions included."
            |member| member.stats.as_ref().map(|stats| {
                counted(Method::ALL.iter().map(|method| method.name()).zip(stats.requests))
            })
        ] => [
            counter "sarabande_member_responses_total" (status)
            "Responses from the member, retransmissions included."
            |member| member.stats.as_ref().map(|stats| stats.responses.iter().collect::<BTreeMap<_, _>>())
        ] => [
            histogram "sarabande_member_invite_response_seconds" "Time from an INVITE to its 2xx."
            |member| histograms(member.stats.as_deref()).map(|all| seconds(&all.invite_micros))
        ] => [
            histogram "sarabande_member_bye_response_seconds" "Time from a BYE to its 2xx."
            |member| histograms(member.stats.as_deref()).map(|all| seconds(&all.bye_micros))
        ] => [
            histogram "sarabande_member_occupancy_transactions"
            "Open transactions with the member that each new transaction found."
            |member| histograms(member.stats.as_deref()).map(|all| transactions(&all.occupancy))
        ],
    }
}

figures! {
    of NodeHistograms {
        invite_micros => [
            histogram "sarabande_pool_invite_response_seconds" "Time from an INVITE to its 2xx."
            |pool| seconds(&pool.invite_micros)
        ],
        bye_micros => [
            histogram "sarabande_pool_bye_response_seconds" "Time from a BYE to its 2xx."
            |pool| seconds(&pool.bye_micros)
        ],
        occupancy => [
            histogram "sarabande_pool_occupancy_transactions"
            "Open transactions with its member that each new transaction found."
            |pool| transactions(&pool.occupancy)
        ],
    }
}

fn histograms(stats: Option<&NodeStats>) -> Option<&NodeHistograms> {
    stats?.histograms.as_deref()
}

/// Returns the value of a metric that is left out while it is 0: most members of a large site need no line for it.
fn some(value: u32) -> Option<u32> {
    Some(value).filter(|value| *value > 0)
}

/// Returns the counts that are not 0.
fn counted<K: Ord>(counts: impl Iterator<Item = (K, u64)>) -> BTreeMap<K, u64> {
    counts.filter(|(_, count)| *count > 0).collect()
}

/// Upper bounds of response times in microseconds: from an answer over loopback to a callee whose phone rings.
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

/// Upper bounds of occupancy, in transactions.
const OCCUPANCIES: [u64; 13] = [0, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000];

fn seconds(micros: &Histogram<u32>) -> Buckets<'_> {
    Buckets { values: micros, bounds: &TIMES, unit: 1e6 }
}

fn transactions(seen: &Histogram<u32>) -> Buckets<'_> {
    Buckets { values: seen, bounds: &OCCUPANCIES, unit: 1.0 }
}

/// Converts the work in the session store, which is in thousandths.
pub(super) fn work(thousandths: u64) -> f64 {
    thousandths as f64 / 1000.0
}

/// Whether the member does not answer and its scaler wants it to have no calls. Its silence is then no fault.
pub(super) fn is_off(member: &ListedMember) -> bool {
    member.drains.scaler && !member.node.is_up()
}

/// Returns why the member takes no new call now; `None` if it takes one.
fn refusal(member: &ListedMember, now: Instant, load: Load, room: Option<MemberRoom>) -> Option<NodeRefusal> {
    member.node.refusal(now, load.calls).or_else(|| room?.refusal)
}

/// Returns the member's state, as [`MemberView::state`] explains it.
pub(super) fn state(
    member: &ListedMember,
    now: Instant,
    load: Load,
    room: Option<MemberRoom>,
) -> &'static str {
    let node = &member.node;
    match refusal(member, now, load, room) {
        Some(NodeRefusal::Unreachable) if is_off(member) => "off",
        Some(NodeRefusal::Unreachable) => "down",
        Some(refusal) => refusal.name(),
        None if node.capacity_at(now) < node.capacity => "slow-start",
        None => "up",
    }
}

figures! {
    /// Response times in milliseconds, exact to 1 %; `null` if there are none. A brief answer has only `count` and `mean`.
    #[derive(Copy)]
    TimesView as "Times" {
        /// Number of response times.
        count: u64,
        /// Mean.
        mean: Option<f64>,
        /// Median.
        p50: Option<f64>,
        /// 90th percentile.
        p90: Option<f64>,
        /// 99th percentile.
        p99: Option<f64>,
        /// Longest time.
        max: Option<f64>,
    }
}

impl TimesView {
    fn new(sum: TimeSum, micros: Option<&Histogram<u32>>) -> Self {
        let micros = micros.filter(|micros| !micros.is_empty());
        let at = |quantile| micros.map(|micros| micros.value_at_quantile(quantile) as f64 / 1000.0);
        Self {
            count: sum.count,
            mean: sum.mean_ms(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: micros.map(|micros| micros.max() as f64 / 1000.0),
        }
    }
}

figures! {
    /// Occupancy in transactions; `null` if no transaction has arrived, or in a brief answer.
    #[derive(Copy)]
    OccupancyView as "Occupancy" {
        /// Mean.
        mean: Option<f64>,
        /// Median.
        p50: Option<u64>,
        /// 90th percentile.
        p90: Option<u64>,
        /// 99th percentile.
        p99: Option<u64>,
        /// Largest value.
        max: Option<u64>,
    }
}

impl OccupancyView {
    fn new(seen: Option<&Histogram<u32>>) -> Self {
        let seen = seen.filter(|seen| !seen.is_empty());
        let at = |quantile| seen.map(|seen| seen.value_at_quantile(quantile));
        Self { mean: seen.map(Histogram::mean), p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1.0) }
    }
}
