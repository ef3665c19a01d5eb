//! The file as it is written: the one table of keys.
//!
//! Parser, JSON schema and reference are all made from these structs: field names are the keys, documentation
//! comments are the reference, `Default` holds the defaults. Text that a user should not read is a `//` comment.

mod calls;
mod queue;
mod registrar;
mod routes;
mod scale;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::OnceLock;

use crate::document::{self, FileKind};
use crate::kind::{
    AdminListen, Advertised, BearerText, Bound, CapacityListen, Choice, Count, DAY, DnsServer, Flag, GIB,
    HOUR, HopAddress, KIB, KeyPath, KeyText, MIB, MINUTE, MemberAddress, NetworkText, PolicyName, Ratio,
    SECOND, ServedName, Share, Size, Time, YEAR,
};
use crate::setting::{Entry, Setting};
use crate::typed::{Level, LogFormat};
use ::route::{Dialogs, Fork, Forward, RING_TIME};
use balance::{HealthSettings, OutlierSettings, Weights};
pub(crate) use calls::*;
use control::ProbeSettings;
use distribute::{Law, Settings};
use node::{Distribution, Orphans, ProxySettings};
pub(crate) use queue::*;
pub(crate) use registrar::*;
pub(crate) use routes::*;
pub(crate) use scale::*;

/// As a file has them.
pub(crate) fn usual_weights() -> String {
    format!("{{ INVITE = {}, BYE = 1.0 }}", Weights::INVITE)
}

/// One datagram of the largest size must fit, and the kernel takes the size as a signed 32-bit number and doubles it.
type SocketBuffer = Size<{ 64 * KIB }, { 1023 * MIB }>;

/// A complete configuration file of Sarabande.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Sarabande configuration", extend("required" = ["listen"], "anyOf" = [{ "required": ["pool"] }, { "required": ["proxy"] }, { "required": ["route"] }, { "required": ["registrar"] }]))]
pub(crate) struct RawConfig {
    pub(crate) listen: RawListen,
    // Every table below `pool` is a pool.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("minProperties" = 1, "propertyNames" = { "pattern": "^[-_0-9A-Za-z]+$" }))]
    pub(crate) pool: BTreeMap<String, RawPool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RawProxy")]
    pub(crate) proxy: Option<RawProxy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RawDistribution")]
    pub(crate) distribution: Option<RawDistribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RawCalls")]
    pub(crate) calls: Option<RawCalls>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) route: Vec<RawRoute>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RawRegistrar")]
    pub(crate) registrar: Option<RawRegistrar>,
    pub(crate) access: RawAccess,
    pub(crate) timers: RawTimers,
    pub(crate) token: RawToken,
    pub(crate) admin: RawAdmin,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RawCapacity")]
    pub(crate) capacity: Option<RawCapacity>,
    pub(crate) log: RawLog,
    pub(crate) stop: RawStop,
    pub(crate) dns: RawDns,
}

/// Where the balancer listens and what it is called.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["udp"]))]
pub(crate) struct RawListen {
    /// UDP listeners, at least one. An item is an address, or a table that also says what to advertise.
    /// A reload does not change it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("minItems" = 1))]
    pub(crate) udp: Vec<Entry<Bound, RawListener>>,
    /// Host names that mean this balancer when they stand in a Request-URI or Route. The listeners'
    /// own addresses always do.
    pub(crate) names: Vec<Setting<ServedName>>,
    /// Worker threads; 0 = one a core.
    /// A reload does not change it.
    pub(crate) threads: Setting<Count<0, 1024>>,
    /// Receive buffer asked of the kernel for each socket (`SO_RCVBUF`). The kernel grants at most
    /// `net.core.rmem_max`.
    /// A reload does not change it.
    pub(crate) receive_buffer: Setting<SocketBuffer>,
}

impl Default for RawListen {
    fn default() -> Self {
        Self { udp: Vec::new(), names: Vec::new(), threads: 0.into(), receive_buffer: "4MiB".into() }
    }
}

