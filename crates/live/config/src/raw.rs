//! Keys of the configuration file: the only place where they are declared.
//!
//! The parser, the JSON schema, the reference and the defaults are all made from these declarations (see
//! [`table`](crate::table)). Field names are the keys, and doc comments are the text of the reference. Notes for
//! developers are `//` comments.

mod calls;
mod hep;
mod listen;
mod protection;
mod queue;
mod registrar;
mod routes;
mod scale;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;

use crate::document::{self, FileKind};
use crate::kind::{
    AdminListen, BearerText, CallRate, CapacityListen, Choice, Count, DAY, DnsServer, FeedbackName, Flag,
    GIB, HOUR, HopAddress, KeyPath, KeyText, MIB, MINUTE, MemberAddress, MemberLabel, NetworkText,
    PolicyName, Ratio, SECOND, Share, Shared, Size, Time, YEAR,
};
use crate::scenario::ScenarioLocal;
use crate::setting::{Entry, Item, Setting, Short};
use crate::table::{NAME, REQUIRED};
use crate::typed::{AdminPage, Level, LogFormat};
use ::route::{Dialogs, Fork, Forward, INVITE_TIMEOUT, RING_TIME};
use balance::{HealthSettings, Weights};
pub(crate) use calls::*;
use control::ProbeSettings;
use distribute::{DistributionSettings, ShareLaw};
pub(crate) use hep::*;
pub(crate) use listen::*;
use node::{Distribution, ProxySettings};
pub(crate) use protection::*;
pub(crate) use queue::*;
pub(crate) use registrar::*;
pub(crate) use routes::*;
pub(crate) use scale::*;

/// Longest wait for the first response; zero: no limit.
pub(crate) type InviteTimeout = Setting<Time<0, { 30 * SECOND }>>;

/// Work of each method, relative to a BYE.
pub(crate) type RawWeights = BTreeMap<String, Setting<Ratio>>;

/// A secret, or a table with the file that holds it.
pub(crate) type Secret<K> = Entry<K, RawSecretFile>;

/// Default weights in the notation of the file.
pub(crate) fn usual_weights() -> String {
    format!("{{ INVITE = {}, BYE = 1.0 }}", Weights::INVITE)
}

