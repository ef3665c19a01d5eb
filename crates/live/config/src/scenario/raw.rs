//! A scenario as it is written: the one table of its keys, in the manner of the configuration's.

use std::collections::BTreeMap;

use ::overload::RejectAt;
use ::overload::retry_after::During;
use base::Transport;
use load::ArrivalProcess;
use proxy::ProxyTimers;
use serde_json::Value;
use std::sync::OnceLock;
use std::time::Duration;

use super::names::{RoleName, ServiceName};
use super::typed::{Costs, Discard, Group, RunSettings, Select, Stream};
use super::{BalancerSettings, Overload, ScenarioFeedback, ScenarioLocal, Ties};
use crate::document::{self, FileKind};
use crate::kind::{
    CallRate, Capacity, Choice, Count, DAY, Fine, Flag, HOUR, HostName, MINUTE, MessageRate, PolicyName,
    Ratio, SECOND, Seed, Share, Time, Times, Title,
};
use crate::raw::{RawWeights, usual_weights};
use crate::setting::{Setting, Several};
use crate::table::{NAME, REQUIRED};

/// Longest service time and longest way of a message, in nanoseconds.
const FINE_MAX: u64 = 60_000_000_000;
/// Nanoseconds.
const WAIT_MAX: u64 = 1_000_000_000;

/// Longest time of a simulation, in milliseconds.
const RUN_MAX: u64 = 30 * DAY;

/// Any share.
type Part = Share<0, 1000>;

