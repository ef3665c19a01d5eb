//! The file as it is written: the one table of keys.
//!
//! Reading, JSON schema, reference and defaults are all made from these declarations (see [`table`](crate::table)):
//! field names are the keys, documentation comments are the reference. Text that a user should not read is a `//`
//! comment.

mod calls;
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
    GIB, HOUR, HopAddress, KeyPath, KeyText, MIB, MINUTE, MemberAddress, NetworkText, PolicyName, Ratio,
    SECOND, Share, Shared, Size, Time, YEAR,
};
use crate::scenario::ScenarioLocal;
use crate::setting::{Entry, Item, Setting, Short};
use crate::table::{NAME, REQUIRED};
use crate::typed::{Level, LogFormat};
use ::route::{Dialogs, Fork, Forward, INVITE_TIMEOUT, RING_TIME};
use balance::{HealthSettings, Weights};
pub(crate) use calls::*;
use control::ProbeSettings;
use distribute::{Law, Settings};
pub(crate) use listen::*;
use node::{Distribution, ProxySettings};
pub(crate) use protection::*;
pub(crate) use queue::*;
pub(crate) use registrar::*;
pub(crate) use routes::*;
pub(crate) use scale::*;

/// The longest time to the first answer; zero for any time.
pub(crate) type InviteTimeout = Setting<Time<0, { 30 * SECOND }>>;

/// Work per method.
pub(crate) type RawWeights = BTreeMap<String, Setting<Ratio>>;

/// A secret, or the file that holds it.
pub(crate) type Secret<K> = Entry<K, RawSecretFile>;

