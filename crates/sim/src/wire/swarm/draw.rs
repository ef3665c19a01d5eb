//! From a seed to a plan.

use super::super::{Action, AnswererPlan, CallerPlan, Care, Member, Plan, SiteConfig};
use crate::engine::{Effect, Rule};
use balance::HealthSettings;
use base::{Instant, Rng};
use core::ops::Range;
use core::time::Duration;
use load::{ArrivalPlan, Holding, Process, ServiceModel};
use node::ProbeSettings;
use rand::Rng as _;
use rand::seq::IndexedRandom;

/// The policies that plans choose among.
const POLICIES: [&str; 7] = ["round-robin", "hash", "fnv-hash", "cjsq", "tjsq", "tlwl", "rwma"];

/// How long members need at most to be found alive, and calls of the faulty phase to be out of the way.
const SETTLING: Duration = Duration::from_secs(40);
/// Length of the phase without faults in which calls must succeed.
const LIVENESS: Duration = Duration::from_secs(20);
/// The longest call of that phase is over by then: some ring for a long time, some last.
const LAST_CALLS: Duration = Duration::from_mins(1);
/// Between two faults of a gentle plan: the first is over, found out and forgotten.
const GENTLE_GAP_MS: u64 = 45_000;
/// A balancer is away or a host stands still for at most so long.
const AWAY_MS: u64 = 5_000;

/// Draws the plan of a seed.
pub fn draw(seed: u64) -> Plan {
    Drawer { rng: Rng::from_seed(seed).fork("plan"), seed }.plan()
}

