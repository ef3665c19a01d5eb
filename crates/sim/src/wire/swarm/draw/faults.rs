//! What goes wrong, and when.

use super::super::super::{Action, Care, Plan, Role};
use super::{AWAY_MS, Drawer, GENTLE_GAP_MS, at};
use crate::engine::{Effect, Rule};
use base::Instant;
use rand::Rng as _;
use rand::seq::IndexedRandom;

impl Drawer {
    /// Messages double, overtake each other and take their time: no reason to fail.
    pub(super) fn noise(&mut self, plan: &mut Plan, calm: u64) {
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
    pub(super) fn gentle(&mut self, plan: &mut Plan, faults: u64) {
        for fault in 0..faults {
            let start = 10_000 + fault * GENTLE_GAP_MS + self.rng.random_range(0..5_000);
            self.fault(plan, start, GENTLE_GAP_MS - 15_000);
        }
    }

    /// Anything at any time, and messages are lost.
    pub(super) fn harsh(&mut self, plan: &mut Plan, calm: u64) {
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
        let over = at(start + self.rng.random_range(0..longest.max(1)));
        // What holds up everybody is over before callers lose patience.
        let soon = at(start + self.rng.random_range(0..longest.clamp(1, AWAY_MS)));
        let start = at(start);
        let done = match self.rng.random_range(0..7) {
            0 | 1 => self.away(plan, start, soon),
            2 => self.take_over(plan, start),
            3 => self.death(plan, start, over),
            4 | 5 => self.reload(plan, start, over),
            // A second change while requests are repeated that went out before the first one would be a slip of the
            // operator's: only the last key before the present one is kept for them.
            6 if plan.care == Care::Gentle
                || plan.actions.iter().all(|(_, action)| *action != Action::Rekey) =>
            {
                plan.actions.push((start, Action::Rekey));
                true
            }
            _ => false,
        };
        if !done {
            let host = self.rng.random_range(0..plan.hosts());
            plan.actions.push((start, Action::Stall(host, soon - start)));
        }
    }

    /// A process dies and comes back; another one of its site, if there is one, takes over.
    fn away(&mut self, plan: &mut Plan, start: Instant, soon: Instant) -> bool {
        let gone = self.rng.random_range(0..plan.processes());
        plan.actions.push((start, Action::Fail(gone)));
        if let Some(other) = sister(plan, gone) {
            plan.actions.push((soon, Action::TakeOver(other)));
        }
        plan.actions.push((soon, Action::Start(gone)));
        true
    }

    fn take_over(&mut self, plan: &mut Plan, start: Instant) -> bool {
        let next = self.rng.random_range(0..plan.processes());
        let has_sister = sister(plan, next).is_some();
        if has_sister {
            plan.actions.push((start, Action::TakeOver(next)));
        }
        has_sister
    }

    fn death(&mut self, plan: &mut Plan, start: Instant, over: Instant) -> bool {
        let answerer = self.rng.random_range(0..plan.answerers.len() as u16);
        let refuses = self.chance(0.5);
        plan.actions.push((start, Action::Die { answerer, refuses }));
        plan.actions.push((over, Action::Return(answerer)));
        true
    }

    /// The operator changes something, and takes it back.
    fn reload(&mut self, plan: &mut Plan, start: Instant, over: Instant) -> bool {
        let site = self.rng.random_range(0..plan.sites.len() as u16);
        let role = plan.sites[usize::from(site)].role.clone();
        let targets = role.targets();
        let one = *targets.choose(&mut self.rng).expect("every site sends to someone");
        let (change, back) = match role {
            Role::Balancer(_) => match self.rng.random_range(0..3) {
                0 => (Action::Drain(one, true), Some(Action::Drain(one, false))),
                1 => {
                    let all = self.members(&targets);
                    let others = all.iter().copied().filter(|member| member.party != one).collect();
                    (Action::SetMembers(site, others), Some(Action::SetMembers(site, all)))
                }
                _ => (Action::SetPolicy(site, self.policy()), None),
            },
            Role::Proxy(_) if targets.len() < 2 => return false,
            Role::Proxy(_) => {
                let others = targets.iter().copied().filter(|&hop| hop != one).collect();
                let all = self.hops(&targets, Care::Gentle);
                (Action::SetHops(site, others), Some(Action::SetHops(site, all)))
            }
        };
        plan.actions.push((start, change));
        plan.actions.extend(back.map(|back| (over, back)));
        true
    }

    /// From now on nothing is wrong.
    pub(super) fn heal(&mut self, plan: &mut Plan, calm: u64) {
        let mut actions: Vec<_> = (0..plan.processes()).map(Action::Start).collect();
        actions.extend((0..plan.answerers.len() as u16).map(Action::Return));
        for (number, site) in (0..).zip(&plan.sites) {
            let targets = site.role.targets();
            match site.role {
                Role::Balancer(_) => {
                    actions.extend(targets.iter().map(|&target| Action::Drain(target, false)));
                    actions.push(Action::SetMembers(number, self.members(&targets)));
                }
                Role::Proxy(_) => actions.push(Action::SetHops(number, targets)),
            }
        }
        plan.actions.extend(actions.into_iter().map(|action| (at(calm), action)));
    }
}

/// The other process of a process's site.
fn sister(plan: &Plan, process: u16) -> Option<u16> {
    let site = plan.site_of(process);
    let first = plan.first_process(site);
    let all = first..first + plan.sites[usize::from(site)].processes;
    all.into_iter().find(|&other| other != process)
}