table! {
    /// A scenario of the simulator of Sarabande.
    struct RawScenario where { "title": "Sarabande scenario" } {
        run: RawRun,
        host: BTreeMap<String, RawHost> where { "minProperties": 1, "propertyNames": { "pattern": NAME } } => REQUIRED,
        calls: BTreeMap<String, RawCalls> where { "minProperties": 1, "propertyNames": { "pattern": NAME } } => REQUIRED,
        link: Vec<RawLink>,
        fault: Vec<RawFault>,
        costs: RawCosts,
        timers: RawTimers,
    }

    let RunSettings { duration, seed, replications, precision, .. } = RunSettings::default();

    /// How long is simulated, and how it is measured.
    struct RawRun {
        /// What the scenario is called in reports.
        title: Option<Setting<Title>> => "the file's name",
        /// Simulated time.
        duration: Setting<Time<SECOND, RUN_MAX>> = duration,
        /// Time at the start that is left out of all averages; shorter than `duration`.
        warm_up: Option<Setting<Time<0, RUN_MAX>>> => "a fifth of `duration`",
        /// Decides everything that is drawn: the same seed gives the same run.
        seed: Setting<Seed> = seed,
        /// Independent runs; from 2 on averages have confidence intervals.
        replications: Setting<Count<1, 1000>> = replications,
        /// Width of a bin of the time series; at least one bin has to lie between the warm-up and the end. Rates and
        /// utilisation are means over whole bins, so the warm-up should end where a bin does.
        bin: Option<Setting<Time<10, HOUR>>> => "a twentieth of `duration`, at most `\"10s\"`",
        /// Half width of a 95 % confidence interval, relative to its mean, above which a run says that it is too
        /// wide.
        precision: Setting<Share<1, 1000>> = precision,
    }

    let BalancerSettings { ties, probes, outlier, .. } = BalancerSettings::default();
    let Group { workers, buffer, discard, select, transport, background, .. } = Group::default();

    /// One host, or several like ones. `<name>` is yours to choose (letters, digits, `-`, `_`; not `agents`), and
    /// paths, links and faults refer to it.
    struct RawHost {
        /// How many hosts.
        count: Option<Setting<Count<1, 1000>>> => "as many as `capacity` lists, or 1",
        /// Calls that each host can carry a second, or a list with one number a host; `"unlimited"` = its work costs
        /// no time.
        capacity: Option<Several<Capacity, CallRate<1>>> => REQUIRED,
        /// What the hosts do: `"proxy"` forwards with transaction state and record-routes, `"balancer"` assigns each
        /// call to one of the servers that come next on the path, `"server"` answers calls itself, `"database"` is
        /// asked by hosts that name it in `database`.
        role: Setting<Choice<RoleName>> = RoleName::Proxy,
        /// Who gets the next call, as in the configuration of the server. Only for a balancer.
        policy: Setting<Choice<PolicyName>> = PolicyName::default(),
        /// Which of several servers gets the next call that are level for the policy: they take `turns`, as in the
        /// server, or each gets it with the same probability (`random`). Only with a policy of least load: `cjsq`,
        /// `tjsq`, `tlwl`.
        ties: Setting<Choice<Ties>> = ties,
        /// Work per method, relative to a BYE, as in the configuration of the server. Only with policy `tlwl`.
        weights: RawWeights => usual_weights(),
        /// Whether each of those servers is asked by OPTIONS every 2 s whether it lives, and gets no new calls after
        /// two probes without an answer. Only for a balancer.
        probes: Setting<Flag> = probes,
        /// Whether a server that fails calls which the others do not fail gets no new calls for a while
        /// (`outlier` of a pool in the configuration of the server). Only for a balancer.
        outlier: Setting<Flag> = outlier,
        /// How a proxy chooses among the hosts that come next on the path. Only for a proxy.
        select: Setting<Choice<Select>> = select,
        /// Processors each; `capacity` is that of all together.
        workers: Setting<Count<1, 64>> = workers.into(),
        /// Messages from outside that may wait; more are dropped.
        buffer: Setting<Count<1, 1_000_000>> = buffer,
        /// What a full buffer drops of what comes by TCP: `any` message, or `new-calls` alone, while all else waits
        /// beyond the limit (Overload paper, section V-D). Of what comes by UDP it drops any. Only for a proxy.
        discard: Setting<Choice<Discard>> = discard,
        /// Transport between these hosts and other hosts; with UDP requests are retransmitted.
        transport: Setting<Choice<Transport>> = transport,
        /// Share of the processor that something else takes.
        background: Setting<Share<0, 990>> = background,
        /// Name of hosts of role `database`. An INVITE that begins a call, a repeated one too, is looked up in one of
        /// them, in turn, before this host sees it; meanwhile the host does something else.
        database: Option<Setting<HostName>> => "none",
        /// Messages that the network card of each host carries a second, each way. A thousand may wait for it each way;
        /// more are dropped. Not for a database.
        card: Option<Setting<MessageRate>> => "any number, at once",
        overload: RawOverload,
        stalls: Option<RawStalls>,
        quota: Option<RawQuota>,
    }

    let Overload { local, feedback, reject, buffer_rejections, stateful, look_up, retry, .. } =
        Overload::default();
    let Overload { during_pause, watermarks: (high, low), occupancy, wait, triage, .. } =
        Overload::default();

    /// What a host does about more calls than it can carry.
    struct RawOverload {
        /// Law by which new INVITEs are admitted: all (`none`), by high and low watermark of the queue (`bang-bang`),
        /// with a probability that keeps the processor at its target (`occupancy`), by expected wait (`delay`).
        local: Setting<Choice<ScenarioLocal>> = local,
        /// What the host before is told so that it rejects instead: its acceptance probability (`hop-by-hop`), the
        /// least one on the way to each target (`end-to-end`), a `rate` (RFC 7415), a `window` (RFC 6357). A
        /// probability needs `local = "occupancy"`. The host before must have the same `feedback`, or it pays no
        /// heed; then this one rejects itself.
        feedback: Setting<Choice<ScenarioFeedback>> = feedback,
        /// When a request is rejected: before it waits (`early`), or when its turn comes (`late`).
        reject: Setting<Choice<RejectAt>> = reject,
        /// Of `reject = "early"`: whether requests that wait for their rejection take room in `buffer`, and are
        /// dropped when it is full. In the Overload paper (section VI-A) only admitted requests do.
        buffer_rejections: Setting<Flag> = buffer_rejections,
        /// Whether a rejection leaves a transaction behind.
        stateful: Setting<Flag> = stateful,
        /// Whether an INVITE that comes again is told from a new one before it can be rejected. Without, as in the
        /// Overload paper (section VI-A: "which avoids that state needs to be looked up"), a call that was taken may
        /// be answered 503 as well as 200, and then fails. Only without `stateful` and `feedback`, which know their
        /// transactions.
        look_up: Setting<Flag> = look_up,
        /// Whether a request that got 503 from the next host is tried at another one of its group: a setting of the
        /// host before, not of the one that rejects.
        retry: Setting<Flag> = retry,
        /// Of `bang-bang`: Retry-After of each 503; nothing is sent to the host for so long.
        retry_after: Option<Setting<Time<SECOND, HOUR>>> => "none",
        /// What a 503 with Retry-After means that comes while this host spares its sender already: the pause lasts
        /// until the later end (`prolong`), or nothing new (`ignore`).
        during_pause: Setting<Choice<During>> = during_pause,
        /// Of `bang-bang`: share of the buffer in use above which every new INVITE is rejected.
        high: Setting<Share<10, 1000>> = high,
        /// Of `bang-bang`: share of the buffer in use below which none is any more.
        low: Setting<Share<10, 1000>> = low,
        /// Of `occupancy`, also as it is told upstream: the utilisation aimed at.
        target: Setting<Share<10, 1000>> = occupancy.target,
        /// Of `occupancy`: the least probability of acceptance.
        acceptance_min: Setting<Share<1, 1000>> = occupancy.acceptance_min,
        /// Of `occupancy`: how many times as high the probability may get from one period to the next.
        increase_max: Setting<Ratio> = occupancy.increase_max,
        /// Of `occupancy`: length of a period.
        period: Setting<Time<1, MINUTE>> = occupancy.period,
        /// Of `occupancy`: weight of the newest utilisation in a moving average; 1 takes each as it is.
        smoothing: Setting<Share<1, 1000>> = occupancy.weight,
        /// Of `delay`: expected wait from which on no new INVITE is admitted. From half of it on, some are not.
        wait: Setting<Fine<WAIT_MAX>> = wait,
        /// Whether the queue serves timers first, then responses and requests in dialogs, then new INVITEs, joins
        /// retransmissions to what already waits, and drops what nobody waits for any more.
        triage: Setting<Flag> = triage,
    }

    /// Pauses of the whole host, as garbage collection makes them.
    struct RawStalls {
        /// Mean time from the end of one to the next, exponential.
        every: Option<Setting<Time<1, DAY>>> => REQUIRED,
        /// How long one lasts.
        length: Option<Setting<Times<HOUR>>> => REQUIRED,
    }

    /// A control group that allows a host its `capacity` in parts: it serves at the speed of the whole processor until its
    /// part of a period is used up, and then nothing until the next period (`cpu.max` on Linux). Without it a host serves
    /// evenly, as a slower processor. `background` takes its share of each part. Only with one of `workers`.
    struct RawQuota {
        /// Length of a period, at most a second, as Linux has it.
        period: Option<Setting<Time<1, SECOND>>> => REQUIRED,
        /// Calls that a host could carry a second without it: more than `capacity`, and at most 10000 times as much.
        processor: Option<Setting<CallRate<1>>> => REQUIRED,
    }

    let Stream { arrivals, holding, ring, answer, patience, transport, .. } = Stream::default();

    /// Calls that take the same way. `<name>` is yours to choose.
    struct RawCalls {
        /// Names of the hosts passed, the caller's side first, at most six. The caller chooses the first and the last
        /// at random, each host the next one in between; servers behind a balancer by that. Hosts of role `server`
        /// end a path; behind all others are callees whose work costs nothing.
        path: Vec<Setting<HostName>> where { "minItems": 1, "maxItems": 6 } => REQUIRED,
        /// New calls a second, all the time. Either this or `load`.
        rate: Option<Setting<CallRate<1>>> => "as `load` says",
        /// New calls a second over time, in steps.
        load: Vec<RawStep> => "as `rate` says",
        /// How calls follow one another: at random, as those of many independent callers do, or evenly.
        arrivals: Setting<Choice<ArrivalProcess>> = arrivals,
        /// How long an answered call lasts.
        holding: Setting<Times<RUN_MAX>> = holding,
        /// From INVITE to 180 at the callee.
        ring: Setting<Time<0, HOUR>> = ring,
        /// From 180 to 200.
        answer: Setting<Time<0, HOUR>> = answer,
        /// When a caller gives up a call that nobody has answered.
        patience: Setting<Time<1, HOUR>> = patience,
        /// Transport between callers, callees and their hosts.
        transport: Setting<Choice<Transport>> = transport,
    }

    /// One step of a load; the first also says from when on there are calls.
    struct RawStep {
        /// From when on; later than the step before, earlier than the end of the run.
        at: Option<Setting<Time<0, RUN_MAX>>> => REQUIRED,
        /// New calls a second.
        rate: Option<Setting<CallRate<0>>> => REQUIRED,
        /// Whether the rate then goes linearly to that of the next step.
        ramp: Setting<Flag> = false,
    }

    /// What happens to messages between two groups of hosts, in both directions. Without such a table every message
    /// arrives, at once; several tables for the same hosts add up.
    struct RawLink {
        /// The two names; `"agents"` = callers and callees.
        between: Vec<Setting<HostName>> where { "minItems": 2, "maxItems": 2 } => REQUIRED,
        /// From when on.
        since: Setting<Time<0, RUN_MAX>> = Duration::ZERO,
        /// Until when.
        until: Option<Setting<Time<0, RUN_MAX>>> => "the end of the run",
        /// Time on the way.
        delay: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Added to it, drawn evenly from zero to this.
        jitter: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Share of messages that is lost.
        loss: Setting<Part> = 0.0,
        /// Share that arrives twice.
        duplication: Setting<Part> = 0.0,
        /// Share that is held back by another `delay` and `jitter` in full, and so overtaken.
        reordering: Setting<Part> = 0.0,
        /// Whether nothing arrives at all, as with a loss of 100 %.
        partition: Setting<Flag> = false,
    }

    /// What happens to one host. Exactly one of `restart`, `slowdown`, `stall`, `failing` and `card`.
    struct RawFault {
        /// Name of the host. Of several like ones `core` and `core.1` are the first, `core.2` the second.
        host: Option<Setting<HostName>> => REQUIRED,
        /// When; before the end of the run.
        at: Option<Setting<Time<0, RUN_MAX>>> => REQUIRED,
        /// It is dead for so long: what is sent to it is lost, and its state is gone, of a server its calls, of a
        /// proxy its transactions, of a balancer its table.
        restart: Option<Setting<Time<1, RUN_MAX>>> => "none",
        /// From then on it has this share of its capacity; 1 = whole again.
        slowdown: Option<Setting<Share<1, 1000>>> => "none",
        /// It stops for so long, and keeps its state.
        stall: Option<Setting<Time<1, HOUR>>> => "none",
        /// From then on it answers this share of new calls with 500, at once and without work; 0 = none. Only for a
        /// server.
        failing: Option<Setting<Part>> => "none",
        /// From then on neighbours leave it this share of its network card; 1 = all of it. Only for a host with a `card`.
        card: Option<Setting<Share<1, 1000>>> => "none",
    }

    let costs = Costs::default();

    /// Service times on a host that carries `base_capacity`; a host of another capacity scales all of them.
    struct RawCosts {
        /// Calls a second that the base server carries with the times below.
        base_capacity: Setting<CallRate<1>> = costs.base_capacity,
        /// A message from outside at a proxy or a balancer.
        message: Setting<Fine<FINE_MAX>> = costs.message,
        /// A timer that makes a transaction act.
        timer: Setting<Fine<FINE_MAX>> = costs.timer,
        /// A timer that only clears a transaction away.
        cleanup: Setting<Fine<FINE_MAX>> = costs.cleanup,
        /// Rejecting a request without state.
        reject: Setting<Fine<FINE_MAX>> = costs.reject,
        /// Rejecting a request through a transaction.
        reject_stateful: Setting<Fine<FINE_MAX>> = costs.reject_stateful,
        /// Taking in the ACK to a rejection that left no state.
        reject_ack: Setting<Fine<FINE_MAX>> = costs.reject_ack,
        /// An INVITE at a host of role `server`, relative to a BYE. Together they take it 1 / `capacity`, an ACK
        /// nothing.
        invite_work: Setting<Ratio> = costs.invite_work,
        /// A request that comes again at a host of role `server`, as a share of the work of the first. At 0 it is
        /// absorbed on arrival, without waiting, as `sarabande load answer` does; otherwise it waits like the first.
        repeat_work: Setting<Part> = costs.repeat_work,
        /// How service times spread around these means: not at all, exponentially, or as a list of measured times of
        /// any unit, least first, says: their quantiles, relative to their mean.
        service: Several<Choice<ServiceName>, Ratio> = ServiceName::Deterministic,
        operations: RawOperations,
    }

    /// What single operations cost, on top of the times above: those that the server counts in its ledger while it
    /// does the same work; a host of role `server` counts none. `bench prices` measures them. With a price here,
    /// `costs.message` may be 0.
    struct RawOperations {
        /// Reading the header of a message.
        scan: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Looking a session up.
        lookup: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Creating a session.
        create_session: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Running the policy over the servers.
        choose: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Making a token of Via or Record-Route.
        make_token: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Verifying one.
        verify_token: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Forwarding a message.
        forward: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Answering a request oneself, without state.
        reject: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Dropping a message without an answer.
        discard: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Ending a session or lease whose time is over.
        expire: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Creating a transaction.
        create_transaction: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Looking for the transaction of a message.
        r#match: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Sending a message again.
        retransmit: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Taking a repetition, or the ACK to a failure.
        absorb: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// A timer of a transaction.
        timer_fire: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Ending a transaction.
        expire_transaction: Setting<Fine<FINE_MAX>> = Duration::ZERO,
    }

    let ProxyTimers { transaction, c } = ProxyTimers::default();

    /// SIP timers of all hosts and agents, RFC 3261 §17, Table 4.
    struct RawTimers {
        /// T1, estimate of the round-trip time.
        t1: Setting<Time<1, { 10 * SECOND }>> = transaction.t1,
        /// T2, longest time between retransmissions of a request other than INVITE; at least `t1`.
        t2: Setting<Time<1, MINUTE>> = transaction.t2,
        /// T4, how long a message stays in the network.
        t4: Setting<Time<0, MINUTE>> = transaction.t4,
        /// Timer C: how long a proxy waits for the final response to an INVITE after a provisional one.
        c: Setting<Time<1, DAY>> = c,
    }
}

impl FileKind for RawScenario {
    fn schema_of_file() -> &'static Value {
        static SCHEMA: OnceLock<Value> = OnceLock::new();
        SCHEMA.get_or_init(document::schema::<Self>)
    }
}