table! {
    /// A complete configuration file of Sarabande.
    struct RawConfig where {
        "title": "Sarabande configuration",
        "anyOf": [
            { "required": ["pool"] },
            { "required": ["proxy"] },
            { "required": ["route"] },
            { "required": ["registrar"] },
        ],
    } {
        listen: RawListen => REQUIRED,
        connections: RawConnections,
        tls: Option<RawTls>,
        // Each table below `pool` is a pool.
        pool: BTreeMap<String, RawPool> where { "minProperties": 1, "propertyNames": { "pattern": NAME } },
        proxy: Option<RawProxy>,
        distribution: Option<RawDistribution>,
        calls: Option<RawCalls>,
        route: Vec<RawRoute>,
        registrar: Option<RawRegistrar>,
        access: RawAccess,
        overload: RawOverload,
        timers: RawTimers,
        token: RawToken,
        admin: RawAdmin,
        capacity: Option<RawCapacity>,
        hep: Option<RawHep>,
        log: RawLog,
        stop: RawStop,
        dns: RawDns,
    }

    let HealthSettings { slow_start, max_rest, ejects, .. } = HealthSettings::default();

    /// A group of servers that share calls. `<name>` (letters, digits, `-`, `_`) is the label `pool` in metrics. A
    /// single pool gets all requests; with several pools, `[[route]]` rules choose one.
    struct RawPool {
        /// Policy that chooses the member for a new call. `round-robin`: in turn. `hash`, `fnv-hash`: by Call-ID; only
        /// `hash` keeps most calls in place if members change. `cjsq`: fewest calls; choose it if a call costs its
        /// server as long as it lasts, as media does. `tjsq`: fewest transactions. `tlwl`, the same as `tlwl-1.75`:
        /// least work left; `tlwl-2` counts an INVITE as two BYEs. `rwma`: shortest response time.
        policy: Setting<Choice<PolicyName>> = PolicyName::default(),
        /// The servers, at least one: addresses, or tables with address, capacity and limits. Default: UDP, port 5060
        /// (TLS: 5061). A host name stands for all its A and AAAA records, an SRV name (`_sip._udp.`, `_sip._tcp.` or
        /// `_sips._tcp.`) for all its targets. TCP and TLS need a listener of the same transport; requests leave from
        /// its address.
        members: Vec<Item<RawMember>> where { "minItems": 1 } => REQUIRED,
        /// Work per method, relative to a BYE, by upper-case name; without an entry 1.0, INVITE 1.75. Set it if you
        /// have measured other costs on your servers. Only with policy `tlwl`, and the same in all pools with it. Not
        /// for ACK, and methods that no SIP RFC defines.
        weights: RawWeights => usual_weights(),
        /// How requests are forwarded. `"transaction"`: this process answers 100, retransmits, and tries another member
        /// after a 503 or without a response, within the limits of `[proxy]`. `"stateless"` takes less processor time,
        /// but only UAC and UAS retransmit, no other member is tried, and all clients and members must use UDP.
        /// `"dialog"`: as `"transaction"`, with the state of each call for limits and call records (`[calls]`).
        /// `"distributed"`: one of the proxies of `[distribution]` on the path keeps the transactions of a call, and
        /// with `shares` its dialogs. The last two need `dialogs = "route"`.
        forward: Setting<Choice<Forward>> = Forward::default(),
        /// Target of requests within dialogs: the `"member"` of the first request, or their `"route"`, for servers that
        /// may leave it. With `"route"` members are next hops: requests from them are treated like those of any sender,
        /// and `policy = "hash"` without `max_calls` keeps no state of calls. With `forward = "stateless"`, `"route"`
        /// needs this policy.
        dialogs: Setting<Choice<Dialogs>> = Dialogs::default(),
        /// Members that get a request outside dialogs. `"none"`: one. `"parallel"`: all at once (ring group).
        /// `"sequential"`: one after the other in the order of `policy` (hunt group). The first member to accept an
        /// INVITE gets the call, and the others are cancelled. If all fail, the next pool of the route is tried, or the
        /// best response is sent back (RFC 3261 §16.7). Needs `forward = "transaction"` or `"dialog"`, and `dialogs =
        /// "route"`; not with `max_calls`.
        fork: Setting<Choice<Fork>> = Fork::default(),
        /// Time that members ring before they are cancelled and the next member or pool is tried; the last ones ring
        /// until `timer_c` of `[proxy]`. Only with `fork`. Set it higher if people need longer to reach their phones.
        ring_time: Setting<Time<SECOND, HOUR>> = RING_TIME,
        /// Longest wait for the first response to an INVITE, 100 included, before another member or the next pool of
        /// the route gets it as well; `"0s"`: until the transaction times out, after 64 * `t1`. The first member to
        /// answer anything but 503 gets the call; each further member takes a retry from the budget of the route. Set
        /// it to `"0s"`, or longer than a phone rings, for next hops without 100, such as stateless proxies. Not with
        /// `forward = "stateless"` or `fork`.
        invite_timeout: InviteTimeout = INVITE_TIMEOUT,
        /// Whether this process adds a Record-Route and so stays on the path of new dialogs. Set it to `false` to save
        /// the work of requests within dialogs; a call then counts as load only until it is answered. `false` needs
        /// `dialogs = "route"`, and excludes `max_calls`, `policy = "cjsq"` and `scale`.
        record_route: Setting<Flag> = true,
        /// Time in which the load of a server that came back rises from 10 % to 100 % of its capacity; `"0s"`: no slow
        /// start. Set it higher for servers that are slow until their caches are filled.
        slow_start: Setting<Time<0, DAY>> = slow_start,
        /// Longest time without new calls after a member answered 503, whatever its Retry-After says. If no member
        /// takes calls, such a member gets single trial calls after 10 s, and takes calls again if it answers. Set it
        /// lower if your servers send a long Retry-After for a short overload.
        max_rest: Setting<Time<SECOND, DAY>> = max_rest,
        /// Most calls at a time on each member without its own limit, over all threads; 0: no limit. An INVITE above
        /// the limit goes to another member; requests that start no call are not limited. Set it if a server has a
        /// fixed number of channels.
        max_calls: Setting<Count<0, { u32::MAX }>> = 0,
        /// Most new calls a second on each member without its own limit, over all threads; 0: no limit. The calls of
        /// half a second may come at once. An INVITE above the limit goes to another member, or is refused as under
        /// `overload`. Set it if a stress test gave the capacity of your servers.
        max_rate: Setting<Count<0, { u32::MAX }>> = 0,
        /// Most sessions over all threads, the same number in all pools. A session takes about 120 bytes, and 100 more
        /// until the call is answered. Above the limit the oldest ended sessions are dropped, then the oldest without
        /// any response; if all ring or are answered, new calls get 503. Set it to the highest number of calls that you
        /// expect.
        max_sessions: Setting<Count<1000, { u32::MAX }>> = balance::SessionSettings::MAX_SESSIONS as u32,
        probe: RawProbe,
        /// Whether a failing member is ejected: it gets no new calls for 10 s, then 20 s, up to 5 minutes. It fails after
        /// five failures in a row while others answer, or with a much higher share of failures than the others
        /// (`docs/policies.md`). Switch it off if one member alone serves calls that usually fail.
        outlier: Setting<Flag> = ejects,
        overload: RawProtection,
        queue: Option<RawQueue> => "none",
        scale: Option<RawScale>,
    }

    /// One server, or one name that stands for several.
    struct RawMember {
        /// Address or name of the server.
        address: Option<Setting<MemberAddress>> => REQUIRED,
        /// Name of the server in status, page, metrics, log and commands. Set it if the address says little.
        name: Option<Setting<MemberLabel>> => "its address",
        /// Capacity relative to the other members. With 2, a member gets twice the work of a member with 1. Set it if
        /// your servers differ in speed.
        capacity: Setting<Ratio> = 1.0,
        /// Most calls at a time, over all threads; 0: no limit. Set it if this server differs from the rest of the
        /// pool.
        max_calls: Option<Setting<Count<0, { u32::MAX }>>> => "`max_calls` of the pool",
        /// Most new calls a second, over all threads; 0: no limit. Set it if this server differs from the rest of the
        /// pool.
        max_rate: Option<Setting<Count<0, { u32::MAX }>>> => "`max_rate` of the pool",
    }

    let ProxySettings { timers, limits } = ProxySettings::default();

    /// A proxy that forwards to next hops, by default with transactions and Record-Route. Without `[[route]]` it takes
    /// the place of a pool. With routes, its next hops are the pool `proxy`, and its limits and `timer_c` apply to all
    /// requests with transactions.
    struct RawProxy {
        /// Next hops of requests that belong to no dialog of this proxy: one to 64, or none with routes. Default: UDP,
        /// port 5060 (TLS: 5061). The Call-ID decides which one is first; the next one is tried after a 503, an error,
        /// or no answer to an INVITE in time. Then the failed one is tried last: if unreachable, for 64 * 500 ms or
        /// until it answers a probe; after 503 to half of its new requests, for its Retry-After, or 2 s.
        next: Vec<Setting<HopAddress>> where { "maxItems": 64 } => "none, with routes",
        /// As `forward` of a pool. With `"stateless"` no state is kept, and no other next hop is tried.
        forward: Setting<Choice<Forward>> = Forward::Transaction,
        /// As `record_route` of a pool.
        record_route: Setting<Flag> = true,
        /// As `invite_timeout` of a pool.
        invite_timeout: InviteTimeout = INVITE_TIMEOUT,
        /// Longest time that an INVITE may ring before it is cancelled, Timer C of RFC 3261 §16.6: more than three
        /// minutes and 64 * `t1`. Without transactions an unanswered INVITE counts as load for this time. Set it higher
        /// if calls may wait long for an answer, as in a call centre. A reload does not change it.
        timer_c: Setting<Time<{ 3 * MINUTE + SECOND }, DAY>> = timers.c,
        /// Most transactions at a time; above it new requests get 503. A request in progress has two, until up to 32 s
        /// after its end; a call may begin four within dialogs, for which the limit is a quarter higher. Set it higher
        /// if the process refuses calls with 503 and memory is left.
        max_transactions: Setting<Count<1000, { u32::MAX }>> = limits.transactions as u32,
        /// Most memory for transactions and their messages, over all threads, at least 16 MiB each; above it new
        /// requests get 503, and within dialogs above a quarter more. A request may be as long as 1/256 of the memory
        /// that its thread has left; a refused short request gets a Retry-After of 10 s. Set it to what the machine can
        /// spare beside the process itself and the index of transactions.
        max_memory: Setting<Size<{ 16 * MIB }, { 1024 * GIB }>> = limits.memory,
    }

    let DistributionSettings { law, keep, period, high, low, delta_c, .. } = Distribution::default().settings;

    /// Proxies in a chain divide among them which proxy keeps the transactions of a call. For pools with
    /// `forward = "distributed"`.
    struct RawDistribution {
        /// Addresses or networks of the proxies before and behind this one that take part, at least one. Their Via
        /// parameters about kept calls and load are trusted, so no caller may be able to send from these addresses.
        neighbours: Vec<Setting<NetworkText>> where { "minItems": 1 } => REQUIRED,
        /// State that the proxies divide; the same at all of them. `"transaction"`: the transactions of calls.
        /// `"dialog"`: also their dialogs, with session timers and the call record (`[calls]`); pools of next hops
        /// without dialogs may then lead to `neighbours` only, and `[registrar]` needs `forward = "dialog"` or
        /// `"distributed"`. `"authentication"`: the verification of callers by a route with `authenticate` to next
        /// hops. It needs `users` and `trusted` of `[registrar]`, with the neighbours in `trusted`, and the same `key`
        /// of `[token]`.
        shares: Vec<Setting<Choice<Shared>>> = vec![Shared::Transaction],
        /// Law of the share of a proxy. `"level"`: all proxies that can help are equally busy. `"paper"`: the additive
        /// decrease of the SERvartuka paper. `"fixed"`: always `keep`; choose it with shares that `sarabande plan`
        /// computed.
        law: Setting<Choice<ShareLaw>> = law,
        /// Share of the calls without transactions to a neighbour whose transactions are kept here. Only with the law
        /// `"fixed"`; `sarabande plan` computes such shares.
        keep: Setting<Share<0, 1000>> = keep,
        /// Time over which a proxy counts calls before it corrects its share and reports its load to the proxies before
        /// it. About the same at all proxies: a report is valid for 3.5 periods, and at least 3.5 s. Set it higher at a
        /// proxy with few calls a second, for steadier shares.
        period: Setting<Time<200, MINUTE>> = period,
        /// Load above which a proxy gives calls away, as a share of the processor time that it may use. Set it lower to
        /// keep a reserve for bursts.
        high: Setting<Share<100, 1000>> = high,
        /// Load of all proxies behind below which they get more calls again; at most `high`. Set it further below
        /// `high` if the shares oscillate.
        low: Setting<Share<100, 1000>> = low,
        /// Further calls a second that a proxy gives away in each `period` in which it is too busy. Only with the law
        /// `"paper"`. Set it to a small part of the calls that the proxy carries.
        delta_c: Setting<CallRate<1>> = delta_c,
        /// Calls a second that this proxy carries with the transactions of all, over all threads. Set it and
        /// `stateless` if other programs use the same processors: the load is then computed from the calls.
        stateful: Option<Setting<CallRate<1>>> => "the load is measured",
        /// Calls a second that this proxy carries without transactions, over all threads; at least `stateful`.
        stateless: Option<Setting<CallRate<1>>> => "the load is measured",
        /// Additional cost of a call that is challenged and verified, relative to a call without authentication. Only
        /// with `"authentication"`.
        authentication_cost: Setting<Share<10, 10_000>> = 1.0,
    }

    let HealthSettings { regular, fall, .. } = HealthSettings::default();
    let ProbeSettings { interval, timeout, .. } = ProbeSettings::default();

    /// Health checks: an OPTIONS to each member. Any final response but 503 is good. A member that answers calls but no
    /// probes is dead only if it leaves calls unanswered or its port is closed.
    struct RawProbe {
        /// Whether each server is probed regularly. If not, a server is probed only after an unanswered request or a
        /// network error, every `interval`, until it answers a probe with any status, or another request; it is dead
        /// after `fall` unanswered probes. Switch it off if your servers do not want OPTIONS.
        enabled: Setting<Flag> = regular,
        /// Time between two probes of one server. Set it lower to find dead servers sooner.
        interval: Setting<Time<100, HOUR>> = interval,
        /// Longest wait for an answer to a probe; at most `interval`. Set it higher if your servers answer slowly under
        /// load.
        timeout: Setting<Time<10, HOUR>> = timeout,
        /// Probes in a row without a good answer after which a server is dead, unless it answers requests meanwhile. A
        /// closed port (ICMP port unreachable) is enough at once. Set it higher if the network often loses packets.
        fall: Setting<Count<1, 100>> = fall,
    }

    let sessions = balance::SessionSettings::default();

    /// Times for which calls, and the memory of them, are kept.
    struct RawTimers {
        /// Estimate of the round-trip time, T1 of RFC 3261 §17.1.1.1. Set it higher on links with long delays, and
        /// below `"500ms"` only if all SIP elements are in a network of your own. A reload does not change it for
        /// `[proxy]`.
        t1: Setting<Time<1, { 10 * SECOND }>> = transaction::Timers::default().t1,
        /// Time for which a call without any message counts as load, as after a lost BYE. A call whose 200 gets no ACK
        /// because the caller is gone counts for 128 * `t1`. Set it longer than your longest call.
        call: Setting<Time<1, { 30 * DAY }>> = sessions.call_lifetime,
    }

    /// Keys of the tokens in Record-Route and Via that lead requests and responses back to their server. Balancers with
    /// the same key find each other's calls.
    struct RawToken {
        /// The key: 16 bytes as text, or a file with the bytes or their text, `{ file = "token.key" }`. Set it if
        /// several balancers share calls. Without it a random key is made at the first start and kept as
        /// `NAME.token-key`, readable by its owner only, in the state directory (`STATE_DIRECTORY`, set by systemd), or
        /// else beside this file.
        key: Option<Secret<KeyText>> => "made once and kept",
        /// Older keys whose tokens are still accepted. To change the key, move the old one here for one `lifetime`.
        previous_keys: Vec<Setting<KeyText>>,
        /// Time for which a token is accepted. Set it longer than your longest call.
        lifetime: Setting<Time<MINUTE, YEAR>> = Duration::from_hours(24),
    }

    /// A secret in a file of its own.
    struct RawSecretFile {
        /// The file, relative to the directory of this one.
        file: Option<Setting<KeyPath>> => REQUIRED,
    }

    /// HTTP server for status, metrics and administration. On an address that other machines can reach, requests need a
    /// token.
    struct RawAdmin {
        /// Local address and port; `""` or `false`: no HTTP server. On other addresses than loopback requests except
        /// `/healthz` and `/readyz` need the token, which is sent unencrypted: `Authorization: Bearer TOKEN`. Set it to
        /// let other machines read the metrics. A reload does not change it.
        listen: Setting<AdminListen> = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 8060))),
        /// The token, or a file with it: `{ file = "admin.token" }`. If it is set, requests on loopback need it as
        /// well. Without it a random token is made at the first start that needs one, and kept as `NAME.admin-token`
        /// beside `NAME.token-key`, readable by its owner only. A reload does not change it.
        token: Option<Secret<BearerText>> => "made once and kept",
        /// The web page at `/`: `"read-only"`; `"drain"`: a browser may also drain members and end a drain; or `"off"`.
        /// A reload does not change it.
        page: Setting<Choice<AdminPage>> = AdminPage::ReadOnly,
        /// Whether `/metrics` has histograms of response times and open transactions for each member, not only for each
        /// pool. A member that gets calls adds 6 kB to each answer. Set it to compare the members of a small pool.
        member_histograms: Setting<Flag> = false,
    }

    /// Receives the capacity of servers, which `sarabande monitor --report` beside each server measures and sends every
    /// second (docs/capacity-updates.md). Without this table no updates are accepted.
    struct RawCapacity {
        /// Local address and port, over TCP.
        listen: Option<Setting<CapacityListen>> => REQUIRED,
        /// Keys of the servers, the same as at their monitors: `"10.0.0.1" = "..."`, or `{ file = "sip1.key" }`, a file
        /// with the 16 bytes or their text. The name is the address or name that the monitor gives with `--as`. With
        /// the key it can announce the capacity of this server only. `"*"` is the key of all servers without their own:
        /// an intruder on one of them can keep calls away from all.
        keys: BTreeMap<String, Secret<KeyText>> => REQUIRED,
        /// Networks that monitors may connect from; empty: any. Set it if other machines can reach `listen`.
        from: Vec<Setting<NetworkText>>,
    }

    /// Protection of this process from more requests than it can serve (docs/overload.md). It refuses new requests with
    /// 503, early and at little cost, so that accepted requests are answered in time. Messages of calls in progress are
    /// never refused.
    struct RawOverload {
        /// Law that refuses new requests. `"delay"`: by their expected wait. `"occupancy"`: by the load of the threads.
        /// `"bang-bang"`: all, from 800 waiting messages until fewer than 600 wait. `"none"`: none; messages wait in
        /// the sockets in order, which collapses above capacity. Except with `"none"`, a busy thread sorts messages by
        /// importance, and drops copies of waiting messages and messages that have waited for 500 ms. Change it only to
        /// compare the laws.
        local: Setting<Choice<ScenarioLocal>> = ScenarioLocal::Delay,
        /// Retry-After of the refusals of `bang-bang`. Set it only to compare with other proxies: neighbours that obey
        /// it stop and return all at the same time, which is worse than none.
        retry_after: Option<Setting<Time<SECOND, HOUR>>> => "none",
        /// Overload feedback to neighbours that support it (RFC 7339, RFC 7415; docs/overload-neighbours.md). `"rate"`:
        /// the requests a second to send, or for neighbours that support only this, the share of requests to drop.
        /// `"loss"`: the share for all. With both this process also obeys the feedback of neighbours. Set it if the SIP
        /// servers in front support RFC 7339 and cannot limit this process as a member of a pool.
        feedback: Setting<Choice<FeedbackName>> = FeedbackName::None,
        /// Networks of SIP servers, in front of or behind this one, for `feedback`, and whose Resource-Priority is
        /// accepted (RFC 4412), as that of members always is. Set it if such servers are no members.
        neighbours: Vec<Setting<NetworkText>>,
    }

    /// The log, on standard error. At most 50 lines of one kind are written at once, and 10 a second. If the disk is
    /// full or the reader has stopped, lines are counted and dropped, and no thread waits.
    struct RawLog {
        /// Lowest severity that is written. With `"debug"` a line for each failed request has method, Call-ID, sender
        /// and cause, and each failed connection has a line. `run --log-level` and `RUST_LOG` override it, also in a
        /// reload.
        level: Setting<Choice<Level>> = Level::Info,
        /// Format of the lines: text, or a JSON object a line, for programs that collect logs. A reload does not change
        /// it.
        format: Setting<Choice<LogFormat>> = LogFormat::Text,
    }

    /// Graceful stop after SIGTERM: no new calls are accepted, and calls in progress may end.
    struct RawStop {
        /// Longest wait for calls in progress, also after a takeover; `"0s"`: stop at once. After a `restart`,
        /// connections of clients stay open for nine tenths of it while their calls or bindings last. Set it to the
        /// time that most of your calls take.
        wait: Setting<Time<0, DAY>> = Duration::from_secs(30),
    }

    /// DNS look-ups of members, and of the hosts to which members send requests.
    struct RawDns {
        /// Time between look-ups of a name; hosts to which members send requests are looked up only while in use. If a
        /// look-up fails, or its part about one target or address family, the previous addresses stay, and a member's
        /// name is looked up every 3 s. Set it lower if the addresses of your servers change often.
        refresh: Setting<Time<SECOND, DAY>> = Duration::from_secs(30),
        /// DNS servers in order, over UDP and TCP; empty: those of the system (`/etc/resolv.conf`). Set it if the names
        /// of members are in a DNS of your own.
        servers: Vec<Setting<DnsServer>>,
    }
}

impl Short for RawMember {
    type Main = MemberAddress;

    fn main(&mut self) -> &mut Option<Setting<MemberAddress>> {
        &mut self.address
    }
}

impl FileKind for RawConfig {
    fn schema_of_file() -> &'static Value {
        static SCHEMA: OnceLock<Value> = OnceLock::new();
        SCHEMA.get_or_init(document::schema::<Self>)
    }
}
