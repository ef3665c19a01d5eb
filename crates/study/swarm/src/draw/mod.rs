//! Draws the plan of a seed.

mod faults;
mod forks;
mod home;
mod hosts;
mod mixed;
mod overload;
mod scale;
mod sharing;
mod streams;

use crate::plan::DATAGRAMS_MAX;
use crate::{Plan, PlannedAction, Severity};
use base::{Instant, Rng, Transport};
use core::ops::Range;
use core::time::Duration;
use rand::Rng as _;

/// Longest time until members are found alive and calls of the faulty phase have ended.
const SETTLING: Duration = Duration::from_secs(40);
/// The same time for plans whose members must be started first.
const SETTLING_SCALED: Duration = Duration::from_secs(80);
/// Length of the phase without faults, in which calls must succeed.
const LIVENESS: Duration = Duration::from_secs(20);
/// Time for the longest call of that phase to end, including ringing.
const LAST_CALLS: Duration = Duration::from_mins(1);
/// Time between two faults of a gentle plan. By then the first fault has ended, and has been detected and recovered
/// from.
const GENTLE_GAP_MS: u64 = 45_000;
/// Longest outage of a process, or pause of a host.
const AWAY_MS: u64 = 5_000;

/// Draws the plan of a seed.
pub fn draw(seed: u64) -> Plan {
    let pools = Rng::from_seed(seed).fork("pools").random_range(1..=3);
    let rng = Rng::from_seed(seed).fork("plan");
    Drawer { rng, kind: Kind::draw(seed), seed, pools, later: Vec::new() }.plan()
}

/// Subject of a plan. Drawn from a fork of the seed, so that the plans of one kind do not depend on the frequency of
/// others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Balancers, and proxies that keep all transactions.
    Plain,
    /// Proxies that share out the state of calls.
    Sharing,
    /// A registrar and its users' phones.
    Home,
    /// Proxies that send a call to several next hops.
    Forks,
    /// Several pools of all modes in one file, which changes while calls go on.
    Mixed,
}

impl Kind {
    fn draw(seed: u64) -> Self {
        match Rng::from_seed(seed).fork("kind").random_range(0..15) {
            0..6 => Self::Plain,
            6 | 7 => Self::Sharing,
            8 => Self::Home,
            9 => Self::Forks,
            _ => Self::Mixed,
        }
    }
}

struct Drawer {
    rng: Rng,
    kind: Kind,
    seed: u64,
    /// Number of pools of a balancer.
    pools: u16,
    /// Operator actions drawn together with the sites.
    later: Vec<(Instant, PlannedAction)>,
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

impl Drawer {
    fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.rng.random_range(range))
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.rng.random_bool(probability)
    }

    fn plan(mut self) -> Plan {
        // Such plans cannot be gentle: callees may not have registered, and answerers behind forking proxies refuse
        // calls.
        let may_fail = matches!(self.kind, Kind::Home | Kind::Forks);
        let severity = if self.chance(0.5) && !may_fail { Severity::Gentle } else { Severity::Harsh };
        let gentle_faults = self.rng.random_range(1..4_u64);
        let calm = match severity {
            Severity::Gentle => 10_000 + gentle_faults * GENTLE_GAP_MS,
            _ => self.rng.random_range(30_000..90_000),
        };
        let answerers = if self.kind == Kind::Mixed { 6..10 } else { 2..6 };
        let answerers: Vec<_> =
            (0..self.rng.random_range(answerers)).map(|number| self.answerer(number)).collect();
        let (sites, entries) = match self.kind {
            Kind::Plain => self.sites(answerers.len() as u16, (severity, calm)),
            Kind::Sharing => self.sharing_sites(answerers.len() as u16, (severity, calm)),
            Kind::Forks => self.forking_sites(answerers.len() as u16),
            Kind::Home => self.home_sites(answerers.len() as u16, calm),
            Kind::Mixed => self.mixed_sites(answerers.len() as u16, (severity, calm)),
        };
        let is_scaled = sites.iter().any(|site| site.role.scale().is_some());
        let liveness = at(calm) + if is_scaled { SETTLING_SCALED } else { SETTLING };
        let mut plan = Plan {
            seed: self.seed,
            severity,
            callers: self.callers(calm, liveness, &entries),
            sites,
            answerers,
            transport: Transport::Udp,
            phones: Vec::new(),
            timers: load::Timers::default(),
            delay: Duration::from_micros(self.rng.random_range(100..30_000)),
            rules: Vec::new(),
            actions: Vec::new(),
            end: liveness + LIVENESS + LAST_CALLS,
            datagrams_max: DATAGRAMS_MAX,
        };
        match self.kind {
            Kind::Home => self.phones(&mut plan, calm),
            Kind::Forks => self.refusals(&mut plan, calm),
            Kind::Mixed => plan.actions.append(&mut self.later),
            Kind::Sharing => self.strangers(&mut plan),
            Kind::Plain => {}
        }
        if self.kind == Kind::Plain && severity == Severity::Harsh && !is_scaled {
            self.overload(&mut plan, calm);
        }
        self.noise(&mut plan, calm);
        match severity {
            Severity::Gentle => self.gentle(&mut plan, gentle_faults),
            _ => self.harsh(&mut plan, calm),
        }
        self.heal(&mut plan, calm);
        streams::draw(&mut plan, calm);
        plan.actions.sort_by_key(|&(at, _)| at);
        if is_scaled {
            scale::answer_probes(&mut plan);
            self.vary_rates(&mut plan, calm);
        }
        plan
    }
}
