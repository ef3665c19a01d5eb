//! The cluster: a balancer, servers behind it, and calls. Results of a run, and assumptions of the model.

use super::batches::Batches;
use crate::figures::FigureOptions;
use base::Instant;
use config::scenario::{
    BalancerSettings, Costs, FaultKind, Group, HostFault, HostRole, Scenario, StallSettings, Stream, Ties,
};
use core::time::Duration;
use load::{INVITE_WORK, RandomTime, RateStep};
use sim::model::{RunResults, run};

/// Policies of the paper and its digest, in the order of the plots.
pub(in crate::figures) const POLICIES: [&str; 8] =
    ["round-robin", "hash", "fnv-hash", "cjsq", "tjsq", "tlwl-1.75", "tlwl-2", "rwma"];

/// Capacity of a server in calls per second (TLWL paper, section IV: "about 300 cps").
pub(in crate::figures) const SERVER_CAPACITY: f64 = 300.0;
/// Number of servers in all figures except the one that varies it.
pub(super) const SERVERS: u16 = 8;

/// Mean time between two pauses of a pausing server, exponentially distributed.
const PAUSE_EVERY: Duration = Duration::from_secs(20);
/// Mean length of a pause, normally distributed with three tenths of it as standard deviation.
const PAUSE: Duration = Duration::from_millis(500);
/// Time whose load may be unanswered when a run ends: about the longest pause.
const AT_REST: Duration = Duration::from_secs(1);

/// Mean holding time in the paper (section IV).
pub(super) const MINUTE: Duration = Duration::from_mins(1);

/// Width of a bin, which is a batch of the intervals: far longer than the effects of a pause at the loads of interest.
const BIN: Duration = Duration::from_secs(5);

/// Behaviour of the servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Servers {
    /// First come, first served, without pauses.
    Steady,
    /// First come, first served, with pauses of this mean length like those of garbage collection.
    Pausing(Duration),
}

impl Servers {
    pub(super) const PAUSING: Self = Self::Pausing(PAUSE);
    pub(super) const BOTH: [Self; 2] = [Self::Steady, Self::PAUSING];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady servers",
            Self::Pausing(_) => "pausing servers",
        }
    }

    /// Share of time in which a server works.
    fn working(self) -> f64 {
        let pause = match self {
            Self::Steady => Duration::ZERO,
            Self::Pausing(length) => length,
        };
        PAUSE_EVERY.as_secs_f64() / (PAUSE_EVERY + pause).as_secs_f64()
    }

    /// Calls per second that one server carries in the long run.
    pub(super) fn capacity(self) -> f64 {
        SERVER_CAPACITY * self.working()
    }

    fn stalls(self) -> Option<StallSettings> {
        let Self::Pausing(length) = self else { return None };
        Some(StallSettings { every: PAUSE_EVERY, length: RandomTime::Normal(length, 3 * length / 10) })
    }
}

/// Cause of a halved speed of the last server, if any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Half {
    /// All servers have the same speed.
    None,
    /// A background task that the balancer does not know.
    Unknown,
    /// The same, and the balancer knows the capacities.
    Known,
}

/// Duration of calls and start of the load: as in the paper, or shorter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Workload {
    /// Mean holding time, with half of it as standard deviation; zero means that the caller hangs up at once.
    pub(super) holding: Duration,
    /// Whether the load starts at one call per second and rises by one per second for each server.
    pub(super) ramp: bool,
    /// Time under the load that does not count. `None`: three holding times, in which all but one in a thousand of the
    /// first calls have ended, and a bin in which queues can form.
    pub(super) warm_up: Option<Duration>,
}

impl Workload {
    /// As in section IV.
    const PAPER: Self = Self { holding: MINUTE, ramp: true, warm_up: Some(Duration::from_mins(10)) };
    /// A tenth of the paper's holding time, at the full rate from the start.
    pub(super) const SHORT: Self = Self { holding: Duration::from_secs(6), ramp: false, warm_up: None };