struct Drawer {
    rng: Rng,
    seed: u64,
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
        let care = if self.chance(0.5) { Care::Gentle } else { Care::Harsh };
        let gentle_faults = self.rng.random_range(1..4_u64);
        let calm = match care {
            Care::Gentle => 10_000 + gentle_faults * GENTLE_GAP_MS,
            _ => self.rng.random_range(30_000..90_000),
        };
        let answerers: Vec<_> = (0..self.rng.random_range(2..6)).map(|_| self.answerer()).collect();
        let liveness = at(calm) + SETTLING;
        let mut plan = Plan {
            seed: self.seed,
            care,
            callers: self.callers(calm, liveness),
            balancers: self.rng.random_range(1..3),
            config: self.config(answerers.len() as u16),
            answerers,
            timers: load::Timers::default(),
            delay: Duration::from_micros(self.rng.random_range(100..30_000)),
            rules: Vec::new(),
            actions: Vec::new(),
            end: liveness + LIVENESS + LAST_CALLS,
        };
        self.noise(&mut plan, calm);
        match care {
            Care::Gentle => self.gentle(&mut plan, gentle_faults),
            _ => self.harsh(&mut plan, calm),
        }
        self.heal(&mut plan, calm);
        plan.actions.sort_by_key(|&(at, _)| at);
        plan
    }

    /// Callers of the faulty phase, and one of the phase without faults.
    fn callers(&mut self, calm: u64, liveness: Instant) -> Vec<CallerPlan> {
        let during_faults = |drawer: &mut Self| CallerPlan {
            start: Instant::ZERO,
            arrivals: ArrivalPlan {
                process: Process::Poisson,
                rate: drawer.rng.random_range(0.5..8.0),
                ramp: None,
                calls_max: None,
                duration: Some(Duration::from_millis(calm)),
            },
            holding: drawer.holding(),
            // Some give up while it rings, most do not.
            answer_wait: if drawer.chance(0.3) { Duration::from_secs(2) } else { Duration::from_mins(3) },
            must_succeed: false,
        };
        let count = self.rng.random_range(1..4);
        let mut callers: Vec<_> = (0..count).map(|_| during_faults(self)).collect();
        callers.push(CallerPlan {
            start: liveness,
            arrivals: ArrivalPlan {
                process: Process::Constant,
                rate: self.rng.random_range(1.0..10.0),
                ramp: None,
                calls_max: None,
                duration: Some(LIVENESS),
            },
            holding: Holding::Exponential(Duration::from_secs(2)),
            answer_wait: Duration::from_mins(3),
            must_succeed: true,
        });
        callers
    }

    fn holding(&mut self) -> Holding {
        let mean = self.millis(500..30_000);
        match self.rng.random_range(0..4) {
            0 => Holding::Fixed(Duration::ZERO),
            1 => Holding::Fixed(mean),
            2 => Holding::Normal(mean, mean / 2),
            _ => Holding::Exponential(mean),
        }
    }

    fn answerer(&mut self) -> AnswererPlan {
        let ring = match self.rng.random_range(0..3) {
            0 => Holding::Fixed(Duration::ZERO),
            1 => Holding::Fixed(self.millis(10..4_000)),
            _ => Holding::Exponential(self.millis(10..2_000)),
        };
        let service = ServiceModel {
            service_per_work: Duration::from_micros([0, 100, 3_000][self.rng.random_range(0..3)]),
            exponential: self.chance(0.5),
            ..ServiceModel::default()
        };
        AnswererPlan { ring, trying: self.chance(0.5), service }
    }

    fn config(&mut self, answerers: u16) -> SiteConfig {
        let interval = self.millis(1_000..3_000);
        SiteConfig {
            policy: self.policy(),
            members: self.members(answerers),
            key: 0,
            health: HealthSettings {
                fall: self.rng.random_range(1..4),
                rise: self.rng.random_range(1..3),
                slow_start: self.millis(0..20_000),
            },
            probes: ProbeSettings {
                periodic: true,
                interval,
                timeout: interval.mul_f64(0.9),
                t1: Duration::from_millis(500),
            },
            books: balance::Settings {
                call_lifetime: Duration::from_mins(5),
                ..balance::Settings::default()
            },
        }
    }

    fn policy(&mut self) -> &'static str {
        POLICIES.choose(&mut self.rng).expect("there are policies")
    }

    /// All answerers, with other capacities each time.
    fn members(&mut self, answerers: u16) -> Vec<Member> {
        let equal = self.chance(0.5);
        let mut one = |answerer| {
            let capacity = if equal { 1.0 } else { self.rng.random_range(0.2..5.0) };
            Member { answerer, capacity }
        };
        (0..answerers).map(&mut one).collect()
    }

    /// Messages double, overtake each other and take their time: no reason to fail.
    fn noise(&mut self, plan: &mut Plan, calm: u64) {
        let effects = [
            Effect::Jitter(self.millis(1..40)),
            Effect::Duplicate(self.rng.random_range(0.01..0.3)),
            Effect::Reorder(self.rng.random_range(0.01..0.3), self.millis(1..120)),
        ];
        for what in effects {
            if self.chance(0.5) {
                plan.rules.push(Rule { from: None, to: None, when: Instant::ZERO..at(calm), what });
            }
        }
    }

    /// One thing at a time, and time to get over it.
    fn gentle(&mut self, plan: &mut Plan, faults: u64) {
        for fault in 0..faults {
            let start = 10_000 + fault * GENTLE_GAP_MS + self.rng.random_range(0..5_000);
            self.fault(plan, start, GENTLE_GAP_MS - 15_000);
        }
    }

    /// Anything at any time, and messages are lost.
    fn harsh(&mut self, plan: &mut Plan, calm: u64) {
        if self.chance(0.7) {
            let what = Effect::Loss(self.rng.random_range(0.01..0.3));
            plan.rules.push(Rule { from: None, to: None, when: Instant::ZERO..at(calm), what });
        }
        for _ in 0..self.rng.random_range(0..4) {
            self.partition(plan, calm);
        }
        for _ in 0..self.rng.random_range(1..8) {
            let start = self.rng.random_range(2_000..calm - 2_000);
            self.fault(plan, start, (calm - start).min(30_000));
        }
    }

    /// Two hosts, or one and all others, hear nothing of each other for a while.
    fn partition(&mut self, plan: &mut Plan, calm: u64) {
        let start = self.rng.random_range(2_000..calm - 1_000);
        let length = self.rng.random_range(500..20_000);
        let when = at(start)..at((start + length).min(calm));
        let one = self.rng.random_range(0..plan.hosts());
        let other = if self.chance(0.7) { Some(self.rng.random_range(0..plan.hosts())) } else { None };
        for (from, to) in [(Some(one), other), (other, Some(one))] {
            plan.rules.push(Rule { from, to, when: when.clone(), what: Effect::Partition });
            // Some are deaf in one direction only.
            if self.chance(0.2) {
                break;
            }
        }
    }

    /// Something happens to a host or is done to one from `start` on; it is over when `longest` is, both in milliseconds.
    fn fault(&mut self, plan: &mut Plan, start: u64, longest: u64) {
        let answerers = plan.answerers.len() as u16;
        let one = self.rng.random_range(0..answerers);
        let over = start + self.rng.random_range(0..longest.max(1));
        // What holds up everybody is over before callers lose patience.
        let soon = start + self.rng.random_range(0..longest.clamp(1, AWAY_MS));
        match self.rng.random_range(0..9) {
            0 | 1 => {
                let gone = self.rng.random_range(0..plan.balancers);
                plan.actions.push((at(start), Action::Fail(gone)));
                if plan.balancers > 1 {
                    plan.actions.push((at(soon), Action::TakeOver(1 - gone)));
                }
                plan.actions.push((at(soon), Action::Start(gone)));
            }
            2 => {
                let next = self.rng.random_range(0..plan.balancers);
                plan.actions.push((at(start), Action::TakeOver(next)));
            }
            3 => {
                let refuses = self.chance(0.5);
                plan.actions.push((at(start), Action::Die { answerer: one, refuses }));
                plan.actions.push((at(over), Action::Return(one)));
            }
            4 => {
                plan.actions.push((at(start), Action::Drain(one, true)));
                plan.actions.push((at(over), Action::Drain(one, false)));
            }
            5 => {
                let all = self.members(answerers);
                let others = all.iter().copied().filter(|member| member.answerer != one).collect();
                plan.actions.push((at(start), Action::SetMembers(others)));
                plan.actions.push((at(over), Action::SetMembers(all)));
            }
            6 => plan.actions.push((at(start), Action::SetPolicy(self.policy()))),
            // A second change while requests are repeated that went out before the first one would be a slip of the
            // operator's: only the last key before the present one is kept for them.
            7 if plan.care == Care::Gentle
                || plan.actions.iter().all(|(_, action)| *action != Action::Rekey) =>
            {
                plan.actions.push((at(start), Action::Rekey));
            }
            _ => {
                let host = self.rng.random_range(0..plan.hosts());
                let time = Duration::from_millis(soon - start);
                plan.actions.push((at(start), Action::Stall(host, time)));
            }
        }
    }

    /// From now on nothing is wrong.
    fn heal(&mut self, plan: &mut Plan, calm: u64) {
        let answerers = plan.answerers.len() as u16;
        let everybody = Action::SetMembers(self.members(answerers));
        plan.actions.extend((0..plan.balancers).map(|balancer| (at(calm), Action::Start(balancer))));
        plan.actions.extend((0..answerers).map(|answerer| (at(calm), Action::Return(answerer))));
        plan.actions.extend((0..answerers).map(|answerer| (at(calm), Action::Drain(answerer, false))));
        plan.actions.push((at(calm), everybody));
    }
}
