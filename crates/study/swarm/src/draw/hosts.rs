//! Hosts of a plan: callers, sites and answerers.

use super::{Drawer, LIVENESS};
use crate::{
    AnswererPlan, Callee, CallerPlan, Destination, FilePlan, PlannedMember, PoolPlan, RoutePlan, Severity,
    SitePlan, SiteRole,
};
use balance::{HealthSettings, PolicyKind};
use base::Instant;
use control::{PoolSettings, ProbeSettings};
use core::time::Duration;
use elastic::estimate::{CapacityLaw, EstimatorSettings};
use elastic::queue::{Accrual, LengthSettings, MemberChoice, QueueSettings};
use load::{ArrivalPlan, ArrivalProcess, RandomTime, ServiceModel};
use node::{CapacitySource, ProxyLimits, QueueSetup};
use proxy::ProxyTimers;
use rand::Rng as _;
use rand::seq::{IndexedRandom, SliceRandom};
use route::{Dialogs, Fork, Forward, Service, Spread};
use std::sync::Arc;

/// More transactions than the calls can make.
pub(super) const LIMITS: ProxyLimits = ProxyLimits { transactions: 100_000, memory: 1 << 30, branches: 12 };

/// Position of the balancer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Callers, a balancer, answerers.
    Balancer,
    /// Callers, layers of proxies, answerers.
    Proxies,
    /// Callers, layers of proxies, a balancer, answerers.
    ProxiesFirst,
    /// Callers, a balancer with proxies as members, answerers.
    BalancerFirst,
}

/// A site that callers send to, and the callee.
pub(super) type Entry = (u16, Callee);

/// Returns the sites among the targets, as entries.
pub(super) fn entries(targets: &[Destination]) -> Vec<Entry> {
    let entry = |target: &Destination| match target {
        Destination::Site(site) => Some((*site, Callee::Anyone)),
        Destination::Answerer(_) => None,
    };
    targets.iter().filter_map(entry).collect()
}

impl Drawer {
    /// Returns the sites and their entries.
    pub(super) fn sites(
        &mut self,
        answerers: u16,
        (severity, calm): (Severity, u64),
    ) -> (Vec<SitePlan>, Vec<Entry>) {
        let shape = match self.rng.random_range(0..20) {
            0..8 => Shape::Balancer,
            8..14 => Shape::Proxies,
            14..18 => Shape::ProxiesFirst,
            _ => Shape::BalancerFirst,
        };
        let mut sites = Vec::new();
        let mut targets: Vec<_> = (0..answerers).map(Destination::Answerer).collect();
        if matches!(shape, Shape::Balancer | Shape::ProxiesFirst) {
            targets = vec![self.balancer(&mut sites, &targets, (severity, calm))];
        }
        if shape != Shape::Balancer {
            // A pool with one member has none left while that member is drained or dead, so a gentle plan needs two.
            let least = if severity == Severity::Gentle && shape == Shape::BalancerFirst { 2 } else { 1 };
            for _ in 0..self.rng.random_range(1..4) {
                let count = self.rng.random_range(least..4);
                targets = self.layer(&mut sites, &targets, count, severity);
            }
        }
        if shape == Shape::BalancerFirst {
            targets = vec![self.balancer(&mut sites, &targets, (severity, calm))];
        }
        let entries = entries(&targets);
        (sites, entries)
    }

    fn balancer(
        &mut self,
        sites: &mut Vec<SitePlan>,
        targets: &[Destination],
        (severity, calm): (Severity, u64),
    ) -> Destination {
        let number = sites.len() as u16;
        // Forks of the generator keep the other draws of the plan the same.
        let shards = self.rng.fork(&format!("shards {number}")).random_range(1..=3);
        let has_transactions = self.rng.fork(&format!("transactions {number}")).random_bool(0.25);
        let forward = if has_transactions { Forward::Transaction } else { Forward::Stateless };
        let scale = self.scale(number, targets, severity, calm);
        // No queue with scaling: it would refuse the calls for which servers are still to be started.
        let queue = (has_transactions && scale.is_none()).then(|| self.queue(number)).flatten();
        // Two scalers of the same servers would each stop the servers of the other.
        let (pools, processes_max) = if scale.is_some() { (1, 1) } else { (self.pools, 2) };
        let invite_timeout = self.invite_timeout(number, has_transactions);
        let service = Service::of((forward, Dialogs::Member), (Fork::None, Duration::ZERO), true);
        let service = service.expect("members get calls with transactions or without");
        let like = self.members_pool("", targets);
        let name = |pool: u16| format!("pool-{pool}");
        let pool = |pool: u16| {
            let name = name(pool);
            let settings =
                PoolSettings { name, service, queue: queue.clone(), invite_timeout, ..like.settings.clone() };
            PoolPlan { settings, ..like.clone() }
        };
        let mut file = FilePlan {
            shards,
            pools: (0..pools).map(pool).collect(),
            sessions: balance::SessionSettings {
                call_lifetime: Duration::from_mins(5),
                ..balance::SessionSettings::default()
            },
            scale,
            ..FilePlan::hops(&[], ProxyTimers::default(), LIMITS)
        };
        if pools > 1 {
            file.routes =
                vec![RoutePlan { when: None, pools: (0..pools).map(name).collect(), spreads: true }];
        }
        let role = SiteRole::Balancer(Box::new(file.with_members(&like.members)));
        let processes = self.rng.random_range(1..3).min(processes_max);
        sites.push(SitePlan { name: format!("balancer {number}"), role, processes });
        Destination::Site(number)
    }

