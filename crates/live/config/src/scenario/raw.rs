//! A scenario as it is written: the one table of its keys, in the manner of the configuration's.

use std::collections::BTreeMap;

use ::overload::RejectAt;
use ::overload::retry_after::During;
use base::Transport;
use load::ArrivalProcess;
use proxy::ProxyTimers;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::OnceLock;

use super::names::RoleName;
use super::typed::{Costs, Discard, Group, RunSettings, Select, Stream};
use super::{BalancerSettings, Overload, ScenarioFeedback, ScenarioLocal, Ties};
use crate::document::{self, FileKind};
use crate::kind::{
    CallRate, Capacity, Choice, Count, DAY, Fine, Flag, HOUR, HostName, MINUTE, PolicyName, Ratio, SECOND,
    Seed, Share, Time, Times, Title,
};
use crate::raw::usual_weights;
use crate::setting::{Setting, Several};

/// Longest service time and longest way of a message, in nanoseconds.
const FINE_MAX: u64 = 60_000_000_000;
/// Nanoseconds.
const WAIT_MAX: u64 = 1_000_000_000;

/// Longest time of a simulation, in milliseconds.
const RUN_MAX: u64 = 30 * DAY;

/// Any share.
type Part = Share<0, 1000>;

/// How a service time spreads, by name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ServiceName {
    Deterministic,
    Exponential,
}

/// A scenario of the simulator of Sarabande.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Sarabande scenario", extend("required" = ["host", "calls"]))]
pub(super) struct RawScenario {
    pub(super) run: RawRun,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("minProperties" = 1, "propertyNames" = { "pattern": "^[-_0-9A-Za-z]+$" }))]
    pub(super) host: BTreeMap<String, RawHost>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("minProperties" = 1, "propertyNames" = { "pattern": "^[-_0-9A-Za-z]+$" }))]
    pub(super) calls: BTreeMap<String, RawCalls>,
    pub(super) link: Vec<RawLink>,
    pub(super) fault: Vec<RawFault>,
    pub(super) costs: RawCosts,
    pub(super) timers: RawTimers,
}

/// How long is simulated, and how it is measured.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawRun {
    /// What the scenario is called in reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Title>", extend("x-default" = "the file's name"))]
    pub(super) title: Option<Setting<Title>>,
    /// Simulated time.
    pub(super) duration: Setting<Time<SECOND, RUN_MAX>>,
    /// Time at the start that is left out of all averages; shorter than `duration`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Time<0, RUN_MAX>>", extend("x-default" = "a fifth of `duration`"))]
    pub(super) warm_up: Option<Setting<Time<0, RUN_MAX>>>,
    /// Decides everything that is drawn: the same seed gives the same run.
    pub(super) seed: Setting<Seed>,
    /// Independent runs; from 2 on averages have confidence intervals.
    pub(super) replications: Setting<Count<1, 1000>>,
    /// Width of a bin of the time series; at least one bin has to lie between the warm-up and the end. Rates and
    /// utilisation are means over whole bins, so the warm-up should end where a bin does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "Setting<Time<10, HOUR>>",
        extend("x-default" = "a twentieth of `duration`, at most `\"10s\"`")
    )]
    pub(super) bin: Option<Setting<Time<10, HOUR>>>,
    /// Half width of a 95 % confidence interval, relative to its mean, above which a run says that it is too wide.
    pub(super) precision: Setting<Share<1, 1000>>,
}

impl Default for RawRun {
    fn default() -> Self {
        let RunSettings { duration, seed, replications, precision, .. } = RunSettings::default();
        Self {
            title: None,
            duration: Setting::of(duration),
            warm_up: None,
            seed: Setting::of(seed),
            replications: Setting::of(replications),
            bin: None,
            precision: Setting::of(precision),
        }
    }
}