    pub(super) fn of(options: &FigureOptions) -> Self {
        options.scale(Self::PAPER, Self::SHORT, Self { holding: MINUTE / 120, ..Self::SHORT })
    }

    /// Callers that hang up at once: only queues need a warm-up.
    pub(super) const WITHOUT_HOLDING: Self = Self { holding: Duration::ZERO, ..Self::SHORT };
}

/// Parameters of one run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Case {
    pub(super) policy: &'static str,
    pub(super) servers: Servers,
    pub(super) count: u16,
    /// Load in calls per second.
    pub(super) load: f64,
    pub(super) workload: Workload,
    /// Cost of a retransmitted request for a server, relative to the first copy.
    pub(super) repeat: f64,
    /// Capacity of the balancer in calls per second; `None` means that its work takes no time.
    pub(super) balancer: Option<f64>,
    pub(super) half: Half,
    /// Time that counts, after the warm-up.
    pub(super) window: Duration,
}

/// Results of a run.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// Response times of INVITE and BYE.
    pub(super) response: [Batches; 2],
    /// Requests that ended without a 2xx.
    pub(super) lost: u64,
    /// Requests that ended without a 2xx or pile up.
    pub(super) failed: u64,
    pub(super) requests: u64,
    /// Numbers of transactions in progress at an arrival, and how often each occurred.
    pub(super) occupancy: Vec<(u64, u64)>,
}

impl Outcome {
    /// Share of the requests that failed.
    pub(super) fn failed(&self) -> f64 {
        self.failed as f64 / self.requests.max(1) as f64
    }
}

/// Messages of a call at a balancer: INVITE, 180, 200, ACK, BYE, 200.
pub(super) const MESSAGES: f64 = 6.0;

pub(in crate::figures) fn costs() -> Costs {
    // Time per message of a balancer with this capacity.
    let message = Duration::from_secs_f64(1.0 / SERVER_CAPACITY / MESSAGES);
    Costs { base_capacity: SERVER_CAPACITY, message, ..Costs::default() }
}

/// Service times of an INVITE and a BYE in ms, which are lower bounds of their response times.
pub(super) fn service_ms() -> [f64; 2] {
    [INVITE_WORK, 1.0].map(|work| 1e3 * work * costs().server_request().as_secs_f64())
}

/// Returns a balancer with this policy, and the servers behind it.
pub(in crate::figures) fn groups(name: &str, count: u16) -> (Group, Group) {
    let mut balancer = Group::proxies("balancer", 1, SERVER_CAPACITY);
    // The paper's dispatcher does not probe its servers.
    let (policy, weights) = config::policy(name).expect("figures name policies that there are");
    let ties = Ties::Random;
    balancer.role = HostRole::Balancer(BalancerSettings {
        policy,
        ties,
        weights,
        probes: false,
        ..BalancerSettings::default()
    });
    balancer.capacities.clear();
    let mut servers = Group::proxies("server", count, SERVER_CAPACITY);
    servers.role = HostRole::Server;
    (balancer, servers)
}

impl Case {
    fn bin(&self) -> Duration {
        BIN.min(self.window / 3)
    }

    /// Returns a case with the paper's workload, or with a shorter one, as in most figures.
    pub(super) fn of(options: &FigureOptions, policy: &'static str, servers: Servers) -> Self {
        Self {
            policy,
            servers,
            count: SERVERS,
            load: 0.0,
            workload: Workload::of(options),
            repeat: 0.0,
            balancer: None,
            half: Half::None,
            window: Duration::ZERO,
        }
    }

    /// Time until the load is reached.
    fn rising(&self) -> Duration {
        let seconds =
            if self.workload.ramp { (self.load - 1.0).max(0.0) / f64::from(self.count) } else { 0.0 };
        Duration::from_secs_f64(seconds)
    }

    /// Warm-up in whole bins, so that a bin starts at its end.
    pub(super) fn warm_up(&self) -> Duration {
        let bin = self.bin();
        let long = self.rising() + self.workload.warm_up.unwrap_or(3 * self.workload.holding + bin);
        bin * long.as_nanos().div_ceil(bin.as_nanos()) as u32
    }

