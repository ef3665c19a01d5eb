//! The shapes of the admin interface's JSON. Times are seconds unless the name says otherwise.

mod capacity;
mod contacts;
mod health;
mod queue;
mod registrar;
mod scale;

pub use capacity::{CapacityView, MemberCapacityView};
pub use contacts::{ContactView, ContactsView};
pub use health::{HealthView, PoolHealth};
pub use queue::{QueueMemberView, QueueView};
pub use registrar::{LogInsView, LookUpsView, RegistrarView, RegistrationsView, StoreView};
pub use scale::{ScaleDecisions, ScaleView, ScaledServer, ScalesView};

use crate::records::RecordCounts;
use crate::{CandidateReport, ExplainReport, PassedOverReport, SessionReport};
use balance::{EndReason, NodeStats, SessionState};
use dialog::CallCounts;
use hdrhistogram::Histogram;
use node::{ProxyReport, RouteTaken, SharingReport};
use route::Step;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// `GET /api/members`; drain and undrain answer with the members that were meant.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Members"))]
pub struct MembersView {
    /// Former members too, until they are forgotten.
    pub members: Vec<MemberView>,
    /// How the names stand that the configuration has as members; not of drain and undrain.
    pub names: Vec<NameView>,
}

/// A name that the configuration has as a member.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Name"))]
pub struct NameView {
    /// As the configuration has it.
    pub name: String,
    /// How many addresses it stands for; 0 if none was ever found, and so it stands for no member.
    pub addresses: usize,
    /// How the last look-up failed, or a part of it; `null` if it did not.
    pub error: Option<String>,
}

/// One member or former member.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[expect(clippy::struct_excessive_bools, reason = "four different things that users ask for")]
#[cfg_attr(test, schemars(rename = "Member"))]
pub struct MemberView {
    /// As the configuration names it.
    pub name: String,
    /// Where it is.
    pub address: SocketAddr,
    /// Names of the pools that it is in, in their order; of a former member those that are still there.
    pub pools: Vec<String>,
    /// `up`, `slow-start`, `ejected`, `paused`, `full`, `draining`, `off` (down by the will of its scaler), `down` or `removed`.
    pub state: String,
    /// Whether the configuration names it.
    pub member: bool,
    /// Whether it counts as alive.
    pub reachable: bool,
    /// Whether it answers OPTIONS probes; `null` until that is known.
    pub answers_probes: Option<bool>,
    /// Whether it takes new calls now.
    pub accepting: bool,
    /// Whether it is drained, by an operator or by the scaler of its pool.
    pub draining: bool,
    /// Whether the scaler of its pool drains it: it is no server that is to take calls. An operator cannot take that back.
    pub drained_by_scaler: bool,
    /// Until the pause that it asked for (503) ends; 0 for none.
    pub paused_seconds: f64,
    /// Until it gets new calls again, after it failed what others do not; 0 if it is not ejected.
    pub ejected_seconds: f64,
    /// How often it has been ejected.
    pub ejections_total: u32,
    /// Configured capacity, relative to the other members.
    pub capacity: f64,
    /// Capacity now: less in the slow start.
    pub capacity_now: f64,
    /// Most calls at a time; 0 for no limit.
    pub max_calls: u32,
    /// Calls in progress.
    pub calls: u32,
    /// Transactions without a final response.
    pub transactions: u32,
    /// Weighted work of these transactions; a BYE is 1.
    pub work: f64,
    /// Calls and dialog-less requests ever given to it.
    pub assigned_total: u64,
    /// Transactions ever opened on it.
    pub transactions_total: u64,
    /// Ended transactions by reason.
    pub ended: BTreeMap<String, u64>,
    /// From an INVITE to its 2xx.
    pub invite_ms: TimesView,
    /// From a BYE to its 2xx.
    pub bye_ms: TimesView,
    /// Transactions that an arriving one found there.
    pub occupancy: OccupancyView,
    /// Age of its oldest call; `null` without calls, and unless asked for.
    pub oldest_call_seconds: Option<f64>,
    /// What decided the last probe; `null` before the first.
    pub last_probe: Option<String>,
    /// Since it was last found dead or back, or joined.
    pub since_change_seconds: f64,
}

/// Response times in milliseconds; `null` when there are none. Good to 1 %.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Times"))]
pub struct TimesView {
    /// How many.
    pub count: u64,
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// Longest.
    pub max: Option<f64>,
}

/// Occupancy in transactions; `null` when none has arrived.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Occupancy"))]
pub struct OccupancyView {
    /// Mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// Most.
    pub max: Option<u64>,
}