/// One host, or several like ones. `<name>` is yours to choose (letters, digits, `-`, `_`; not `agents`), and paths,
/// links and faults refer to it.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["capacity"]))]
pub(super) struct RawHost {
    /// How many hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Count<1, 1000>>", extend("x-default" = "as many as `capacity` lists, or 1"))]
    pub(super) count: Option<Setting<Count<1, 1000>>>,
    /// Calls that each host can carry a second, or a list with one number a host; `"unlimited"` = its work costs no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Several<Capacity, CallRate<1>>")]
    pub(super) capacity: Option<Several<Capacity, CallRate<1>>>,
    /// What the hosts do: `"proxy"` forwards with transaction state and record-routes, `"balancer"` assigns each call to
    /// one of the servers that come next on the path, `"server"` answers calls itself.
    pub(super) role: Setting<Choice<RoleName>>,
    /// Who gets the next call, as in the configuration of the server. Only for a balancer.
    pub(super) policy: Setting<Choice<PolicyName>>,
    /// Which of several servers gets the next call that are level for the policy: they take `turns`, as in the server, or each
    /// gets it with the same probability (`random`). Only with a policy of least load: `cjsq`, `tjsq`, `tlwl`.
    pub(super) ties: Setting<Choice<Ties>>,
    /// Work per method, relative to a BYE. Only with policy `tlwl`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-default" = usual_weights()))]
    pub(super) weights: BTreeMap<String, Setting<Ratio>>,
    /// Whether each of those servers is asked by OPTIONS every 2 s whether it lives, and gets no new calls after two
    /// probes without an answer. Only for a balancer.
    pub(super) probes: Setting<Flag>,
    /// Whether a server that fails calls which the others do not fail gets no new calls for a while (`[pool.NAME.outlier]`
    /// in the configuration of the server). Only for a balancer.
    pub(super) outlier: Setting<Flag>,
    /// How a proxy chooses among the hosts that come next on the path. Only for a proxy.
    pub(super) select: Setting<Choice<Select>>,
    /// Processors each; `capacity` is that of all together.
    pub(super) workers: Setting<Count<1, 64>>,
    /// Messages from outside that may wait; more are dropped.
    pub(super) buffer: Setting<Count<1, 1_000_000>>,
    /// What a full buffer drops of what comes by TCP: `any` message, or `new-calls` alone, while all else waits beyond
    /// the limit (Overload paper, section V-D). Of what comes by UDP it drops any. Only for a proxy.
    pub(super) discard: Setting<Choice<Discard>>,
    /// Transport between these hosts and other hosts; with UDP requests are retransmitted.
    pub(super) transport: Setting<Choice<Transport>>,
    /// Share of the processor that something else takes.
    pub(super) background: Setting<Share<0, 990>>,
    pub(super) overload: RawOverload,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RawStalls")]
    pub(super) stalls: Option<RawStalls>,
}

impl Default for RawHost {
    fn default() -> Self {
        let BalancerSettings { ties, probes, outlier, .. } = BalancerSettings::default();
        let Group { workers, buffer, discard, select, transport, background, .. } = Group::default();
        Self {
            count: None,
            capacity: None,
            role: Setting::of(RoleName::Proxy),
            policy: Setting::of(PolicyName::default()),
            ties: Setting::of(ties),
            weights: BTreeMap::new(),
            probes: Setting::of(probes),
            outlier: Setting::of(outlier),
            select: Setting::of(select),
            workers: Setting::of(workers.into()),
            buffer: Setting::of(buffer),
            discard: Setting::of(discard),
            transport: Setting::of(transport),
            background: Setting::of(background),
            overload: RawOverload::default(),
            stalls: None,
        }
    }
}