/// One listener.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["bind"]))]
pub(crate) struct RawListener {
    /// Local address and port; `0.0.0.0` or `[::]` = every local address of that
    /// family that is there at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Bound>")]
    pub(crate) bind: Option<Setting<Bound>>,
    /// Address and port that peers see in Via and Record-Route, for a host behind an address translator.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Advertised>", extend("x-default" = "the local address"))]
    pub(crate) advertise: Option<Setting<Advertised>>,
    /// Networks that may begin anything here, instead of those of `[access]`; with `deny`, of which the same holds.
    pub(crate) allow: Vec<Setting<NetworkText>>,
    /// Networks that may not.
    pub(crate) deny: Vec<Setting<NetworkText>>,
}

/// The servers that calls are spread over. `<name>` is yours to choose (letters, digits, `-`, `_`) and is the
/// label `pool` of the members' metrics. One pool gets all requests; of several, each `[[route]]` says which.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["members"]))]
pub(crate) struct RawPool {
    /// Who gets the next call: in turn (`round-robin`), by Call-ID (`hash` keeps most calls in place when the members
    /// change, `fnv-hash` does not), fewest calls (`cjsq`), fewest transactions (`tjsq`), least work left (`tlwl`,
    /// which is `tlwl-1.75`; `tlwl-2` weighs an INVITE as two BYEs), or shortest response time (`rwma`).
    pub(crate) policy: Setting<Choice<PolicyName>>,
    /// Servers, at least one. An item is an address, or a table that also gives capacity and limit. The port is 5060
    /// where none is given. A host name stands for all its A and AAAA records, an SRV name for all its targets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("minItems" = 1))]
    pub(crate) members: Vec<Entry<MemberAddress, RawMember>>,
    /// Work per method, relative to a BYE, by upper-case method name. Only with policy `tlwl`. A method that is not
    /// named weighs 1.0, INVITE 1.75; ACK, and one that no RFC of SIP names, can have no weight of its own. The same in all
    /// pools with policy `tlwl`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-default" = usual_weights()))]
    pub(crate) weights: BTreeMap<String, Setting<Ratio>>,
    /// How requests are forwarded: `"stateless"`, where the two parties repeat what is lost; or `"transaction"`, where this
    /// process answers 100, repeats, and tries another member when one fails, within the limits of `[proxy]`; or `"dialog"`,
    /// which does that and keeps the state of each call, so that it can be limited and written down (`[calls]`); or
    /// `"distributed"`: with a transaction for some calls and without for the others, so that of the proxies of
    /// `[distribution]` that a call passes one keeps its transactions. The latter two only with `dialogs = "route"`.
    pub(crate) forward: Setting<Choice<Forward>>,
    /// Where requests within dialogs go: to the `"member"` that the dialog began with, or where their `"route"` leads, for
    /// servers that may take themselves out of the way. With `"route"` members are next hops: what they send is treated as
    /// anybody's, and `policy = "hash"` without `max_calls` remembers nothing of calls; without transactions it has to be so.
    pub(crate) dialogs: Setting<Choice<Dialogs>>,
    /// To how many members a request goes that begins something: `"none"`, to one; `"parallel"`, to all at once, a ring group;
    /// `"sequential"`, to one after the other in the order of `policy` until one accepts, a hunt group. Whoever accepts an INVITE
    /// first has the call, and the others are cancelled; without that the best answer goes back (RFC 3261 §16.7). The next pool
    /// of a route follows when all have failed, whatever they answered. Needs `forward = "transaction"` and
    /// `dialogs = "route"`; nothing is remembered of calls, so no `max_calls`.
    pub(crate) fork: Setting<Choice<Fork>>,
    /// Of a pool that forks: how long members ring before the next ones do, which are the next member or the next pool. Those
    /// before are cancelled then. The last ones ring until `timer_c` of `[proxy]`.
    pub(crate) ring_time: Setting<Time<SECOND, HOUR>>,
    /// Whether this process stays on the way of the dialogs that begin, by a Record-Route. If not, the two parties go on
    /// without it, and no call is seen to end: one counts as load of its member until it is answered. Only with
    /// `dialogs = "route"`, and without `max_calls`, `policy = "cjsq"` and `scale`.
    pub(crate) record_route: Setting<Flag>,
    /// What happens to a request inside a dialog that has neither a valid token nor a session: `"481"` answers
    /// 481 (Call/Transaction Does Not Exist), `"balance"` treats it like a new call, also as to routes, access lists and rates,
    /// `"drop"` does not answer. The same in all pools.
    pub(crate) orphans: Setting<Choice<Orphans>>,
    /// Time in which a server that came back ramps up from 10 % to 100 % of its capacity; `"0s"` = off.
    pub(crate) slow_start: Setting<Time<0, DAY>>,
    /// Longest rest of a member that answers 503, whatever its Retry-After says. Where no member takes calls, one that has
    /// rested for 10 s because it asked for that gets a call now and then all the same, and takes calls again if it
    /// answers.
    pub(crate) max_rest: Setting<Time<SECOND, DAY>>,
    /// Time after which the calls of a member that does not answer count as lost. Until then they count, since it may come
    /// back with them, as after a pause or a fault of the network. They are lost at once when its port is closed (ICMP
    /// port unreachable to a probe), or when it is back and answers 481 to what belongs to them.
    pub(crate) forget_after: Setting<Time<0, DAY>>,
    /// Most calls at a time on each member that sets no limit of its own, over all threads; 0 = no limit. An INVITE
    /// beyond it goes elsewhere; REGISTER, MESSAGE and whatever else begins no call does not.
    pub(crate) max_calls: Setting<Count<0, { u32::MAX }>>,
    /// Most sessions, over all threads. A call takes some 120 bytes, and 100 more while it is not
    /// answered. Beyond it the oldest sessions go that have ended and are kept for late messages, then the oldest that
    /// nobody has answered. A call that rings or was answered stays; where there is nothing else, new ones get 503. The same
    /// in all pools, which have one table.
    pub(crate) max_sessions: Setting<Count<1000, { u32::MAX }>>,
    pub(crate) probe: RawProbe,
    pub(crate) outlier: RawOutlier,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RawQueue", extend("x-default" = "none"))]
    pub(crate) queue: Option<RawQueue>,
    #[schemars(with = "RawScale")]
    pub(crate) scale: Option<RawScale>,
}