/// As a file has them.
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
        // Every table below `pool` is a pool.
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
        log: RawLog,
        stop: RawStop,
        dns: RawDns,
    }

    let HealthSettings { slow_start, max_rest, ejects, .. } = HealthSettings::default();

    /// The servers that calls are spread over. `<name>` is yours to choose (letters, digits, `-`, `_`) and is the
    /// label `pool` of the members' metrics. One pool gets all requests; of several, each `[[route]]` says which.
    struct RawPool {
        /// Who gets the next call: in turn (`round-robin`), by Call-ID (`hash` keeps most calls in place when the
        /// members change, `fnv-hash` does not), fewest calls (`cjsq`), fewest transactions (`tjsq`), least work left
        /// (`tlwl`, which is `tlwl-1.75`; `tlwl-2` weighs an INVITE as two BYEs), or shortest response time (`rwma`).
        policy: Setting<Choice<PolicyName>> = PolicyName::default(),
        /// Servers, at least one. An item is an address, or a table that also gives capacity and limit. Without
        /// `;transport=` a server is reached over UDP, and the port is 5060 (TLS: 5061) where none is given. A host
        /// name stands for all its A and AAAA records, an SRV name (`_sip._udp.`, `_sip._tcp.` or `_sips._tcp.`) for
        /// all its targets. TCP and TLS need a listener of their own here, from which requests leave.
        members: Vec<Item<RawMember>> where { "minItems": 1 } => REQUIRED,
        /// Work per method, relative to a BYE, by upper-case method name. Only with policy `tlwl`. A method that is
        /// not named weighs 1.0, INVITE 1.75; ACK, and one that no RFC of SIP names, can have no weight of its own.
        /// The same in all pools with policy `tlwl`.
        weights: RawWeights => usual_weights(),
        /// How requests are forwarded: `"transaction"`, where this process answers 100, retransmits, and tries another
        /// member when one answers 503, is unreachable or does not answer, within the limits of `[proxy]`;
        /// `"stateless"`, for clients and members that all use UDP, which takes less processor time, but only UAC and
        /// UAS retransmit, and no other member is tried; `"dialog"`, which does what `"transaction"` does and
        /// keeps the state of each call, for limits and call records (`[calls]`); or `"distributed"`, with
        /// transactions for some calls only: of the proxies of `[distribution]` that a call passes, one keeps its
        /// transactions, and with `shares` its dialogs. The last two only with `dialogs = "route"`.
        forward: Setting<Choice<Forward>> = Forward::default(),
        /// Where requests within dialogs go: to the `"member"` that the dialog began with, or where their `"route"`
        /// leads, for servers that may take themselves out of the way. With `"route"` members are next hops: what
        /// they send is treated as anybody's, and `policy = "hash"` without `max_calls` remembers nothing of calls;
        /// without transactions it has to be so.
        dialogs: Setting<Choice<Dialogs>> = Dialogs::default(),
        /// To how many members a request goes that begins something: `"none"`, to one; `"parallel"`, to all at once,
        /// a ring group; `"sequential"`, to one after the other in the order of `policy` until one accepts, a hunt
        /// group. Whoever accepts an INVITE first has the call, and the others are cancelled; without that the best
        /// answer goes back (RFC 3261 §16.7). The next pool of a route follows when all have failed, whatever they
        /// answered. Needs `forward = "transaction"` and `dialogs = "route"`; nothing is remembered of calls, so no
        /// `max_calls`.
        fork: Setting<Choice<Fork>> = Fork::default(),
        /// Of a pool that forks: how long members ring before the next ones do, which are the next member or the next
        /// pool. Those before are cancelled then. The last ones ring until `timer_c` of `[proxy]`.
        ring_time: Setting<Time<SECOND, HOUR>> = RING_TIME,
        /// Time for the first response of a member to an INVITE, a 100 included. After it another member gets the
        /// INVITE as well, or the next pool of the route. The first member to answer anything but 503 has the call,
        /// and the others get CANCEL. Each further member takes a retry from the budget of the route. `"0s"` = until
        /// the transaction times out, after 64 times `t1`. Not with `forward = "stateless"`, nor with `fork`, where
        /// `ring_time` applies.
        invite_timeout: InviteTimeout = INVITE_TIMEOUT,
        /// Whether this process stays on the way of the dialogs that begin, by a Record-Route. If not, the two
        /// parties go on without it, and no call is seen to end: one counts as load of its member until it is
        /// answered. Only with `dialogs = "route"`, and without `max_calls`, `policy = "cjsq"` and `scale`.
        record_route: Setting<Flag> = true,
        /// Time in which a server that came back ramps up from 10 % to 100 % of its capacity; `"0s"` = off.
        slow_start: Setting<Time<0, DAY>> = slow_start,
        /// Longest rest of a member that answers 503, whatever its Retry-After says. Where no member takes calls, one
        /// that has rested for 10 s because it asked for that gets a call now and then all the same, and takes calls
        /// again if it answers.
        max_rest: Setting<Time<SECOND, DAY>> = max_rest,
        /// Most calls at a time on each member that sets no limit of its own, over all threads; 0 = no limit. An
        /// INVITE beyond it goes elsewhere; REGISTER, MESSAGE and whatever else begins no call does not.
        max_calls: Setting<Count<0, { u32::MAX }>> = 0,
        /// Most new calls a second for each member that sets no limit of its own, over all threads, with a burst of
        /// those of half a second; 0 = no limit. An INVITE beyond it goes elsewhere, or is refused as `overload` says.
        max_rate: Setting<Count<0, { u32::MAX }>> = 0,
        /// Most sessions, over all threads. A call takes some 120 bytes, and 100 more while it is not answered.
        /// Beyond it the oldest sessions go that have ended and are kept for late messages, then the oldest that
        /// nobody has answered. A call that rings or was answered stays; where there is nothing else, new ones get
        /// 503. The same in all pools, which have one table.
        max_sessions: Setting<Count<1000, { u32::MAX }>> = balance::SessionSettings::MAX_SESSIONS as u32,
        probe: RawProbe,
        /// Whether a failing member is ejected: it gets no new calls for 10 s, the second time in a row for 20 s, and so on
        /// up to 5 minutes. It fails with five failures in a row (500, 502, 504, 580, or no answer to an INVITE within
        /// `invite_timeout` that another member then answers) while others answer; or if more than half of at least 20
        /// answers in 5 s are failures, more than three times the share of all others and ten points above it. At most
        /// half of the members are ejected, and where no other member takes calls they get them all the same. A failed
        /// INVITE counts in the load for as long as a successful one takes.
        outlier: Setting<Flag> = ejects,
        overload: RawProtection,
        queue: Option<RawQueue> => "none",
        scale: Option<RawScale>,
    }

    /// One server, or one name that stands for several.
    struct RawMember {
        /// Where the server is.
        address: Option<Setting<MemberAddress>> => REQUIRED,
        /// Capacity relative to the other members. A member of capacity 2 gets twice the work of one of capacity 1.
        capacity: Setting<Ratio> = 1.0,
        /// Most calls at a time, over all threads; 0 = no limit.
        max_calls: Option<Setting<Count<0, { u32::MAX }>>> => "`max_calls` of the pool",
        /// Most new calls a second, over all threads; 0 = no limit.
        max_rate: Option<Setting<Count<0, { u32::MAX }>>> => "`max_rate` of the pool",
    }

    let ProxySettings { timers, limits } = ProxySettings::default();

    /// A proxy, if nothing else is said a transaction-stateful, record-routing one: it answers 100 at once, repeats
    /// lost messages, cancels what rings too long, and tries another next hop when one fails. Without `[[route]]` it
    /// stands in place of a pool. With routes, its next hops are the pool `proxy`, and its limits and `timer_c` hold
    /// for all that is forwarded with transactions.
    struct RawProxy {
        /// Where requests go that do not belong to a dialog of this proxy, one to 64, or none where there are routes;
        /// over UDP where there is no `;transport=`, port 5060 (TLS: 5061) where none is given. A call's Call-ID
        /// decides where its requests go first; the next one follows when one answers 503, is unreachable, or does
        /// not answer an INVITE in time. An unreachable next hop is tried last, for 64 * 500 ms or until it answers a
        /// probe. A next hop that answers 503 to half of its new requests is tried last for the time of its
        /// Retry-After, or 2 s.
        next: Vec<Setting<HopAddress>> where { "maxItems": 64 } => "none, with routes",
        /// As `forward` of a pool. Without a transaction nothing is remembered, and no other next hop is tried.
        forward: Setting<Choice<Forward>> = Forward::Transaction,
        /// As `record_route` of a pool.
        record_route: Setting<Flag> = true,
        /// As `invite_timeout` of a pool.
        invite_timeout: InviteTimeout = INVITE_TIMEOUT,
        /// How long an INVITE may ring before it is cancelled, Timer C of RFC 3261 §16.6: more than three minutes, and
        /// more than 64 * `t1`. Where there are no transactions it counts as load for so long.
        /// A reload does not change it.
        timer_c: Setting<Time<{ 3 * MINUTE + SECOND }, DAY>> = timers.c,
        /// Most transactions at a time; a request in progress has two, and one that has just ended keeps them for up
        /// to 32 s. Beyond it what is new gets 503; requests within dialogs have a quarter more, of which a call may
        /// begin four within 32 s.
        max_transactions: Setting<Count<1000, { u32::MAX }>> = limits.transactions as u32,
        /// Most memory for transactions and their messages, over all threads; each has at least 16 MiB. Beyond it
        /// what is new gets 503, long requests before short ones: a request may be as long as 1/256 of what its
        /// thread has left. A short one is told to try again after 10 s. Requests within dialogs have a quarter more.
        /// What the process needs for finding transactions and for itself comes on top.
        max_memory: Setting<Size<{ 16 * MIB }, { 1024 * GIB }>> = limits.memory,
    }

    let Settings { law, keep, period, high, low, delta_c, .. } = Distribution::default().settings;

    /// Proxies in a chain share out who keeps the transactions of a call, for pools with `forward = "distributed"`.
    struct RawDistribution {
        /// Addresses or networks of the proxies before and behind that share out as well, at least one. What they say
        /// in Via of who keeps a call, and of how busy they are, is believed: no caller may send from there.
        neighbours: Vec<Setting<NetworkText>> where { "minItems": 1 } => REQUIRED,
        /// What is shared out: `"transaction"`, the transactions of a call; `"dialog"` as well, the state of its dialogs
        /// with session timers and its call record (`[calls]`), which one of the proxies then writes. The same at all
        /// proxies of a chain. Pools of next hops that keep no dialogs may lead to `neighbours` alone then, and
        /// `[registrar]` has to have `forward = "dialog"` or `"distributed"`. And `"authentication"`: the verification
        /// of callers that a route with `authenticate` sends to next hops. It needs `users` and `trusted` of
        /// `[registrar]` with the neighbours in it, and the `key` of `[token]`, the same at all of them.
        shares: Vec<Setting<Choice<Shared>>> = vec![Shared::Transaction],
        /// How a proxy finds its share: `"level"` makes all that can help each other equally busy, `"paper"` is the
        /// additive decrease of the SERvartuka paper, `"fixed"` has the share `keep` whatever the load.
        law: Setting<Choice<Law>> = law,
        /// With the law `"fixed"`: the share of the calls without transactions that get theirs here, of those that go
        /// on to a neighbour. `sarabande plan` finds such shares.
        keep: Setting<Share<0, 1000>> = keep,
        /// How long a proxy counts calls before it corrects its share and tells the proxies before it how busy it is.
        /// About the same at all proxies of a chain: what a neighbour has told counts for 3.5 of these periods, and
        /// for 3.5 s at least. A second has few calls at a slow proxy; then a longer one makes shares steadier.
        period: Setting<Time<200, MINUTE>> = period,
        /// How busy a proxy may be before it gives calls away, of the processor time that it may use.
        high: Setting<Share<100, 1000>> = high,
        /// How busy all proxies behind may be before they take more calls again; at most `high`.
        low: Setting<Share<100, 1000>> = low,
        /// With the law `"paper"`: how many calls a second a proxy gives away more in each `period` in which it is
        /// too busy.
        delta_c: Setting<CallRate<1>> = delta_c,
        /// Calls a second that this proxy carries with transactions alone, over all threads. With `stateless`: how busy
        /// it is is computed from its calls, and not measured.
        stateful: Option<Setting<CallRate<1>>> => "the load is measured",
        /// Calls a second that this proxy carries without transactions, over all threads; at least `stateful`.
        stateless: Option<Setting<CallRate<1>>> => "the load is measured",
        /// With `"authentication"`: what a call costs more that is challenged and verified, as part of one without.
        authentication_cost: Setting<Share<10, 10_000>> = 1.0,
    }

    let HealthSettings { regular, fall, .. } = HealthSettings::default();
    let ProbeSettings { interval, timeout, .. } = ProbeSettings::default();

    /// OPTIONS probes to each member. Any final answer but 503 is a good one. A member that answers calls but no
    /// probes is recognised: then only calls that it leaves unanswered, and a closed port, tell that it is dead.
    struct RawProbe {
        /// Whether each server is asked regularly. If not, it is asked when a request to it gets no answer or the
        /// network reports an error, then every `interval` until it answers: with any status will do, and so will an
        /// answer to another request. A server that keeps silent all the while is dead after `fall` probes as with
        /// regular ones.
        enabled: Setting<Flag> = regular,
        /// Time between two probes of one server.
        interval: Setting<Time<100, HOUR>> = interval,
        /// Longest wait for an answer; at most `interval`, so that one probe of a server is under way at a time.
        timeout: Setting<Time<10, HOUR>> = timeout,
        /// Probes in a row without a good answer after which a server counts as dead, unless it answers requests
        /// meanwhile. A closed port (ICMP port unreachable) is enough at once.
        fall: Setting<Count<1, 100>> = fall,
    }

    let sessions = balance::SessionSettings::default();

    /// How long calls and their traces are kept.
    struct RawTimers {
        /// Estimate of the round-trip time, T1 of RFC 3261 §17.1.1.1. Less than `"500ms"` only in a network of your
        /// own. A reload does not change it for `[proxy]`.
        t1: Setting<Time<1, { 10 * SECOND }>> = transaction::Timers::default().t1,
        /// How long a call counts as load when no message passes, which is what a lost BYE looks like. One whose 200
        /// gets no ACK, since its caller is gone, counts for 128 * `t1`.
        call: Setting<Time<1, { 30 * DAY }>> = sessions.call_lifetime,
    }

    /// Keys of the tokens in Record-Route and Via that lead requests and responses back to their server. Balancers
    /// that share a key find each other's calls.
    struct RawToken {
        /// The key. Without one a random key is made at the first start and kept as `NAME.token-key`, readable by its
        /// owner only: in the state directory of the service (`STATE_DIRECTORY`, as systemd sets it), or else beside
        /// this file. Or a file with the 16 bytes, or their text: `{ file = "token.key" }`.
        key: Option<Secret<KeyText>> => "made once and kept",
        /// Keys whose tokens are still accepted. To change keys, move the old one here for one `lifetime`.
        previous_keys: Vec<Setting<KeyText>>,
        /// How long a token is accepted. Longer than the longest call.
        lifetime: Setting<Time<MINUTE, YEAR>> = Duration::from_hours(24),
    }

    /// A secret in a file of its own.
    struct RawSecretFile {
        /// The file, from the directory of this one.
        file: Option<Setting<KeyPath>> => REQUIRED,
    }

    /// HTTP: status, metrics and administration. On an address that other machines can reach it asks for a token.
    struct RawAdmin {
        /// Local address and port; `""` or `false` = off. On another address than loopback each request has to show
        /// the token, as `Authorization: Bearer TOKEN`; `/healthz` and `/readyz` do not. The token is not encrypted
        /// on its way. A reload does not change it.
        listen: Setting<AdminListen> = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 8060))),
        /// The token; one that is set is asked for on loopback, too. Without one a random token is made at the first
        /// start that needs it and kept where `NAME.token-key` is, as `NAME.admin-token`, readable by its owner only. Or
        /// a file with the token: `{ file = "admin.token" }`. A reload does not change it.
        token: Option<Secret<BearerText>> => "made once and kept",
    }

    /// What servers can take, as `sarabande monitor --report` beside each of them finds out and sends every second
    /// (docs/elastic.md). Without this table nobody is listened to.
    struct RawCapacity {
        /// Local address and port, over TCP.
        listen: Option<Setting<CapacityListen>> => REQUIRED,
        /// The key of each server, which its monitor has, too, by the address or name that the monitor gives with
        /// `--as`: `"10.0.0.1" = "..."`, or `"10.0.0.1" = { file = "sip1.key" }`, a file with the 16 bytes, or their
        /// text. Its holder can announce the capacity of that server alone. `"*"` is the key of all servers without one
        /// of their own: a break-in at one of them can keep calls from all.
        keys: BTreeMap<String, Secret<KeyText>> => REQUIRED,
        /// Networks that monitors may connect from; everyone where there is none.
        from: Vec<Setting<NetworkText>>,
    }

    /// What is done when more is asked for than this process can serve: it refuses new requests with 503, early and at
    /// little cost, so that those that it takes are answered in time. What belongs to calls in progress is never
    /// refused (docs/overload).
    struct RawOverload {
        /// Which new requests are refused: by their expected wait (`"delay"`); by how busy the threads are
        /// (`"occupancy"`); all, above 800 messages that wait, until there are less than 600 (`"bang-bang"`); or
        /// none (`"none"`), which collapses above capacity. With any but `"none"` a thread with more messages than time
        /// serves responses and what belongs to dialogs first, then emergency calls, new requests, and OPTIONS; drops
        /// copies of what waits; and gives up what has waited for 500 ms. Otherwise messages wait in the sockets, first
        /// come first served.
        local: Setting<Choice<ScenarioLocal>> = ScenarioLocal::Delay,
        /// Of `bang-bang`: the Retry-After of its refusals. Neighbours that keep to it go away and come back all at
        /// once, which is worse than none.
        retry_after: Option<Setting<Time<SECOND, HOUR>>> => "none",
        /// What is said to neighbours that ask for it, so that they refuse in place of this process (RFC 7339, RFC 7415):
        /// how many requests a second (`"rate"`), what part of them (`"loss"`), or nothing (`"none"`). With either,
        /// what neighbours say is kept to as well. See docs/overload/neighbours.md.
        feedback: Setting<Choice<FeedbackName>> = FeedbackName::None,
        /// Networks of SIP servers, also behind this one, with which `feedback` is exchanged, and whose
        /// Resource-Priority counts (RFC 4412). That of members always does.
        neighbours: Vec<Setting<NetworkText>>,
    }

    /// The log, on standard error. At most 50 lines of one kind at once and 10 a second are written; those that
    /// cannot be, since the disk is full or nobody reads them, are counted, and nothing waits for them.
    struct RawLog {
        /// Least severity that is written. `"debug"` adds a line for each request that failed: its method and
        /// Call-ID, who sent it, and which member or which rule refused it. A reload does not change it.
        level: Setting<Choice<Level>> = Level::Info,
        /// Lines for people, or one JSON object a line.
        /// A reload does not change it.
        format: Setting<Choice<LogFormat>> = LogFormat::Text,
    }

    /// What SIGTERM does: no new calls are taken, those in progress may end.
    struct RawStop {
        /// Longest wait for calls in progress, also once another process has taken over; `"0s"` = stop at once. After a
        /// `restart`, connections of clients stay open for nine tenths of it while their calls or bindings last.
        wait: Setting<Time<0, DAY>> = Duration::from_secs(30),
    }

    /// Look-up of names: of members, and of the hosts to which members send requests.
    struct RawDns {
        /// Time between two look-ups of a name; that of a host to which members send requests is asked for again only
        /// while it is in use. When one fails, or the part of it that is about one target or address family, the
        /// addresses of before stay, and a member's name is asked for every 3 s until all of it was answered.
        refresh: Setting<Time<SECOND, DAY>> = Duration::from_secs(30),
        /// DNS servers to ask, in this order, over UDP and TCP. Without any, those of the system
        /// (`/etc/resolv.conf`).
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