/// What a host does about more calls than it can carry.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawOverload {
    /// Law by which new INVITEs are admitted: all (`none`), by high and low watermark of the queue (`bang-bang`), with
    /// a probability that keeps the processor at its target (`occupancy`), by expected wait (`delay`).
    pub(super) local: Setting<Choice<ScenarioLocal>>,
    /// What the host before is told so that it rejects instead: its acceptance probability (`hop-by-hop`), the least one
    /// on the way to each target (`end-to-end`), a `rate` (RFC 7415), a `window` (RFC 6357). A probability needs `local
    /// = "occupancy"`. The host before must have the same `feedback`, or it pays no heed; then this one rejects itself.
    pub(super) feedback: Setting<Choice<ScenarioFeedback>>,
    /// When a request is rejected: before it waits (`early`), or when its turn comes (`late`).
    pub(super) reject: Setting<Choice<RejectAt>>,
    /// Of `reject = "early"`: whether requests that wait for their rejection take room in `buffer`, and are dropped when it
    /// is full. In the Overload paper (section VI-A) only admitted requests do.
    pub(super) buffer_rejections: Setting<Flag>,
    /// Whether a rejection leaves a transaction behind.
    pub(super) stateful: Setting<Flag>,
    /// Whether an INVITE that comes again is told from a new one before it can be rejected. Without, as in the Overload
    /// paper (section VI-A: "which avoids that state needs to be looked up"), a call that was taken may be answered 503 as
    /// well as 200, and then fails. Only without `stateful` and `feedback`, which know their transactions.
    pub(super) look_up: Setting<Flag>,
    /// Whether a request that got 503 from the next host is tried at another one of its group: a setting of the host
    /// before, not of the one that rejects.
    pub(super) retry: Setting<Flag>,
    /// Of `bang-bang`: Retry-After of each 503; nothing is sent to the host for so long.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Time<SECOND, HOUR>>", extend("x-default" = "none"))]
    pub(super) retry_after: Option<Setting<Time<SECOND, HOUR>>>,
    /// What a 503 with Retry-After means that comes while this host spares its sender already: the pause lasts until the later
    /// end (`prolong`), or nothing new (`ignore`).
    pub(super) during_pause: Setting<Choice<During>>,
    /// Of `bang-bang`: share of the buffer in use above which every new INVITE is rejected.
    pub(super) high: Setting<Share<10, 1000>>,
    /// Of `bang-bang`: share of the buffer in use below which none is any more.
    pub(super) low: Setting<Share<10, 1000>>,
    /// Of `occupancy`, also as it is told upstream: the utilisation aimed at.
    pub(super) target: Setting<Share<10, 1000>>,
    /// Of `occupancy`: the least probability of acceptance.
    pub(super) acceptance_min: Setting<Share<1, 1000>>,
    /// Of `occupancy`: how many times as high the probability may get from one period to the next.
    pub(super) increase_max: Setting<Ratio>,
    /// Of `occupancy`: length of a period.
    pub(super) period: Setting<Time<1, MINUTE>>,
    /// Of `occupancy`: weight of the newest utilisation in a moving average; 1 takes each as it is.
    pub(super) smoothing: Setting<Share<1, 1000>>,
    /// Of `delay`: expected wait from which on no new INVITE is admitted. From half of it on, some are not.
    pub(super) wait: Setting<Fine<WAIT_MAX>>,
    /// Whether the queue serves timers first, then responses and requests in dialogs, then new INVITEs, joins
    /// retransmissions to what already waits, and drops what nobody waits for any more.
    pub(super) triage: Setting<Flag>,
}

impl Default for RawOverload {
    fn default() -> Self {
        let Overload { local, feedback, reject, buffer_rejections, stateful, look_up, retry, .. } =
            Overload::default();
        let Overload { during_pause, watermarks: (high, low), occupancy, wait, triage, .. } =
            Overload::default();
        Self {
            local: Setting::of(local),
            feedback: Setting::of(feedback),
            reject: Setting::of(reject),
            buffer_rejections: Setting::of(buffer_rejections),
            stateful: Setting::of(stateful),
            look_up: Setting::of(look_up),
            retry: Setting::of(retry),
            retry_after: None,
            during_pause: Setting::of(during_pause),
            high: Setting::of(high),
            low: Setting::of(low),
            target: Setting::of(occupancy.target),
            acceptance_min: Setting::of(occupancy.acceptance_min),
            increase_max: Setting::of(occupancy.increase_max),
            period: Setting::of(occupancy.period),
            smoothing: Setting::of(occupancy.weight),
            wait: Setting::of(wait),
            triage: Setting::of(triage),
        }
    }
}