impl Default for RawPool {
    fn default() -> Self {
        let HealthSettings { slow_start, max_rest, forget_after, .. } = HealthSettings::default();
        Self {
            policy: Setting::of(PolicyName::default()),
            members: Vec::new(),
            weights: BTreeMap::new(),
            forward: Setting::of(Forward::default()),
            dialogs: Setting::of(Dialogs::default()),
            fork: Setting::of(Fork::default()),
            ring_time: Setting::of(RING_TIME),
            record_route: true.into(),
            orphans: Setting::of(Orphans::default()),
            slow_start: Setting::of(slow_start),
            max_rest: Setting::of(max_rest),
            forget_after: Setting::of(forget_after),
            max_calls: 0.into(),
            max_sessions: Setting::of(balance::SessionSettings::MAX_SESSIONS as u32),
            probe: RawProbe::default(),
            outlier: RawOutlier::default(),
            queue: None,
            scale: None,
        }
    }
}

/// One server, or one name that stands for several.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["address"]))]
pub(crate) struct RawMember {
    /// Where the server is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<MemberAddress>")]
    pub(crate) address: Option<Setting<MemberAddress>>,
    /// Capacity relative to the other members. A member of capacity 2 gets twice the work of one of capacity 1.
    pub(crate) capacity: Setting<Ratio>,
    /// Most calls at a time, over all threads; 0 = no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Count<0, { u32::MAX }>>", extend("x-default" = "`max_calls` of the pool"))]
    pub(crate) max_calls: Option<Setting<Count<0, { u32::MAX }>>>,
}

impl Default for RawMember {
    fn default() -> Self {
        Self { address: None, capacity: 1.0.into(), max_calls: None }
    }
}