/// `GET /api/sessions`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sessions {
    /// In progress, all shards.
    pub active: usize,
    /// Ended, kept for late messages.
    pub expired: usize,
    /// Transactions without a final response.
    pub transactions: usize,
    /// The same for each thread.
    pub shards: Vec<ShardView>,
}

/// One thread's part.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Shard"))]
pub struct ShardView {
    /// In progress.
    pub active: usize,
    /// Ended, kept for late messages.
    pub expired: usize,
    /// Transactions without a final response.
    pub transactions: usize,
}

/// `GET /api/sessions?call_id=X`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Session {
    /// The Call-ID asked for.
    pub call_id: String,
    /// Address of its member.
    pub member: SocketAddr,
    /// `plain`, `invited`, `answered`, `confirmed`, `closing` or `expired`.
    pub state: String,
    /// Since its first message.
    pub age_seconds: f64,
    /// Whether it counts as a call: it began with an INVITE.
    pub is_call: bool,
}

/// `GET /api/proxy`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Proxy"))]
pub struct ProxyView {
    /// Where requests go.
    pub next: Vec<NextHop>,
    /// Transactions there are, those included that have ended and are kept for late messages.
    pub transactions: usize,
    /// Most transactions at a time.
    pub max_transactions: usize,
    /// Bytes of memory that they and their messages take.
    pub memory_bytes: usize,
    /// Most bytes of memory for them.
    pub max_memory_bytes: usize,
    /// Requests without a final response.
    pub unanswered: usize,
    /// Requests that began a transaction and were forwarded.
    pub forwarded_total: u64,
    /// Requests sent to another next hop because one had failed.
    pub retried_total: u64,
    /// ACKs and other requests forwarded without a transaction.
    pub stateless_total: u64,
    /// Responses relayed.
    pub relayed_total: u64,
    /// Branches that requests had beyond their first one: further next hops, members, or contacts of a user.
    pub forked_total: u64,
    /// Groups of branches that were given up after their ring time.
    pub rung_out_total: u64,
    /// CANCELs sent to next hops.
    pub cancelled_total: u64,
    /// Requests that the proxy has answered itself with 300 or more, and a transaction.
    pub refused_total: u64,
    /// Responses that answered nothing: dropped.
    pub stray_total: u64,
    /// Of calls whose state is shared out with neighbours (`[distribution]`); `null` where none is.
    pub distribution: Option<DistributionView>,
    /// Of calls whose dialogs are kept (`forward = "dialog"`); `null` where none are.
    pub calls: Option<CallsView>,
}

/// Calls whose dialogs are kept, and their records.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Calls"))]
pub struct CallsView {
    /// Calls that are not answered yet.
    pub ringing: usize,
    /// Calls that are answered and go on.
    pub answered: usize,
    /// Calls that are over as far as somebody has said: they are watched, and what is heard of them yet reopens them.
    pub watched: usize,
    /// Bytes of memory that calls take, those included that have just ended.
    pub memory_bytes: usize,
    /// Calls refused for want of room.
    pub refused_total: u64,
    /// Calls from before a restart that were found again.
    pub found_again_total: u64,
    /// Calls ended because they took as long as a call may.
    pub time_limit_total: u64,
    /// Calls ended because their session was not refreshed.
    pub session_expired_total: u64,
    /// Calls ended because nothing was heard of them.
    pub lost_total: u64,
    /// Calls reopened: they went on after an end that nothing proved.
    pub reopened_total: u64,
    /// Records of calls.
    pub records_total: u64,
    /// Records that were thrown away, since there was no room for them for so long.
    pub records_lost_total: u64,
    /// Records that the database refuses, whatever is tried.
    pub records_refused_total: u64,
    /// Bytes of records that wait for room on the disk.
    pub records_waiting_bytes: usize,
    /// Why records cannot be written, or why the database takes none; `null` when all is well.
    pub records_trouble: Option<String>,
}

impl CallsView {
    fn new(counts: CallCounts, records: RecordCounts) -> Self {
        Self {
            ringing: counts.ringing,
            answered: counts.answered,
            watched: counts.watched,
            memory_bytes: counts.memory,
            refused_total: counts.refused,
            found_again_total: counts.found,
            time_limit_total: counts.limited,
            session_expired_total: counts.expired,
            lost_total: counts.lost,
            reopened_total: counts.reopened,
            records_total: records.written,
            records_lost_total: records.lost,
            records_refused_total: records.refused,
            records_waiting_bytes: records.waiting,
            records_trouble: records.trouble,
        }
    }
}