/// Pauses of the whole host, as garbage collection makes them.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["every", "length"]))]
pub(super) struct RawStalls {
    /// Mean time from the end of one to the next, exponential.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Time<1, DAY>>")]
    pub(super) every: Option<Setting<Time<1, DAY>>>,
    /// How long one lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Times<HOUR>>")]
    pub(super) length: Option<Setting<Times<HOUR>>>,
}

/// Calls that take the same way. `<name>` is yours to choose.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["path"]))]
pub(super) struct RawCalls {
    /// Names of the hosts passed, the caller's side first, at most six. The caller chooses the first and the last at
    /// random, each host the next one in between; servers behind a balancer by that. Hosts of role `server` end a
    /// path; behind all others are callees whose work costs nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("minItems" = 1, "maxItems" = 6))]
    pub(super) path: Vec<Setting<HostName>>,
    /// New calls a second, all the time. Either this or `load`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<CallRate<1>>", extend("x-default" = "as `load` says"))]
    pub(super) rate: Option<Setting<CallRate<1>>>,
    /// New calls a second over time, in steps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "as `rate` says"))]
    pub(super) load: Vec<RawStep>,
    /// How calls follow one another: at random, as those of many independent callers do, or evenly.
    pub(super) arrivals: Setting<Choice<ArrivalProcess>>,
    /// How long an answered call lasts.
    pub(super) holding: Setting<Times<RUN_MAX>>,
    /// From INVITE to 180 at the callee.
    pub(super) ring: Setting<Time<0, HOUR>>,
    /// From 180 to 200.
    pub(super) answer: Setting<Time<0, HOUR>>,
    /// When a caller gives up a call that nobody has answered.
    pub(super) patience: Setting<Time<1, HOUR>>,
    /// Transport between callers, callees and their hosts.
    pub(super) transport: Setting<Choice<Transport>>,
}

impl Default for RawCalls {
    fn default() -> Self {
        let Stream { arrivals, holding, ring, answer, patience, transport, .. } = Stream::default();
        Self {
            path: Vec::new(),
            rate: None,
            load: Vec::new(),
            arrivals: Setting::of(arrivals),
            holding: Setting::of(holding),
            ring: Setting::of(ring),
            answer: Setting::of(answer),
            patience: Setting::of(patience),
            transport: Setting::of(transport),
        }
    }
}

/// One step of a load; the first also says from when on there are calls.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["at", "rate"]))]
pub(super) struct RawStep {
    /// From when on; later than the step before, earlier than the end of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Time<0, RUN_MAX>>")]
    pub(super) at: Option<Setting<Time<0, RUN_MAX>>>,
    /// New calls a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<CallRate<0>>")]
    pub(super) rate: Option<Setting<CallRate<0>>>,
    /// Whether the rate then goes linearly to that of the next step.
    pub(super) ramp: Setting<Flag>,
}

impl Default for RawStep {
    fn default() -> Self {
        Self { at: None, rate: None, ramp: false.into() }
    }
}

/// What happens to messages between two groups of hosts, in both directions. Without such a table every message
/// arrives, at once; several tables for the same hosts add up.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["between"]))]
pub(super) struct RawLink {
    /// The two names; `"agents"` = callers and callees.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("minItems" = 2, "maxItems" = 2))]
    pub(super) between: Vec<Setting<HostName>>,
    /// From when on.
    pub(super) since: Setting<Time<0, RUN_MAX>>,
    /// Until when.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Time<0, RUN_MAX>>", extend("x-default" = "the end of the run"))]
    pub(super) until: Option<Setting<Time<0, RUN_MAX>>>,
    /// Time on the way.
    pub(super) delay: Setting<Fine<FINE_MAX>>,
    /// Added to it, drawn evenly from zero to this.
    pub(super) jitter: Setting<Fine<FINE_MAX>>,
    /// Share of messages that is lost.
    pub(super) loss: Setting<Part>,
    /// Share that arrives twice.
    pub(super) duplication: Setting<Part>,
    /// Share that is held back by another `delay` and `jitter` in full, and so overtaken.
    pub(super) reordering: Setting<Part>,
    /// Whether nothing arrives at all, as with a loss of 100 %.
    pub(super) partition: Setting<Flag>,
}

