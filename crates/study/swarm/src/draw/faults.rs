//! Faults of a plan, and their times.

use super::{AWAY_MS, Drawer, GENTLE_GAP_MS, Kind, at};
use crate::{FilePlan, Plan, PlannedAction, Severity, SiteRole, StoreState};
use base::Instant;
use rand::Rng as _;
use rand::seq::IndexedRandom;
use route::Forward;
use sim::engine::{FaultEffect, FaultRule};

impl Drawer {
    /// Adds duplication, reordering and jitter, which make no call fail.
    pub(super) fn noise(&mut self, plan: &mut Plan, calm: u64) {
        let effects = [
            FaultEffect::Jitter(self.millis(1..40)),
            FaultEffect::Duplicate(self.rng.random_range(0.01..0.3)),
            FaultEffect::Reorder(self.rng.random_range(0.01..0.3), self.millis(1..120)),
        ];
        for effect in effects {
            if self.chance(0.5) {
                plan.rules.push(FaultRule { from: None, to: None, when: Instant::ZERO..at(calm), effect });
            }
        }
    }

    /// Adds faults one at a time, with time to recover after each.
    pub(super) fn gentle(&mut self, plan: &mut Plan, faults: u64) {
        for fault in 0..faults {
            let start = 10_000 + fault * GENTLE_GAP_MS + self.rng.random_range(0..5_000);
            self.fault(plan, start, GENTLE_GAP_MS - 15_000);
        }
    }

    /// Adds faults at any time, and loss of messages.
    pub(super) fn harsh(&mut self, plan: &mut Plan, calm: u64) {
        if self.chance(0.7) {
            let effect = FaultEffect::Loss(self.rng.random_range(0.01..0.3));
            plan.rules.push(FaultRule { from: None, to: None, when: Instant::ZERO..at(calm), effect });
        }
        for _ in 0..self.rng.random_range(0..4) {
            self.partition(plan, calm);
        }
        for _ in 0..self.rng.random_range(1..8) {
            let start = self.rng.random_range(2_000..calm - 2_000);
            self.fault(plan, start, (calm - start).min(30_000));
        }
    }

    /// Cuts the network between two hosts, or one host and all others, for a while.
    fn partition(&mut self, plan: &mut Plan, calm: u64) {
        let start = self.rng.random_range(2_000..calm - 1_000);
        let length = self.rng.random_range(500..20_000);
        let when = at(start)..at((start + length).min(calm));
        let one = self.rng.random_range(0..plan.hosts());
        let other = if self.chance(0.7) { Some(self.rng.random_range(0..plan.hosts())) } else { None };
        for (from, to) in [(Some(one), other), (other, Some(one))] {
            plan.rules.push(FaultRule { from, to, when: when.clone(), effect: FaultEffect::Partition });
            // Some partitions are in one direction only.
            if self.chance(0.2) {
                break;
            }
        }
    }

    /// Adds a fault or action from `start` on that lasts at most `longest`, both in milliseconds.
    fn fault(&mut self, plan: &mut Plan, start: u64, longest: u64) {
        let over = at(start + self.rng.random_range(0..longest.max(1)));
        // Faults that stop all calls end before callers give up.
        let soon = at(start + self.rng.random_range(0..longest.clamp(1, AWAY_MS)));
        let start = at(start);
        // In a gentle plan with several pools no process or host fails, so that no state of any call may be left.
        let is_quiet = plan.severity == Severity::Gentle && self.kind == Kind::Mixed;
        let done = match self.rng.random_range(0..7) {
            0..=3 if is_quiet => false,
            0 | 1 => self.away(plan, start, soon),
            2 => self.take_over(plan, start),
            3 => self.death(plan, start, over),
            4 | 5 => self.reload(plan, start, over) || self.store_fault(plan, start, over),
            // The key is not changed again while requests from before the last change are still retransmitted. An
            // operator would avoid that too: a process recognises retransmissions only by the current key and the one
            // before.
            6 if plan.severity == Severity::Gentle
                || plan.actions.iter().all(|(_, action)| *action != PlannedAction::Rekey) =>
            {
                plan.actions.push((start, PlannedAction::Rekey));
                true
            }
            _ => false,
        };
        if !done {
            let host = self.rng.random_range(0..plan.hosts());
            plan.actions.push((start, PlannedAction::Stall(host, soon - start)));
        }
    }

