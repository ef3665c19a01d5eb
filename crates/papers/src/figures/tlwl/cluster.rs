//! The cluster: a balancer, servers behind it, and calls. What one run of it shows, and what had to be assumed.

use super::batches::Batches;
use crate::figures::Options;
use base::Instant;
use config::scenario::{
    BalancerSettings, Costs, Group, HostFault, HostRole, RunSettings, Scenario, StallSettings, Stream, What,
};
use core::time::Duration;
use load::{INVITE_WORK, RandomTime};
use proxy::ProxyTimers;
use sim::model::{RunResults, run};

/// Every policy of the paper and its digest, in the order of the plots.
pub(in crate::figures) const POLICIES: [&str; 8] =
    ["round-robin", "hash", "fnv-hash", "cjsq", "tjsq", "tlwl-1.75", "tlwl-2", "rwma"];

/// Calls a second that a server carries (TLWL paper, section IV: "about 300 cps").
pub(in crate::figures) const SERVER_CAPACITY: f64 = 300.0;
/// Servers of all figures but the one that varies them.
pub(super) const SERVERS: u16 = 8;

/// Time between two pauses of a pausing server, exponential around this.
const PAUSE_EVERY: Duration = Duration::from_secs(20);
/// Mean length of a pause, normal with three tenths of it as standard deviation.
const PAUSE: Duration = Duration::from_millis(500);
/// So much of the load may be unanswered when a run ends: about the longest pause.
const AT_REST: Duration = Duration::from_secs(1);

/// Mean holding time of the paper (section IV).
pub(super) const MINUTE: Duration = Duration::from_mins(1);

/// Width of a bin, which is a batch of the intervals: far longer than a pause is remembered at the loads of interest.
const BIN: Duration = Duration::from_secs(5);

/// Whether servers pause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Servers {
    /// First come, first served, without a break.
    Steady,
    /// The same with pauses of this mean length, as garbage collection makes them.
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

    /// Part of its time that a server works.
    fn working(self) -> f64 {
        let pause = match self {
            Self::Steady => Duration::ZERO,
            Self::Pausing(length) => length,
        };
        PAUSE_EVERY.as_secs_f64() / (PAUSE_EVERY + pause).as_secs_f64()
    }

    /// Calls a second that one server carries in the long run.
    pub(super) fn capacity(self) -> f64 {
        SERVER_CAPACITY * self.working()
    }

    fn stalls(self) -> Option<StallSettings> {
        let Self::Pausing(length) = self else { return None };
        Some(StallSettings { every: PAUSE_EVERY, length: RandomTime::Normal(length, 3 * length / 10) })
    }
}

/// What slows the last server down to half, if anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Half {
    /// All are alike.
    None,
    /// A background task that the balancer does not know of.
    Unknown,
    /// The balancer is told the capacities.
    Known,
}

/// One run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Case {
    pub(super) policy: &'static str,
    pub(super) servers: Servers,
    pub(super) count: u16,
    /// Calls a second.
    pub(super) load: f64,
    /// Mean holding time, with half of it as standard deviation; zero = the caller hangs up at once.
    pub(super) holding: Duration,
    pub(super) half: Half,
    /// Time that counts, after the warm-up.
    pub(super) window: Duration,
}

/// What a run shows.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// Response times of INVITE and BYE.
    pub(super) response: [Batches; 2],
    /// Requests that ended without a 2xx.
    pub(super) lost: u64,
    /// Requests that ended without a 2xx or pile up, of all.
    pub(super) failed: u64,
    pub(super) requests: u64,
    /// Transactions that an arriving one met, and how often.
    pub(super) occupancy: Vec<(u64, u64)>,
}

impl Outcome {
    /// Part of the requests that failed.
    pub(super) fn failed(&self) -> f64 {
        self.failed as f64 / self.requests.max(1) as f64
    }
}

pub(in crate::figures) fn costs() -> Costs {
    Costs { base_capacity: SERVER_CAPACITY, ..Costs::default() }
}

/// Service times of an INVITE and a BYE in ms: no response can be faster.
pub(super) fn service_ms() -> [f64; 2] {
    [INVITE_WORK, 1.0].map(|work| 1e3 * work * costs().server_request().as_secs_f64())
}

/// A balancer with this policy, and so many servers behind it.
pub(in crate::figures) fn groups(name: &str, count: u16) -> (Group, Group) {
    let mut balancer = Group::proxies("balancer", 1, SERVER_CAPACITY);
    // The paper's dispatcher asks nobody whether he lives.
    let (policy, weights) = config::policy(name).expect("figures name policies that there are");
    balancer.role = HostRole::Balancer(BalancerSettings { policy, weights, probes: false, outlier: true });
    balancer.capacities.clear();
    let mut servers = Group::proxies("server", count, SERVER_CAPACITY);
    servers.role = HostRole::Server;
    (balancer, servers)
}