impl Default for RawLink {
    fn default() -> Self {
        Self {
            between: Vec::new(),
            since: "0s".into(),
            until: None,
            delay: "0s".into(),
            jitter: "0s".into(),
            loss: 0.into(),
            duplication: 0.into(),
            reordering: 0.into(),
            partition: false.into(),
        }
    }
}

/// What happens to one host. Exactly one of `restart`, `slowdown`, `stall` and `failing`.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["host", "at"]))]
pub(super) struct RawFault {
    /// Name of the host. Of several like ones `core` and `core.1` are the first, `core.2` the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<HostName>")]
    pub(super) host: Option<Setting<HostName>>,
    /// When; before the end of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Time<0, RUN_MAX>>")]
    pub(super) at: Option<Setting<Time<0, RUN_MAX>>>,
    /// It is dead for so long: what is sent to it is lost, and its state is gone, of a server its calls, of a proxy its
    /// transactions, of a balancer its table.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Time<1, RUN_MAX>>", extend("x-default" = "none"))]
    pub(super) restart: Option<Setting<Time<1, RUN_MAX>>>,
    /// From then on it has this share of its capacity; 1 = whole again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Share<1, 1000>>", extend("x-default" = "none"))]
    pub(super) slowdown: Option<Setting<Share<1, 1000>>>,
    /// It stops for so long, and keeps its state.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Time<1, HOUR>>", extend("x-default" = "none"))]
    pub(super) stall: Option<Setting<Time<1, HOUR>>>,
    /// From then on it answers this share of new calls with 500, at once and without work; 0 = none. Only for a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Part>", extend("x-default" = "none"))]
    pub(super) failing: Option<Setting<Part>>,
}

/// Service times on a host that carries `base_capacity`; a host of another capacity scales all of them.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawCosts {
    /// Calls a second that the base server carries with the times below.
    pub(super) base_capacity: Setting<CallRate<1>>,
    /// A message from outside at a proxy or a balancer.
    pub(super) message: Setting<Fine<FINE_MAX>>,
    /// A timer that makes a transaction act.
    pub(super) timer: Setting<Fine<FINE_MAX>>,
    /// A timer that only clears a transaction away.
    pub(super) cleanup: Setting<Fine<FINE_MAX>>,
    /// Rejecting a request without state.
    pub(super) reject: Setting<Fine<FINE_MAX>>,
    /// Rejecting a request through a transaction.
    pub(super) reject_stateful: Setting<Fine<FINE_MAX>>,
    /// Taking in the ACK to a rejection that left no state.
    pub(super) reject_ack: Setting<Fine<FINE_MAX>>,
    /// An INVITE at a host of role `server`, relative to a BYE. Together they take it 1 / `capacity`, an ACK nothing.
    pub(super) invite_work: Setting<Ratio>,
    /// A request that comes again at a host of role `server`, as a share of the work of the first. At 0 it is absorbed on
    /// arrival, without waiting, as `sarabande load answer` does; otherwise it waits like the first.
    pub(super) repeat_work: Setting<Part>,
    /// How service times spread around these means: not at all, exponentially, or as a list of measured times of any unit,
    /// least first, says: their quantiles, relative to their mean.
    pub(super) service: Several<Choice<ServiceName>, Ratio>,
    pub(super) operations: RawOperations,
}