/// What became of requests that began something.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Distribution"))]
pub struct DistributionView {
    /// Forwarded with a transaction here.
    pub kept_total: u64,
    /// Forwarded without one, for a proxy behind to keep.
    pub passed_open_total: u64,
    /// Forwarded without one, since a proxy before keeps it.
    pub passed_kept_total: u64,
    /// How busy the process was in the last second, as part of the processor time that it may use.
    pub utilisation: f64,
    /// Neighbours that are told to send no more calls without state.
    pub throttled_neighbours: usize,
}

impl From<SharingReport> for DistributionView {
    fn from(report: SharingReport) -> Self {
        Self {
            kept_total: report.kept,
            passed_open_total: report.passed_open,
            passed_kept_total: report.passed_kept,
            utilisation: report.utilisation,
            throttled_neighbours: report.throttled,
        }
    }
}

/// One next hop.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NextHop {
    /// Where it is.
    pub address: SocketAddr,
    /// Whether it has failed and is the last to be asked.
    pub resting: bool,
}

impl ProxyView {
    /// Of these transactions, and the next hops with whether each rests.
    pub(super) fn new(
        report: &ProxyReport,
        hops: &[(SocketAddr, bool)],
        records: Option<&RecordCounts>,
    ) -> Self {
        let counters = &report.counters;
        let next = hops.iter().map(|&(address, resting)| NextHop { address, resting });
        Self {
            next: next.collect(),
            transactions: report.transactions,
            max_transactions: report.limits.transactions,
            memory_bytes: report.memory,
            max_memory_bytes: report.limits.memory,
            unanswered: report.unanswered,
            forwarded_total: counters.forwarded,
            retried_total: counters.retried,
            stateless_total: counters.stateless,
            relayed_total: counters.relayed,
            forked_total: counters.forked,
            rung_out_total: counters.rung_out,
            cancelled_total: counters.cancelled,
            refused_total: counters.refused,
            stray_total: counters.stray,
            distribution: report.sharing.map(DistributionView::from),
            calls: report.calls.map(|calls| CallsView::new(calls, records.cloned().unwrap_or_default())),
        }
    }
}

/// `POST /api/reload`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Reloaded {
    /// What changed in the file but needs a restart.
    pub needs_restart: Vec<String>,
}

/// `POST /api/restart`
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Restarting {
    /// Another process has been started, which takes over.
    pub restarting: bool,
}

/// `POST /api/stop`
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Stopping {
    /// No new calls are taken.
    pub stopping: bool,
}

/// `POST /api/explain`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Explanation"))]
pub struct ExplanationView {
    /// The member that the request would go to; `null` when to none.
    pub member: Option<SocketAddr>,
    /// `policy`, `queue`, `session`, `token` or `moved`; or what would happen instead: `waits` (in the queue of its pool),
    /// `full` (no room in that), `located`, `outside`, `search`, `rejected`, `dropped`, `unavailable`.
    pub why: String,
    /// The user to whose contacts it would go (`located`), as USER@DOMAIN; `null` otherwise.
    pub user: Option<String>,
    /// These contacts, those first that are tried first; empty where nobody has registered.
    pub contacts: Vec<ContactView>,
    /// Where it would go that a member sends to others than a pool (`outside`); `null` otherwise.
    pub outside: Option<SocketAddr>,
    /// The route that it goes by; `null` without one.
    pub route: Option<Route>,
    /// Pools of the route that were asked before, and took nothing.
    pub passed_over: Vec<PassedOverView>,
    /// The pool whose policy chose, or that took nothing; `null` where none was asked.
    pub pool: Option<String>,
    /// Name of the policy of the pool that the request is for.
    pub policy: String,
    /// Whether the call is in the session table.
    pub known: bool,
    /// The member that a verified token in the request names.
    pub token: Option<SocketAddr>,
    /// Every member as the policy sees it.
    pub candidates: Vec<CandidateView>,
}

/// The route of a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Route {
    /// Its name; `route-2` is the second one if it has none in the file.
    pub name: String,
    /// What it does to the request first, in this order.
    pub rewrites: Vec<RewriteView>,
    /// The Request-URI that comes of it; `null` where it stays as it is.
    pub request_uri: Option<String>,
}

/// One thing that a route does to a request; `before` and `after` are `null` where it leaves this one as it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Rewrite"))]
pub struct RewriteView {
    /// In the words of the configuration.
    pub action: String,
    /// The Request-URI, or the values of the header field, before it; `null`: there was none.
    pub before: Option<String>,
    /// The same after it; `null`: there is none.
    pub after: Option<String>,
}

impl From<RouteTaken> for Route {
    fn from(RouteTaken { name, steps, uri, .. }: RouteTaken) -> Self {
        let rewrite = |Step { action, before, after }| RewriteView { action, before, after };
        Self { name, rewrites: steps.into_iter().map(rewrite).collect(), request_uri: uri }
    }
}