impl Case {
    fn bin(&self) -> Duration {
        BIN.min(self.window / 3)
    }

    /// Three holding times, when all but one in a thousand of the first calls have ended, and a bin for queues to form.
    fn warm_up(&self) -> Duration {
        3 * self.holding + self.bin()
    }

    fn scenario(&self) -> Scenario {
        let (balancer, mut servers) = groups(self.policy, self.count);
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
                    what: What::Slowdown(0.5),
                });
            }
            Half::Known => servers.capacities[usize::from(last)] /= 2.0,
        }
        let mut calls = Stream::of_paper("calls", vec![0, 1], self.load);
        calls.holding = if self.holding.is_zero() {
            RandomTime::Fixed(Duration::ZERO)
        } else {
            RandomTime::Normal(self.holding, self.holding / 2)
        };
        let warm_up = self.warm_up();
        Scenario {
            title: "TLWL paper".to_owned(),
            run: RunSettings {
                duration: warm_up + self.window,
                warm_up,
                bin: self.bin(),
                ..RunSettings::default()
            },
            costs: costs(),
            timers: ProxyTimers::default(),
            groups: vec![balancer, servers],
            streams: vec![calls],
            links: Vec::new(),
            faults,
        }
    }

    /// Runs it.
    pub(super) fn run(&self, seed: u64) -> Outcome {
        let results = run(&self.scenario(), seed);
        let stream = &results.streams[0];
        let from = Instant::ZERO + self.warm_up();
        let outcomes = &stream.outcomes;
        let setups = outcomes.refused + outcomes.abandoned + outcomes.invite_timeouts;
        // What piles up over the window is not handled either, but for what may wait for a server that just stands
        // still.
        let unanswered = stream.calls.saturating_sub(stream.answer_delay.count() + setups);
        let piled_up = unanswered.saturating_sub((self.load * AT_REST.as_secs_f64()) as u64);
        // A call is two requests, unless the first of them failed.
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

/// Over all servers.
fn occupancy(results: &RunResults) -> Vec<(u64, u64)> {
    let mut met = std::collections::BTreeMap::new();
    for (value, count) in results.hosts.iter().flat_map(|host| &host.occupancy) {
        *met.entry(*value).or_insert(0) += count;
    }
    met.into_iter().collect()
}

/// The mean holding time of the runs with one: a tenth of the paper's.
pub(super) fn holding(options: &Options) -> Duration {
    options.scale(MINUTE / 10, MINUTE / 10, MINUTE / 120)
}

/// What all figures of the paper assume.
pub(super) fn assumptions() -> Vec<String> {
    vec![
        format!(
            "A server carries {SERVER_CAPACITY} calls/s (section IV: \"about 300\"): an INVITE is {INVITE_WORK} times \
             the work of a BYE (section I), an ACK none; so a BYE takes 1.21 ms and an INVITE 2.12 ms, always. A \
             server answers 100, 180 and 200 at once when the work is done."
        ),
        "One processor a server, first come, first served, 1000 places for messages. The balancer and the links cost \
         no time. UDP, with the retransmissions of RFC 3261; a retransmitted request costs a server as much as the \
         first. A caller gives up an INVITE that is not answered after 10 s, and a BYE after 32 s. Arrivals are \
         Poisson, at the full rate from the start."
            .into(),
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
             so, a standard deviation of 30 s, cut at zero. Here a tenth of both, since what a server has to do in a \
             second does not depend on it. Whether CJSQ is worse than a hash does: tlwl-2 compares them with \
             calls of a minute, and says what whole minutes change in its other numbers. The warm-up lasts \
             three mean holding times and {} s.",
            BIN.as_secs()
        ),
        "Of servers that are level for a policy, one after another gets the next call; the paper does not say which one \
         does. It matters where few transactions are open: most servers are idle then, and turns keep the next call \
         away from the server that had the last one."
            .into(),
        "Call-IDs are consecutive numbers, as a load generator's may be; fnv-hash, the remainder of such a number's \
         hash, then spreads calls more evenly than chance would, hash does not."
            .into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lightly_loaded_server_answers_after_the_work_of_the_request() {
        let case = Case {
            policy: "tlwl-1.75",
            servers: Servers::Steady,
            count: 1,
            load: 2.0,
            holding: Duration::ZERO,
            half: Half::None,
            window: Duration::from_mins(1),
        };
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
        let case = Case {
            policy: "tlwl-1.75",
            servers: Servers::Steady,
            count: 1,
            load: 330.0,
            holding: Duration::ZERO,
            half: Half::None,
            window: Duration::from_secs(40),
        };
        assert!(case.run(1).failed() > 0.01);
        // Half of a server is half of the load, whether anyone knows or not.
        for half in [Half::Unknown, Half::Known] {
            assert!(Case { load: 180.0, half, ..case }.run(1).failed() > 0.01);
            assert_eq!(Case { load: 100.0, half, ..case }.run(1).failed, 0);
        }
    }
}