impl Default for RawCosts {
    fn default() -> Self {
        let costs = Costs::default();
        Self {
            base_capacity: Setting::of(costs.base_capacity),
            message: Setting::of(costs.message),
            timer: Setting::of(costs.timer),
            cleanup: Setting::of(costs.cleanup),
            reject: Setting::of(costs.reject),
            reject_stateful: Setting::of(costs.reject_stateful),
            reject_ack: Setting::of(costs.reject_ack),
            invite_work: Setting::of(costs.invite_work),
            repeat_work: Setting::of(costs.repeat_work),
            service: Several::One(Setting::of(ServiceName::Deterministic)),
            operations: RawOperations::default(),
        }
    }
}

/// What single operations cost, on top of the times above: those that the server counts in its ledger while it does the
/// same work; a host of role `server` counts none. `bench_prices` measures them. With a price here, `costs.message` may be 0.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawOperations {
    /// Reading the header of a message.
    pub(super) scan: Setting<Fine<FINE_MAX>>,
    /// Looking a session up.
    pub(super) lookup: Setting<Fine<FINE_MAX>>,
    /// Creating a session.
    pub(super) create_session: Setting<Fine<FINE_MAX>>,
    /// Running the policy over the servers.
    pub(super) choose: Setting<Fine<FINE_MAX>>,
    /// Making a token of Via or Record-Route.
    pub(super) make_token: Setting<Fine<FINE_MAX>>,
    /// Verifying one.
    pub(super) verify_token: Setting<Fine<FINE_MAX>>,
    /// Forwarding a message.
    pub(super) forward: Setting<Fine<FINE_MAX>>,
    /// Answering a request oneself, without state.
    pub(super) reject: Setting<Fine<FINE_MAX>>,
    /// Dropping a message without an answer.
    pub(super) discard: Setting<Fine<FINE_MAX>>,
    /// Ending a session or lease whose time is over.
    pub(super) expire: Setting<Fine<FINE_MAX>>,
    /// Creating a transaction.
    pub(super) create_transaction: Setting<Fine<FINE_MAX>>,
    /// Looking for the transaction of a message.
    pub(super) r#match: Setting<Fine<FINE_MAX>>,
    /// Sending a message again.
    pub(super) retransmit: Setting<Fine<FINE_MAX>>,
    /// Taking a repetition, or the ACK to a failure.
    pub(super) absorb: Setting<Fine<FINE_MAX>>,
    /// A timer of a transaction.
    pub(super) timer_fire: Setting<Fine<FINE_MAX>>,
    /// Ending a transaction.
    pub(super) expire_transaction: Setting<Fine<FINE_MAX>>,
}

impl Default for RawOperations {
    fn default() -> Self {
        let free = || "0s".into();
        Self {
            scan: free(),
            lookup: free(),
            create_session: free(),
            choose: free(),
            make_token: free(),
            verify_token: free(),
            forward: free(),
            reject: free(),
            discard: free(),
            expire: free(),
            create_transaction: free(),
            r#match: free(),
            retransmit: free(),
            absorb: free(),
            timer_fire: free(),
            expire_transaction: free(),
        }
    }
}

/// SIP timers of all hosts and agents, RFC 3261 §17, Table 4.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawTimers {
    /// T1, estimate of the round-trip time.
    pub(super) t1: Setting<Time<1, { 10 * SECOND }>>,
    /// T2, longest time between retransmissions of a request other than INVITE; at least `t1`.
    pub(super) t2: Setting<Time<1, MINUTE>>,
    /// T4, how long a message stays in the network.
    pub(super) t4: Setting<Time<0, MINUTE>>,
    /// Timer C: how long a proxy waits for the final response to an INVITE after a provisional one.
    pub(super) c: Setting<Time<1, DAY>>,
}

impl Default for RawTimers {
    fn default() -> Self {
        let ProxyTimers { transaction, c } = ProxyTimers::default();
        Self {
            t1: Setting::of(transaction.t1),
            t2: Setting::of(transaction.t2),
            t4: Setting::of(transaction.t4),
            c: Setting::of(c),
        }
    }
}

impl FileKind for RawScenario {
    fn schema() -> &'static Value {
        static SCHEMA: OnceLock<Value> = OnceLock::new();
        SCHEMA.get_or_init(document::schema::<Self>)
    }
}
