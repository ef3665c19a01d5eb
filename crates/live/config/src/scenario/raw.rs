//! Keys of a scenario: the only place where they are declared, as in `raw.rs` for the configuration.

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
use super::typed::{Costs, Group, RunSettings, Select, Stream, TcpDiscard};
use super::{BalancerSettings, Overload, ScenarioFeedback, ScenarioLocal, Ties};
use crate::document::{self, FileKind};
use crate::kind::{
    CallRate, Capacity, Choice, Count, DAY, Fine, Flag, HOUR, HostName, MINUTE, MessageRate, PolicyName,
    Ratio, SECOND, Seed, Share, Time, Times, Title,
};
use crate::raw::{RawWeights, usual_weights};
use crate::setting::{Setting, Several};
use crate::table::{NAME, REQUIRED};

/// Longest service time and longest delay of a message, in nanoseconds.
const FINE_MAX: u64 = 60_000_000_000;
/// Longest expected wait, in nanoseconds.
const WAIT_MAX: u64 = 1_000_000_000;

/// Longest time of a simulation, in milliseconds.
const RUN_MAX: u64 = 30 * DAY;

/// A share from 0 to 1.
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

    /// Length and measurement of the simulation.
    struct RawRun {
        /// Title of the scenario in reports.
        title: Option<Setting<Title>> => "the file's name",
        /// Simulated time. Set it longer for narrower confidence intervals.
        duration: Setting<Time<SECOND, RUN_MAX>> = duration,
        /// Time at the start that is left out of all averages; shorter than `duration`. Set it longer if the load or
        /// the queues are not steady by then.
        warm_up: Option<Setting<Time<0, RUN_MAX>>> => "a fifth of `duration`",
        /// Seed of all random numbers: the same seed gives the same run.
        seed: Setting<Seed> = seed,
        /// Number of independent runs. With at least 2, averages have confidence intervals.
        replications: Setting<Count<1, 1000>> = replications,
        /// Width of a bin of the time series. At least one bin must lie between the warm-up and the end. Rates and
        /// utilisation are means over whole bins, so the warm-up should end where a bin ends.
        bin: Option<Setting<Time<10, HOUR>>> => "a twentieth of `duration`, at most `\"10s\"`",
        /// Half width of a 95 % confidence interval, relative to its mean, above which the report says that it is too
        /// wide.
        precision: Setting<Share<1, 1000>> = precision,
    }

    let BalancerSettings { ties, probes, outlier, .. } = BalancerSettings::default();
    let Group { workers, buffer, discard, select, transport, background, .. } = Group::default();

    /// One host, or several equal ones. `<name>` is free to choose (letters, digits, `-`, `_`; not `agents`), and
    /// paths, links and faults refer to it.
    struct RawHost {
        /// Number of hosts.
        count: Option<Setting<Count<1, 1000>>> => "length of the list `capacity`, or 1",
        /// Calls a second that each host can carry, or a list with a number for each host; `"unlimited"`: its work
        /// takes no time.
        capacity: Option<Several<Capacity, CallRate<1>>> => REQUIRED,
        /// Role of the hosts. `"proxy"` forwards with transactions and adds Record-Route. `"balancer"` assigns each
        /// call to one of the servers that are next on the path. `"server"` answers calls. `"database"` is queried by
        /// hosts that name it in `database`.
        role: Setting<Choice<RoleName>> = RoleName::Proxy,
        /// Policy that chooses the server for the next call, as in the configuration of the server. Only for a
        /// balancer.
        policy: Setting<Choice<PolicyName>> = PolicyName::default(),
        /// Choice among servers that the policy finds equal: in `turns`, as in the server, or each with the same
        /// probability (`random`). Only with a policy of least load: `cjsq`, `tjsq`, `tlwl`.
        ties: Setting<Choice<Ties>> = ties,
        /// Work per method, relative to a BYE, as in the configuration of the server. Only with policy `tlwl`.
        weights: RawWeights => usual_weights(),
        /// Whether the balancer sends each server an OPTIONS every 2 s, and gives it no new calls after two probes
        /// without an answer. Only for a balancer.
        probes: Setting<Flag> = probes,
        /// Whether a failing server gets no new calls for a while, as `outlier` of a pool in the configuration of the
        /// server. A server fails if its calls fail while those of the others do not. Only for a balancer.
        outlier: Setting<Flag> = outlier,
        /// How a proxy chooses among the hosts that are next on the path. Only for a proxy.
        select: Setting<Choice<Select>> = select,
        /// Processors of each host; `capacity` is that of all together.
        workers: Setting<Count<1, 64>> = workers.into(),
        /// Messages from outside that may wait; further ones are dropped.
        buffer: Setting<Count<1, 1_000_000>> = buffer,
        /// Messages over TCP that a full buffer drops: `any`, or only `new-calls`, while all others wait beyond the
        /// limit (Overload paper, section V-D). Messages over UDP are always dropped. Only for a proxy.
        discard: Setting<Choice<TcpDiscard>> = discard,
        /// Transport between these hosts and other hosts. With UDP requests are retransmitted.
        transport: Setting<Choice<Transport>> = transport,
        /// Share of the processor that other programs take.
        background: Setting<Share<0, 990>> = background,
        /// Name of hosts of role `database`. Each INVITE that begins a call, repeated ones included, is looked up in
        /// one of them, in turn, before this host handles it. Meanwhile the host does other work.
        database: Option<Setting<HostName>> => "none",
        /// Messages a second that the network card of each host carries, in each direction. A thousand may wait in each
        /// direction; further ones are dropped. Not for a database.
        card: Option<Setting<MessageRate>> => "no limit",
        overload: RawOverload,
        stalls: Option<RawStalls>,
        quota: Option<RawQuota>,
    }

    let Overload { local, feedback, reject, buffer_rejections, stateful, look_up, retry, .. } =
        Overload::default();
    let Overload { during_pause, watermarks: (high, low), occupancy, wait, triage, .. } =
        Overload::default();

    /// Overload control of a host.
    struct RawOverload {
        /// Law that admits new INVITEs. `none`: all. `bang-bang`: by a high and a low watermark of the queue.
        /// `occupancy`: with a probability that keeps the processor at its target. `delay`: by expected wait.
        local: Setting<Choice<ScenarioLocal>> = local,
        /// Feedback to the host before, so that it rejects in place of this one. `hop-by-hop`: the acceptance
        /// probability of this host. `end-to-end`: the lowest one on the way to each target. `rate`: a rate (RFC 7415).
        /// `window`: a window (RFC 6357). A probability needs `local = "occupancy"`. The host before must have the same
        /// `feedback`, or it ignores it, and this host rejects.
        feedback: Setting<Choice<ScenarioFeedback>> = feedback,
        /// When a request is rejected: before it waits (`early`), or when its turn comes (`late`).
        reject: Setting<Choice<RejectAt>> = reject,
        /// Whether requests that wait for their rejection take room in `buffer`, and are dropped if it is full. In the
        /// Overload paper (section VI-A) only admitted requests take room. Only with `reject = "early"`.
        buffer_rejections: Setting<Flag> = buffer_rejections,
        /// Whether a rejection creates a transaction.
        stateful: Setting<Flag> = stateful,
        /// Whether a repeated INVITE is recognised before it can be rejected. If not, an accepted call may get 503 as
        /// well as 200, and then fails. So it is in the Overload paper (section VI-A: "which avoids that state needs to
        /// be looked up"). `false` only without `stateful` and `feedback`, which know their transactions.
        look_up: Setting<Flag> = look_up,
        /// Whether a request that got 503 from the next host is sent to another one of its group. It is a setting of
        /// the host before, not of the rejecting one.
        retry: Setting<Flag> = retry,
        /// Retry-After of each 503, for `bang-bang`. No requests are sent to the host for this time.
        retry_after: Option<Setting<Time<SECOND, HOUR>>> => "none",
        /// Effect of a 503 with Retry-After that arrives during a pause for the same host. `prolong`: the pause lasts
        /// until the later end. `ignore`: the pause does not change.
        during_pause: Setting<Choice<During>> = during_pause,
        /// Share of the buffer in use above which all new INVITEs are rejected, for `bang-bang`.
        high: Setting<Share<10, 1000>> = high,
        /// Share of the buffer in use below which rejections end, for `bang-bang`.
        low: Setting<Share<10, 1000>> = low,
        /// Target utilisation of `occupancy`, also for the feedback.
        target: Setting<Share<10, 1000>> = occupancy.target,
        /// Lowest acceptance probability of `occupancy`.
        acceptance_min: Setting<Share<1, 1000>> = occupancy.acceptance_min,
        /// Largest factor by which `occupancy` raises the probability from one period to the next.
        increase_max: Setting<Ratio> = occupancy.increase_max,
        /// Length of a period of `occupancy`.
        period: Setting<Time<1, MINUTE>> = occupancy.period,
        /// Weight of the newest utilisation in the moving average of `occupancy`; 1: no averaging.
        smoothing: Setting<Share<1, 1000>> = occupancy.weight,
        /// Expected wait from which no new INVITE is admitted, for `delay`. From half of it on, some are rejected.
        wait: Setting<Fine<WAIT_MAX>> = wait,
        /// Whether the queue is sorted: timers first, then responses and requests within dialogs, then new INVITEs.
        /// Retransmissions are merged with waiting messages, and messages that are too old to be useful are dropped.
        triage: Setting<Flag> = triage,
    }

    /// Pauses of the whole host, such as garbage collection. Between them it runs at its full `capacity`, which is not
    /// the mean over the pauses. For a limit of processor time, which stops a host regularly, see `quota`.
    struct RawStalls {
        /// Mean time from the end of a pause to the next one, exponentially distributed.
        every: Option<Setting<Time<1, DAY>>> => REQUIRED,
        /// Length of a pause.
        length: Option<Setting<Times<HOUR>>> => REQUIRED,
    }

    /// A control group that grants a host its `capacity` in parts (`cpu.max` on Linux). The host serves at the speed of
    /// the whole processor until its part of a period is used up, and then not until the next period. Without it a host
    /// serves evenly, like a slower processor. `background` takes its share of each part. Only with `workers = 1`.
    struct RawQuota {
        /// Length of a period, at most a second, as on Linux.
        period: Option<Setting<Time<1, SECOND>>> => REQUIRED,
        /// Calls a second that the host could carry without the control group: more than `capacity`, and at most 10000
        /// times as much.
        processor: Option<Setting<CallRate<1>>> => REQUIRED,
    }

    let Stream { arrivals, holding, ring, answer, patience, transport, .. } = Stream::default();

    /// Calls that take the same path. `<name>` is free to choose.
    struct RawCalls {
        /// Names of the hosts on the path, from the caller's side, at most six. The caller chooses the first and the
        /// last host at random. Each host chooses the next one in between, also the server behind a balancer. Hosts of
        /// role `server` end a path; behind all other hosts are callees whose work takes no time.
        path: Vec<Setting<HostName>> where { "minItems": 1, "maxItems": 6 } => REQUIRED,
        /// New calls a second during the whole run. Either this or `load`.
        rate: Option<Setting<CallRate<1>>> => "the rates of `load`",
        /// New calls a second over time, in steps.
        load: Vec<RawStep> => "`rate` during the whole run",
        /// Arrival process: random, as of many independent callers, or evenly spaced.
        arrivals: Setting<Choice<ArrivalProcess>> = arrivals,
        /// Duration of an answered call.
        holding: Setting<Times<RUN_MAX>> = holding,
        /// Time from INVITE to 180 at the callee.
        ring: Setting<Time<0, HOUR>> = ring,
        /// Time from 180 to 200.
        answer: Setting<Time<0, HOUR>> = answer,
        /// Time after which a caller gives up an unanswered call.
        patience: Setting<Time<1, HOUR>> = patience,
        /// Transport between callers, callees and their hosts.
        transport: Setting<Choice<Transport>> = transport,
    }

    /// One step of a load. Calls start at the first step.
    struct RawStep {
        /// Start of the step: later than the step before, earlier than the end of the run.
        at: Option<Setting<Time<0, RUN_MAX>>> => REQUIRED,
        /// New calls a second.
        rate: Option<Setting<CallRate<0>>> => REQUIRED,
        /// Whether the rate then changes linearly to that of the next step.
        ramp: Setting<Flag> = false,
    }

    /// Conditions of messages between two groups of hosts, in both directions. Without such a table every message
    /// arrives at once. Several tables for the same hosts add up.
    struct RawLink {
        /// The two names; `"agents"`: callers and callees.
        between: Vec<Setting<HostName>> where { "minItems": 2, "maxItems": 2 } => REQUIRED,
        /// Start of these conditions.
        since: Setting<Time<0, RUN_MAX>> = Duration::ZERO,
        /// End of these conditions.
        until: Option<Setting<Time<0, RUN_MAX>>> => "the end of the run",
        /// Delay of each message.
        delay: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Additional delay, evenly distributed from zero to this.
        jitter: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Share of messages that is lost.
        loss: Setting<Part> = 0.0,
        /// Share of messages that arrives twice.
        duplication: Setting<Part> = 0.0,
        /// Share of messages that is delayed by another `delay` and the full `jitter`, so that later messages overtake
        /// them.
        reordering: Setting<Part> = 0.0,
        /// Whether no message arrives, as with a loss of 100 %.
        partition: Setting<Flag> = false,
    }

    /// An event at one host. Exactly one of `restart`, `slowdown`, `stall`, `failing` and `card`.
    struct RawFault {
        /// Name of the host. Of several equal hosts, `core` and `core.1` are the first, `core.2` the second.
        host: Option<Setting<HostName>> => REQUIRED,
        /// Time of the event; before the end of the run.
        at: Option<Setting<Time<0, RUN_MAX>>> => REQUIRED,
        /// Time for which the host is dead. Messages to it are lost, and it loses its state: a server its calls, a
        /// proxy its transactions, a balancer its session table.
        restart: Option<Setting<Time<1, RUN_MAX>>> => "none",
        /// Share of its capacity that the host has from then on; 1: all of it.
        slowdown: Option<Setting<Share<1, 1000>>> => "none",
        /// Time for which the host stops. It keeps its state.
        stall: Option<Setting<Time<1, HOUR>>> => "none",
        /// Share of new calls that the host answers with 500 from then on, at once and without work; 0: none. Only for
        /// a server.
        failing: Option<Setting<Part>> => "none",
        /// Share of its network card that neighbours leave to the host from then on; 1: all of it. Only for a host with
        /// a `card`.
        card: Option<Setting<Share<1, 1000>>> => "none",
    }

    let costs = Costs::default();

    /// Service times on a host that carries `base_capacity`. A host of another capacity scales all of them.
    struct RawCosts {
        /// Calls a second that the base server carries with these service times.
        base_capacity: Setting<CallRate<1>> = costs.base_capacity,
        /// A message from outside, at a proxy or a balancer.
        message: Setting<Fine<FINE_MAX>> = costs.message,
        /// A timer that makes a transaction act.
        timer: Setting<Fine<FINE_MAX>> = costs.timer,
        /// A timer that only removes a transaction.
        cleanup: Setting<Fine<FINE_MAX>> = costs.cleanup,
        /// A rejection without state.
        reject: Setting<Fine<FINE_MAX>> = costs.reject,
        /// A rejection with a transaction.
        reject_stateful: Setting<Fine<FINE_MAX>> = costs.reject_stateful,
        /// The ACK of a rejection without state.
        reject_ack: Setting<Fine<FINE_MAX>> = costs.reject_ack,
        /// Work of an INVITE at a host of role `server`, relative to a BYE. Together they take 1 / `capacity`; an ACK
        /// takes no time.
        invite_work: Setting<Ratio> = costs.invite_work,
        /// Work of a repeated request at a host of role `server`, as a share of the work of the first. With 0 it is
        /// absorbed on arrival, without waiting, as in `sarabande load answer`; otherwise it waits like the first.
        repeat_work: Setting<Part> = costs.repeat_work,
        /// Distribution of service times around these means: constant, exponential, or a list. A list has measured
        /// times in any unit, in ascending order; the quantiles are these times relative to their mean.
        service: Several<Choice<ServiceName>, Ratio> = ServiceName::Deterministic,
        operations: RawOperations,
    }

    /// Costs of single operations, in addition to the times above. They are the operations that the server counts in
    /// its ledger for the same work; a host of role `server` counts none. `bench prices` measures them. If one is set,
    /// `costs.message` may be 0.
    struct RawOperations {
        /// Reads the header of a message.
        scan: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Looks up a session.
        lookup: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Creates a session.
        create_session: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Runs the policy over the servers.
        choose: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Makes a token of Via or Record-Route.
        make_token: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Verifies a token.
        verify_token: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Forwards a message.
        forward: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Answers a request without state.
        reject: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Drops a message without an answer.
        discard: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Ends a session or lease that has expired.
        expire: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Creates a transaction.
        create_transaction: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Looks up the transaction of a message.
        r#match: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Retransmits a message.
        retransmit: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Absorbs a retransmission, or the ACK of a failure.
        absorb: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Handles a timer of a transaction.
        timer_fire: Setting<Fine<FINE_MAX>> = Duration::ZERO,
        /// Ends a transaction.
        expire_transaction: Setting<Fine<FINE_MAX>> = Duration::ZERO,
    }

    let ProxyTimers { transaction, c } = ProxyTimers::default();

    /// SIP timers of all hosts and agents, RFC 3261 §17, Table 4.
    struct RawTimers {
        /// T1, the estimate of the round-trip time.
        t1: Setting<Time<1, { 10 * SECOND }>> = transaction.t1,
        /// T2, the longest time between retransmissions of a request other than INVITE; at least `t1`.
        t2: Setting<Time<1, MINUTE>> = transaction.t2,
        /// T4, the longest time that a message stays in the network.
        t4: Setting<Time<0, MINUTE>> = transaction.t4,
        /// Timer C: longest wait of a proxy for the final response to an INVITE after a provisional one.
        c: Setting<Time<1, DAY>> = c,
    }
}

impl FileKind for RawScenario {
    fn schema_of_file() -> &'static Value {
        static SCHEMA: OnceLock<Value> = OnceLock::new();
        SCHEMA.get_or_init(document::schema::<Self>)
    }
}