    /// A process dies and restarts. The other process of its site, if there is one, takes over.
    fn away(&mut self, plan: &mut Plan, start: Instant, soon: Instant) -> bool {
        let gone = self.rng.random_range(0..plan.processes());
        plan.actions.push((start, PlannedAction::Fail(gone)));
        if let Some(other) = sister(plan, gone) {
            plan.actions.push((soon, PlannedAction::TakeOver(other)));
        }
        plan.actions.push((soon, PlannedAction::Start(gone)));
        true
    }

    fn take_over(&mut self, plan: &mut Plan, start: Instant) -> bool {
        let next = self.rng.random_range(0..plan.processes());
        let has_sister = sister(plan, next).is_some();
        if has_sister {
            plan.actions.push((start, PlannedAction::TakeOver(next)));
        }
        has_sister
    }

    fn death(&mut self, plan: &mut Plan, start: Instant, over: Instant) -> bool {
        let answerer = self.rng.random_range(0..plan.answerers.len() as u16);
        let refuses = self.chance(0.5);
        plan.actions.push((start, PlannedAction::Die { answerer, refuses }));
        plan.actions.push((over, PlannedAction::Return(answerer)));
        true
    }

    /// The operator changes the configuration, and reverts it later.
    fn reload(&mut self, plan: &mut Plan, start: Instant, over: Instant) -> bool {
        let site = self.rng.random_range(0..plan.sites.len() as u16);
        let role = plan.sites[usize::from(site)].role.clone();
        let targets = role.targets();
        let Some((&one, file)) = targets.choose(&mut self.rng).zip(role.file()) else { return false };
        let configure = |file: FilePlan| PlannedAction::Configure(site, Box::new(file));
        let (change, back) = match role {
            SiteRole::Balancer(_) => match self.rng.random_range(0..3) {
                0 => (PlannedAction::Drain(one, true), Some(PlannedAction::Drain(one, false))),
                1 => {
                    let all = self.members(&targets);
                    let others: Vec<_> =
                        all.iter().copied().filter(|member| member.destination != one).collect();
                    (configure(file.with_members(&others)), Some(configure(file.with_members(&all))))
                }
                _ => {
                    let (mut file, policy) = (file.clone(), self.policy());
                    file.pools.iter_mut().for_each(|pool| pool.settings.policy = policy);
                    (configure(file), None)
                }
            },
            // If the next hop of a call changes, its state may be kept by several nodes.
            SiteRole::Proxy(_) if targets.len() < 2 || file.forwards(Forward::Distributed) => return false,
            // Changes of these sites are drawn with the site.
            SiteRole::Mixed(_) | SiteRole::Home(_) => return false,
            SiteRole::Proxy(_) => {
                let mut others = file.clone();
                others.pools[0].members.retain(|member| member.destination != one);
                (configure(others), Some(configure(file.with_members(&self.members(&targets)))))
            }
        };
        plan.actions.push((start, change));
        plan.actions.extend(back.map(|back| (over, back)));
        true
    }

    /// Ends all faults.
    pub(super) fn heal(&mut self, plan: &mut Plan, calm: u64) {
        let mut actions: Vec<_> = (0..plan.processes()).map(PlannedAction::Start).collect();
        actions.extend((0..plan.answerers.len() as u16).map(PlannedAction::Return));
        for (number, site) in (0..).zip(&plan.sites) {
            let targets = site.role.targets();
            match &site.role {
                SiteRole::Balancer(file) => {
                    actions.extend(targets.iter().map(|&target| PlannedAction::Drain(target, false)));
                    let file = file.with_members(&self.members(&targets));
                    actions.push(PlannedAction::Configure(number, Box::new(file)));
                }
                SiteRole::Proxy(file) => actions.push(PlannedAction::Configure(number, file.clone())),
                SiteRole::Home(_) | SiteRole::Mixed(_) => {}
            }
            if site.role.store().is_some() {
                actions.push(PlannedAction::SetStore(number, StoreState::Up));
            }
        }
        plan.actions.extend(actions.into_iter().map(|action| (at(calm), action)));
    }
}

/// Returns the other process of the same site.
fn sister(plan: &Plan, process: u16) -> Option<u16> {
    let site = plan.site_of(process);
    let first = plan.first_process(site);
    let all = first..first + plan.sites[usize::from(site)].processes;
    all.into_iter().find(|&other| other != process)
}