    fn load(&self) -> Vec<RateStep> {
        let at_load = RateStep { at: self.rising(), rate: self.load, ramp: false };
        if self.workload.ramp {
            vec![RateStep { at: Duration::ZERO, rate: 1.0, ramp: true }, at_load]
        } else {
            vec![at_load]
        }
    }

    fn scenario(&self) -> Scenario {
        let (mut balancer, mut servers) = groups(self.policy, self.count);
        balancer.capacities.extend(self.balancer);
        servers.stalls = self.servers.stalls();
        let last = self.count - 1;
        let mut faults = Vec::new();
        match self.half {
            Half::None => {}
            Half::Unknown => {
                faults.push(HostFault {
                    group: 1,
                    host: last,
                    at: Duration::ZERO,
                    kind: FaultKind::Slowdown(0.5),
                });
            }
            Half::Known => servers.capacities[usize::from(last)] /= 2.0,
        }
        let mut calls = Stream::of_paper("calls", vec![0, 1], self.load);
        calls.load = self.load();
        calls.holding = match self.workload.holding {
            Duration::ZERO => RandomTime::Fixed(Duration::ZERO),
            mean => RandomTime::Normal(mean, mean / 2),
        };
        let warm_up = self.warm_up();
        let mut scenario = Scenario::new(vec![balancer, servers], vec![calls], warm_up + self.window);
        (scenario.run.warm_up, scenario.run.bin, scenario.faults) = (warm_up, self.bin(), faults);
        scenario.costs = Costs { repeat_work: self.repeat, ..costs() };
        scenario
    }

    /// Runs the case.
    pub(super) fn run(&self, seed: u64) -> Outcome {
        let results = run(&self.scenario(), seed);
        let stream = &results.streams[0];
        let from = Instant::ZERO + self.warm_up();
        let outcomes = &stream.outcomes;
        let setups = outcomes.refused + outcomes.abandoned + outcomes.invite_timeouts;
        // Requests that pile up are not handled either, apart from those that may wait for a pausing server.
        let unanswered = stream.calls.saturating_sub(stream.answer_delay.count() + setups);
        let piled_up = unanswered.saturating_sub((self.load * AT_REST.as_secs_f64()) as u64);
        // A call is two requests, unless the INVITE failed.
        let requests = 2 * outcomes.ended() - setups + piled_up;
        Outcome {
            response: [&stream.answered, &stream.hung_up].map(|series| Batches::new(series, from)),
            lost: setups + outcomes.bye_failures,
            failed: setups + outcomes.bye_failures + piled_up,
            requests,
            occupancy: occupancy(&results),
        }
    }
}

/// Sums the occupancies of all servers.
fn occupancy(results: &RunResults) -> Vec<(u64, u64)> {
    let mut met = std::collections::BTreeMap::new();
    for (value, count) in results.hosts.iter().flat_map(|host| &host.occupancy) {
        *met.entry(*value).or_insert(0) += count;
    }
    met.into_iter().collect()
}