    /// Draws how long a member of this balancer may leave an INVITE unanswered. Uses a fork of the generator, so that
    /// the other draws of the plan stay the same.
    pub(super) fn invite_timeout(&self, number: u16, has_transactions: bool) -> Duration {
        let mut rng = self.rng.fork(&format!("invite timeout {number}"));
        let is_timed = has_transactions && rng.random_bool(0.5);
        if is_timed { Duration::from_millis(rng.random_range(20..8_000)) } else { Duration::ZERO }
    }

    /// Draws a queue of this balancer, or none. Its waiting time exceeds the patience of every caller, so that no call
    /// fails because of it. Uses a fork of the generator, as above.
    pub(super) fn queue(&self, number: u16) -> Option<Arc<QueueSetup>> {
        let mut rng = self.rng.fork(&format!("queue {number}"));
        if !rng.random_bool(0.5) {
            return None;
        }
        let sources = [CapacitySource::Fixed, CapacitySource::Responses, CapacitySource::Announced];
        let source = sources[rng.random_range(0..3)];
        let is_smace = rng.random_bool(0.3);
        let bound = Duration::from_secs(20);
        let usual = QueueSettings::default();
        let length = LengthSettings { least: 1_000, ..usual.length };
        let maximum = rng.random_range(10.0..60.0);
        let threshold = Duration::from_millis(rng.random_range(5..500));
        let (law, accrual, choice) = if is_smace {
            (CapacityLaw::Smace, Accrual::PerSecond, MemberChoice::MostRoom)
        } else {
            (CapacityLaw::Proven, Accrual::Answers { most: maximum }, MemberChoice::Tlwl)
        };
        let settings = QueueSettings { bound, length, choice, accrual, ..usual };
        let capacity =
            EstimatorSettings { law, maximum, minimum: 5.0, threshold, ..EstimatorSettings::default() };
        Some(Arc::new(QueueSetup { settings, source, capacity }))
    }

    /// Adds `count` proxies that send to these targets.
    pub(super) fn layer(
        &mut self,
        sites: &mut Vec<SitePlan>,
        targets: &[Destination],
        count: u16,
        severity: Severity,
    ) -> Vec<Destination> {
        let mut layer = Vec::new();
        let timers = self.proxy_timers(severity);
        for _ in 0..count {
            let number = sites.len() as u16;
            let mut file = FilePlan::hops(&self.hops(targets, severity), timers, LIMITS);
            if self.keeps_calls(number) {
                file.pools[0].settings.service = Service::Calls(Spread::Found);
            }
            sites.push(SitePlan::proxy(number, file));
            layer.push(Destination::Site(number));
        }
        layer
    }

    /// Draws whether this proxy keeps the state of calls. Uses a fork of the generator, as above.
    pub(super) fn keeps_calls(&self, number: u16) -> bool {
        self.rng.fork(&format!("calls {number}")).random_bool(0.3)
    }

    /// Draws the timers. RFC 3261 asks for a Timer C above three minutes; harsh plans may have a short one so that it
    /// fires.
    pub(super) fn proxy_timers(&mut self, severity: Severity) -> ProxyTimers {
        let timer_c = if severity == Severity::Harsh && self.chance(0.3) { 40 } else { 181 };
        ProxyTimers { c: Duration::from_secs(timer_c), ..ProxyTimers::default() }
    }