/// A proxy, if nothing else is said a transaction-stateful, record-routing one: it answers 100 at once, repeats lost
/// messages, cancels what rings too long, and tries another next hop when one fails. Without `[[route]]` it stands in place of
/// a pool. With routes, its next hops are the pool `proxy`, and its limits and `timer_c` hold for all that is forwarded with
/// transactions.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawProxy {
    /// Where requests go that do not belong to a dialog of this proxy, one to 64, or none where there are routes; the port is
    /// 5060 where none is given. A call's Call-ID decides where its requests go first; others follow when one answers 503, is
    /// unreachable, or lets an INVITE run out of time. One that is unreachable is the last to be asked for 64 * 500 ms, one that
    /// answers 503 to half of its new requests for as long as its Retry-After says, or 2 s.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 64, "x-default" = "none, with routes"))]
    pub(crate) next: Vec<Setting<HopAddress>>,
    /// As `forward` of a pool. Without a transaction nothing is remembered, and no other next hop is tried.
    pub(crate) forward: Setting<Choice<Forward>>,
    /// As `record_route` of a pool.
    pub(crate) record_route: Setting<Flag>,
    /// How long an INVITE may ring before it is cancelled, Timer C of RFC 3261 §16.6: more than three minutes.
    /// A reload does not change it.
    pub(crate) timer_c: Setting<Time<{ 3 * MINUTE + SECOND }, DAY>>,
    /// Most transactions at a time; a request in progress has two, and one that has just ended keeps them for up to 32 s.
    /// Beyond it what is new gets 503; requests within dialogs have a quarter more, of which a call may begin four within
    /// 32 s.
    pub(crate) max_transactions: Setting<Count<1000, { u32::MAX }>>,
    /// Most memory for transactions and their messages, over all threads; each has at least 16 MiB. Beyond it what is new
    /// gets 503, long requests before short ones: a request may be as long as 1/256 of what its thread has left. A short
    /// one is told to try again after 10 s. Requests within dialogs have a quarter more. What the process needs for finding
    /// transactions and for itself comes on top.
    pub(crate) max_memory: Setting<Size<{ 16 * MIB }, { 1024 * GIB }>>,
    /// Most branches of a request that forks, which members and pools share: of a pool with more members the rest does not
    /// ring.
    pub(crate) max_branches: Setting<Count<1, 15>>,
}

impl Default for RawProxy {
    fn default() -> Self {
        let ProxySettings { timers, limits } = ProxySettings::default();
        Self {
            next: Vec::new(),
            forward: Setting::of(Forward::Transaction),
            record_route: true.into(),
            timer_c: Setting::of(timers.c),
            max_transactions: Setting::of(limits.transactions as u32),
            max_memory: Setting::of(limits.memory),
            max_branches: Setting::of(limits.branches.into()),
        }
    }
}

/// Proxies in a chain share out who keeps the transactions of a call, for pools with `forward = "distributed"`.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["neighbours"]))]
pub(crate) struct RawDistribution {
    /// Addresses or networks of the proxies before and behind that share out as well, at least one. What they say in Via of who
    /// keeps a call, and of how busy they are, is believed: no caller may send from there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("minItems" = 1))]
    pub(crate) neighbours: Vec<Setting<NetworkText>>,
    /// How a proxy finds its share: `"level"` makes all that can help each other equally busy, `"paper"` is the additive
    /// decrease of the SERvartuka paper.
    pub(crate) law: Setting<Choice<Law>>,
    /// How busy a proxy may be before it gives calls away, of the processor time that it may use.
    pub(crate) high: Setting<Share<100, 1000>>,
    /// How busy all proxies behind may be before they take more calls again; at most `high`.
    pub(crate) low: Setting<Share<100, 1000>>,
    /// What a call with transactions costs more than one without, as part of the latter.
    pub(crate) state_cost: Setting<Share<10, 10_000>>,
}

impl Default for RawDistribution {
    fn default() -> Self {
        let Settings { law, high, low, state_cost, .. } = Distribution::default().settings;
        Self {
            neighbours: Vec::new(),
            law: Setting::of(law),
            high: Setting::of(high),
            low: Setting::of(low),
            state_cost: Setting::of(state_cost),
        }
    }
}

/// OPTIONS probes to each member. Any final answer but 503 is a good one. A member that answers calls but no probes is
/// recognised: then only calls that it leaves unanswered, and a closed port, tell that it is dead.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawProbe {
    /// Whether each server is asked regularly. If not, it is asked when a request to it gets no answer or the network
    /// reports an error, then every `interval` until it answers: with any status will do, and so will an answer to
    /// another request. A server that keeps silent all the while is dead after `fall` probes as with regular ones.
    pub(crate) enabled: Setting<Flag>,
    /// Time between two probes of one server.
    pub(crate) interval: Setting<Time<100, HOUR>>,
    /// Longest wait for an answer; at most `interval`, so that one probe of a server is under way at a time.
    pub(crate) timeout: Setting<Time<10, HOUR>>,
    /// Probes in a row without a good answer after which a server counts as dead, unless it answers requests meanwhile. A
    /// closed port (ICMP port unreachable) is enough at once.
    pub(crate) fall: Setting<Count<1, 100>>,
    /// Good answers in a row after which it counts as alive again.
    pub(crate) rise: Setting<Count<1, 100>>,
}