/// A pool of the route that takes nothing, so that the request goes on to the next one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "PassedOver"))]
pub struct PassedOverView {
    /// Its name.
    pub pool: String,
    /// Why, as `failover.on` has it: `dead` (no member takes calls) or `full`.
    pub why: String,
    /// Its members; where one takes calls, the pool has as many sessions as it may.
    pub candidates: Vec<CandidateView>,
}

/// One member at the moment of a choice.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Candidate"))]
pub struct CandidateView {
    /// Its address.
    pub member: SocketAddr,
    /// Calls in progress, all threads.
    pub calls: u32,
    /// Transactions without a final response.
    pub transactions: u32,
    /// Weighted work; a BYE is 1.
    pub work: f64,
    /// Capacity now.
    pub capacity: f64,
    /// Why it takes no new call; `null` if it does.
    pub refusal: Option<String>,
}

/// Work in the session store is in thousandths.
pub(crate) fn work(thousandths: u64) -> f64 {
    thousandths as f64 / 1000.0
}

/// Ended transactions by the name of the reason.
pub(crate) fn ended(stats: &NodeStats) -> impl Iterator<Item = (&'static str, u64)> {
    EndReason::ALL.iter().map(|reason| reason.name()).zip(stats.ended)
}

impl From<&Histogram<u32>> for TimesView {
    fn from(micros: &Histogram<u32>) -> Self {
        let milliseconds = |value: u64| (!micros.is_empty()).then_some(value as f64 / 1000.0);
        Self {
            count: micros.len(),
            p50: milliseconds(micros.value_at_quantile(0.5)),
            p90: milliseconds(micros.value_at_quantile(0.9)),
            p99: milliseconds(micros.value_at_quantile(0.99)),
            max: milliseconds(micros.max()),
        }
    }
}

impl From<&Histogram<u32>> for OccupancyView {
    fn from(seen: &Histogram<u32>) -> Self {
        let at = |quantile| (!seen.is_empty()).then(|| seen.value_at_quantile(quantile));
        Self {
            mean: (!seen.is_empty()).then(|| seen.mean()),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}

impl FromIterator<ShardView> for Sessions {
    fn from_iter<I: IntoIterator<Item = ShardView>>(shards: I) -> Self {
        let shards: Vec<_> = shards.into_iter().collect();
        Self {
            active: shards.iter().map(|shard| shard.active).sum(),
            expired: shards.iter().map(|shard| shard.expired).sum(),
            transactions: shards.iter().map(|shard| shard.transactions).sum(),
            shards,
        }
    }
}

impl Session {
    pub(super) fn new(call_id: String, report: &SessionReport) -> Self {
        let state = match report.state {
            SessionState::Plain => "plain",
            SessionState::Invited => "invited",
            SessionState::Answered => "answered",
            SessionState::Confirmed => "confirmed",
            SessionState::Closing => "closing",
            SessionState::Expired => "expired",
        };
        let (member, state) = (report.node, state.to_owned());
        Self { call_id, member, state, age_seconds: report.age_seconds, is_call: report.is_call }
    }
}

impl From<CandidateReport> for CandidateView {
    fn from(CandidateReport { member, load, capacity, refusal }: CandidateReport) -> Self {
        Self {
            member,
            calls: load.calls,
            transactions: load.transactions,
            work: work(load.work),
            capacity,
            refusal: refusal.map(str::to_owned),
        }
    }
}

impl From<PassedOverReport> for PassedOverView {
    fn from(PassedOverReport { pool, why, candidates }: PassedOverReport) -> Self {
        let candidates = candidates.into_iter().map(CandidateView::from).collect();
        Self { pool, why: why.to_owned(), candidates }
    }
}

impl From<ExplainReport> for ExplanationView {
    fn from(report: ExplainReport) -> Self {
        let (user, contacts) = report.located.map_or((None, Vec::new()), |(aor, found)| {
            let user = String::from_utf8_lossy(aor.bare()).into_owned();
            (Some(user), ContactView::list(&found.there, found.date))
        });
        Self {
            member: report.node,
            why: report.why.to_owned(),
            user,
            contacts,
            outside: report.outside,
            route: report.route.map(Route::from),
            passed_over: report.passed_over.into_iter().map(PassedOverView::from).collect(),
            pool: report.pool,
            policy: report.policy.to_owned(),
            known: report.known,
            token: report.token,
            candidates: report.candidates.into_iter().map(CandidateView::from).collect(),
        }
    }
}