    /// Returns the hops in random order: after a failed hop the next in the list is tried. Gentle plans need a second
    /// one.
    pub(super) fn hops(&mut self, targets: &[Destination], severity: Severity) -> Vec<Destination> {
        let mut hops = targets.to_vec();
        hops.shuffle(&mut self.rng);
        if severity == Severity::Harsh && self.chance(0.3) && !targets.is_empty() {
            hops.truncate(self.rng.random_range(1..=targets.len()));
        }
        hops
    }

    /// Returns the callers of the faulty phase, and one of the phase without faults.
    pub(super) fn callers(&mut self, calm: u64, liveness: Instant, entries: &[Entry]) -> Vec<CallerPlan> {
        let during_faults = |drawer: &mut Self, (site, callee): Entry| CallerPlan {
            site,
            callee,
            start: Instant::ZERO,
            arrivals: ArrivalPlan {
                duration: Some(Duration::from_millis(calm)),
                ..ArrivalPlan::steady(ArrivalProcess::Poisson, drawer.rng.random_range(0.5..8.0))
            },
            holding: drawer.holding(),
            // Some callers give up while it rings, most do not.
            answer_wait: if drawer.chance(0.3) { Duration::from_secs(2) } else { Duration::from_mins(3) },
            knows_password: true,
            must_succeed: false,
        };
        let count = self.rng.random_range(1..4);
        let mut callers: Vec<_> = (0..count)
            .map(|_| {
                let entry = self.entry(entries);
                during_faults(self, entry)
            })
            .collect();
        let (site, callee) = self.entry(entries);
        callers.push(CallerPlan {
            site,
            callee,
            start: liveness,
            arrivals: ArrivalPlan {
                duration: Some(LIVENESS),
                ..ArrivalPlan::steady(ArrivalProcess::Constant, self.rng.random_range(1.0..10.0))
            },
            holding: RandomTime::Exponential(Duration::from_secs(2)),
            answer_wait: Duration::from_mins(3),
            knows_password: true,
            must_succeed: true,
        });
        callers
    }

    fn entry(&mut self, entries: &[Entry]) -> Entry {
        *entries.choose(&mut self.rng).expect("callers know a site")
    }

    fn holding(&mut self) -> RandomTime {
        let mean = self.millis(500..30_000);
        match self.rng.random_range(0..4) {
            0 => RandomTime::Fixed(Duration::ZERO),
            1 => RandomTime::Fixed(mean),
            2 => RandomTime::Normal(mean, mean / 2),
            _ => RandomTime::Exponential(mean),
        }
    }

    pub(super) fn answerer(&mut self, number: u16) -> AnswererPlan {
        let ring = match self.rng.random_range(0..3) {
            0 => RandomTime::Fixed(Duration::ZERO),
            1 => RandomTime::Fixed(self.millis(10..4_000)),
            _ => RandomTime::Exponential(self.millis(10..2_000)),
        };
        let service = ServiceModel {
            service_per_work: Duration::from_micros([0, 100, 3_000][self.rng.random_range(0..3)]),
            exponential: self.chance(0.5),
            ..ServiceModel::default()
        };
        let (trying, options) = (self.chance(0.5), self.chance(0.7));
        AnswererPlan { name: format!("answerer-{number}"), ring, trying, options, refuses: None, service }
    }

    /// A pool whose members are probed.
    pub(super) fn members_pool(&mut self, name: &str, targets: &[Destination]) -> PoolPlan {
        let interval = self.millis(1_000..3_000);
        let policy = self.policy();
        let members = self.members(targets);
        let settings = PoolSettings {
            health: HealthSettings {
                fall: self.rng.random_range(1..4),
                slow_start: self.millis(0..20_000),
                ..HealthSettings::default()
            },
            probes: ProbeSettings { interval, timeout: interval.mul_f64(0.9), ..ProbeSettings::default() },
            ..PoolSettings::new(name, Service::Balance, policy)
        };
        PoolPlan { settings, members, max_calls: 0, max_rate: 0 }
    }

    pub(super) fn policy(&mut self) -> PolicyKind {
        *PolicyKind::ALL.choose(&mut self.rng).expect("there are policies")
    }

    /// Returns all targets as members, with random or equal capacities.
    pub(super) fn members(&mut self, targets: &[Destination]) -> Vec<PlannedMember> {
        let equal = self.chance(0.5);
        let mut one = |&destination: &Destination| {
            let capacity = if equal { 1.0 } else { self.rng.random_range(0.2..5.0) };
            PlannedMember { destination, capacity }
        };
        targets.iter().map(&mut one).collect()
    }
}