impl Default for RawProbe {
    fn default() -> Self {
        let HealthSettings { regular, fall, rise, .. } = HealthSettings::default();
        let ProbeSettings { interval, timeout, .. } = ProbeSettings::default();
        Self {
            enabled: Setting::of(regular),
            interval: Setting::of(interval),
            timeout: Setting::of(timeout),
            fall: Setting::of(fall),
            rise: Setting::of(rise),
        }
    }
}

/// Which member gets no new calls for a while, since it fails what the others do not: five times in a row with 500, 502, 504
/// or 580 while others answer, or in an interval more than half, and more than three times the share of all others and ten
/// points. At most half of the members are away for that, and where no other takes calls they get them all the same.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawOutlier {
    /// Whether outliers are ejected, and an INVITE that a server fails counts for its load as long as one takes that
    /// succeeds.
    pub(crate) enabled: Setting<Flag>,
    /// Time over which shares of failures are counted.
    pub(crate) interval: Setting<Time<100, HOUR>>,
    /// Fewest final answers to new requests in an interval from which a member's share of failures is judged.
    pub(crate) min_answers: Setting<Count<1, 1_000_000>>,
    /// Length of the first ejection; the second in a row is twice as long, the third three times.
    pub(crate) ejection: Setting<Time<100, DAY>>,
    /// Longest ejection.
    pub(crate) max_ejection: Setting<Time<100, DAY>>,
}

impl Default for RawOutlier {
    fn default() -> Self {
        let OutlierSettings { enabled, interval, min_answers, ejection, max_ejection } =
            OutlierSettings::default();
        Self {
            enabled: Setting::of(enabled),
            interval: Setting::of(interval),
            min_answers: Setting::of(min_answers),
            ejection: Setting::of(ejection),
            max_ejection: Setting::of(max_ejection),
        }
    }
}

/// How long calls and their traces are kept.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawTimers {
    /// Estimate of the round-trip time, T1 of RFC 3261 §17.1.1.1. Less than `"500ms"` only in a network of your own. A
    /// reload does not change it for `[proxy]`.
    pub(crate) t1: Setting<Time<1, { 10 * SECOND }>>,
    /// How long an INVITE with a provisional answer counts as load when nothing more is heard of it; more than
    /// 64 * `t1`. The counterpart of Timer C, RFC 3261 §16.6, which is to exceed three minutes.
    pub(crate) invite: Setting<Time<1, DAY>>,
    /// How long a call counts as load when no message passes, which is what a lost BYE looks like.
    pub(crate) call: Setting<Time<1, { 30 * DAY }>>,
    /// How long an ended session is remembered after its last message, so that late retransmissions reach the same server;
    /// at least 64 * `t1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Time<1, HOUR>>", extend("x-default" = "64 * `t1`"))]
    pub(crate) linger: Option<Setting<Time<1, HOUR>>>,
}

impl Default for RawTimers {
    fn default() -> Self {
        let sessions = balance::SessionSettings::default();
        Self {
            t1: Setting::of(transaction::Timers::default().t1),
            invite: Setting::of(sessions.invite_timeout),
            call: Setting::of(sessions.call_lifetime),
            linger: None,
        }
    }
}

/// Keys of the tokens in Record-Route and Via that lead requests and responses back to their server. Balancers that
/// share a key find each other's calls.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawToken {
    /// The key. Without one a random key is made at the first start and kept as `NAME.key`, readable by its owner only: in the
    /// state directory of the service (`STATE_DIRECTORY`, as systemd sets it), or else beside this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<KeyText>", extend("x-default" = "made once and kept"))]
    pub(crate) key: Option<Setting<KeyText>>,
    /// File with the key, instead of `key`: the 16 bytes, or their text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<KeyPath>", extend("x-default" = "none"))]
    pub(crate) key_file: Option<Setting<KeyPath>>,
    /// Keys whose tokens are still accepted. To change keys, move the old one here for one `lifetime`.
    pub(crate) previous_keys: Vec<Setting<KeyText>>,
    /// How long a token is accepted. Longer than the longest call.
    pub(crate) lifetime: Setting<Time<MINUTE, YEAR>>,
}