/// Returns the assumptions of all figures of the paper.
pub(super) fn assumptions(options: &FigureOptions) -> Vec<String> {
    let Workload { holding, ramp, warm_up } = Workload::of(options);
    vec![
        format!(
            "A server carries {SERVER_CAPACITY} calls/s (section IV: \"about 300\"): an INVITE is {INVITE_WORK} times \
             the work of a BYE (section I), an ACK none; so a BYE takes 1.21 ms and an INVITE 2.12 ms, always. A \
             server answers 180 and 200 at once when the work is done."
        ),
        format!(
            "One processor a server, first come, first served, 1000 places for messages. The balancer and the links cost \
             no time. UDP, with the retransmissions of RFC 3261; a server absorbs a request that comes again, without time \
             and without waiting, unless said otherwise: the paper says nothing of it, and a plot of tlwl-2 varies it. A \
             caller gives up an INVITE that is not answered after 10 s, and a BYE after 32 s. Arrivals are Poisson, {}.",
            if ramp { "from 1 call/s on by one a second and server more" } else { "at the full rate from the start" }
        ),
        format!(
            "Pausing servers stop for 0.5 s (normal, standard deviation 0.15 s) every 20 s (exponential, each server \
             on its own), as a collection of a whole heap may make them: {:.1} % of the time, which leaves {:.0} \
             calls/s a server. The paper says nothing of pauses; these were chosen before the figures were made, once \
             for all of them.",
            100.0 * (1.0 - Servers::PAUSING.working()),
            Servers::PAUSING.capacity()
        ),
        format!(
            "Holding times are normal with a mean of one minute and, reading the paper's \"variance of 30 seconds\" \
             so, a standard deviation of 30 s, cut at zero; here of {:?} and {:?}. What a server has to do in a second does \
             not depend on it. Whether CJSQ is worse than a hash does: tlwl-2 compares them with \
             calls of a minute, and says what whole minutes change in its other numbers. {} (section IV: 10 minutes, after a \
             ramp; full runs have both).",
            holding,
            holding / 2,
            match warm_up {
                Some(long) => format!("The warm-up lasts {long:?} under the load"),
                None => format!("The warm-up lasts three mean holding times and {} s", BIN.as_secs()),
            }
        ),
        "Of servers that are level for a policy each gets the next call with the same probability; the paper does not say \
         which one does. It matters where few transactions are open: most servers are idle then."
            .into(),
        "Call-IDs are random.".into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Case = Case {
        policy: "tlwl-1.75",
        servers: Servers::Steady,
        count: 1,
        load: 0.0,
        workload: Workload::WITHOUT_HOLDING,
        repeat: 0.0,
        balancer: None,
        half: Half::None,
        window: Duration::ZERO,
    };

    /// "If there are 8 servers, after 5 seconds, the request rate will be 41 cps" (section IV).
    #[test]
    fn the_papers_load_rises_by_a_call_a_second_and_server() {
        let window = Duration::from_mins(3);
        let case = Case { count: 8, load: 41.0, workload: Workload::PAPER, window, ..ONE };
        assert_eq!(case.rising(), Duration::from_secs(5));
        assert!(case.warm_up() >= Duration::from_secs(605));
        assert!(case.load()[0].ramp && (case.load()[1].rate - 41.0).abs() < 1e-9);
    }

    #[test]
    fn a_priced_balancer_carries_what_it_is_said_to() {
        let case = Case { count: 4, window: Duration::from_secs(40), balancer: Some(300.0), ..ONE };
        assert_eq!(Case { load: 270.0, ..case }.run(1).failed, 0);
        assert!(Case { load: 330.0, ..case }.run(1).failed() > 0.01);
    }

    #[test]
    fn a_lightly_loaded_server_answers_after_the_work_of_the_request() {
        let case = Case { load: 2.0, window: Duration::from_mins(1), ..ONE };
        let outcome = case.run(1);
        for ((batches, work), service) in outcome.response.iter().zip([INVITE_WORK, 1.0]).zip(service_ms()) {
            let ms = work * 1e3 / 300.0 / 2.75;
            assert!((service - ms).abs() < 1e-3);
            let interval = batches.interval();
            assert!((interval.mean / ms - 1.0).abs() < 0.02, "{interval} instead of {ms}");
        }
        assert_eq!(outcome.failed, 0);
    }

    #[test]
    fn a_load_beyond_the_capacity_is_not_handled() {
        let case = Case { load: 330.0, window: Duration::from_secs(40), ..ONE };
        assert!(case.run(1).failed() > 0.01);
        // Half of a server carries half of the load, whether or not the balancer knows it.
        for half in [Half::Unknown, Half::Known] {
            assert!(Case { load: 180.0, half, ..case }.run(1).failed() > 0.01);
            assert_eq!(Case { load: 100.0, half, ..case }.run(1).failed, 0);
        }
    }
}