impl Default for RawToken {
    fn default() -> Self {
        Self { key: None, key_file: None, previous_keys: Vec::new(), lifetime: "24h".into() }
    }
}

/// HTTP: status, metrics and administration. On an address that other machines can reach it asks for a token.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawAdmin {
    /// Local address and port; `""` or `false` = off. On another address than loopback each request has to show the
    /// token, as `Authorization: Bearer TOKEN`; `/healthz` and `/readyz` do not. The token is not encrypted on its way.
    /// A reload does not change it.
    pub(crate) listen: Setting<AdminListen>,
    /// The token; one that is set is asked for on loopback, too. Without one a random token is made at the first start
    /// that needs it and kept where `NAME.key` is, as `NAME.admin-token`, readable by its owner only.
    /// A reload does not change it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<BearerText>", extend("x-default" = "made once and kept"))]
    pub(crate) token: Option<Setting<BearerText>>,
    /// File with the token, instead of `token`.
    /// A reload does not change it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<KeyPath>", extend("x-default" = "none"))]
    pub(crate) token_file: Option<Setting<KeyPath>>,
}

impl Default for RawAdmin {
    fn default() -> Self {
        Self { listen: "127.0.0.1:8060".into(), token: None, token_file: None }
    }
}

/// What servers can take, as `sarabande monitor --report` beside each of them finds out and sends every second
/// (docs/elastic.md). Without this table nobody is listened to.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["listen"]))]
pub(crate) struct RawCapacity {
    /// Local address and port, over TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<CapacityListen>")]
    pub(crate) listen: Option<Setting<CapacityListen>>,
    /// The key that the monitors have, too: who has it may say what each server can take.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<KeyText>", extend("x-default" = "none, with `key_file`"))]
    pub(crate) key: Option<Setting<KeyText>>,
    /// File with the key, instead of `key`: the 16 bytes, or their text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<KeyPath>", extend("x-default" = "none"))]
    pub(crate) key_file: Option<Setting<KeyPath>>,
    /// Networks that monitors may connect from; everyone where there is none.
    pub(crate) from: Vec<Setting<NetworkText>>,
}

/// The log, on standard error. At most 50 lines of one kind at once and 10 a second are written; those that cannot be,
/// since the disk is full or nobody reads them, are counted, and nothing waits for them.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawLog {
    /// Least severity that is written. `"debug"` adds a line for each request that failed: its method and Call-ID, who
    /// sent it, and which member or which rule refused it.
    /// A reload does not change it.
    pub(crate) level: Setting<Choice<Level>>,
    /// Lines for people, or one JSON object a line.
    /// A reload does not change it.
    pub(crate) format: Setting<Choice<LogFormat>>,
}

impl Default for RawLog {
    fn default() -> Self {
        Self { level: "info".into(), format: "text".into() }
    }
}

/// What SIGTERM does: no new calls are taken, those in progress may end.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawStop {
    /// Longest wait for calls in progress, also once another process has taken over; `"0s"` = stop at once.
    pub(crate) wait: Setting<Time<0, DAY>>,
}

impl Default for RawStop {
    fn default() -> Self {
        Self { wait: "30s".into() }
    }
}

/// Look-up of names: of members, and of the hosts to which members send requests.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawDns {
    /// Time between two look-ups of a name; that of a host to which members send requests is asked for again only while
    /// it is in use. When one fails, or the part of it that is about one target or address family, the addresses of before
    /// stay, and a member's name is asked for every 3 s until all of it was answered.
    pub(crate) refresh: Setting<Time<SECOND, DAY>>,
    /// DNS servers to ask, in this order, over UDP and TCP. Without any, those of the system (`/etc/resolv.conf`).
    pub(crate) servers: Vec<Setting<DnsServer>>,
}

impl Default for RawDns {
    fn default() -> Self {
        Self { refresh: "30s".into(), servers: Vec::new() }
    }
}

impl FileKind for RawConfig {
    fn schema() -> &'static Value {
        static SCHEMA: OnceLock<Value> = OnceLock::new();
        SCHEMA.get_or_init(document::schema::<Self>)
    }
}
