//! Faults of a scenario's hosts, as actions of a plan.

use super::sites::Sites;
use crate::plan::{Plan, PlannedAction};
use base::{Instant, Rng};
use config::scenario::{FaultKind, Scenario};
use core::time::Duration;
use load::RandomTime;

/// Returns the faults and pauses of hosts. A fault of a host applies to everything in the plan that stands for the
/// host.
pub(super) fn actions(
    scenario: &Scenario,
    plan: &Plan,
    sites: &Sites,
) -> Result<Vec<(Instant, PlannedAction)>, String> {
    let mut actions = Vec::new();
    for fault in &scenario.faults {
        let (start, group, host) = (Instant::ZERO + fault.at, fault.group, fault.host);
        match fault.kind {
            FaultKind::Restart(time) => {
                for process in sites.processes(group, host) {
                    actions.push((start, PlannedAction::Fail(process)));
                    actions.push((start + time, PlannedAction::Start(process)));
                }
                for answerer in sites.servers(group, host) {
                    actions.push((start, PlannedAction::Die { answerer, refuses: false }));
                    actions.push((start + time, PlannedAction::Return(answerer)));
                }
            }
            FaultKind::Stall(time) => {
                let stall = |host| (start, PlannedAction::Stall(host, time));
                actions.extend(sites.hosts(plan, group, host).into_iter().map(stall));
            }
            FaultKind::Slowdown(_) => return Err("a run on bytes cannot have a slowdown".to_owned()),
            FaultKind::Card(_) => return Err("a run on bytes cannot have network cards".to_owned()),
            FaultKind::Failing(_) => {
                return Err("a run on bytes cannot have a server that fails calls".to_owned());
            }
        }
    }
    for (group, of_group) in scenario.groups.iter().enumerate() {
        let Some(stalls) = &of_group.stalls else { continue };
        for number in 0..of_group.count {
            let hosts = sites.hosts(plan, group, number);
            let Some(first) = hosts.first() else { continue };
            let mut rng = Rng::from_seed(plan.seed).fork(&format!("stalls {first}"));
            let mut at = Instant::ZERO + exponential(stalls.every, &mut rng);
            while at < plan.end {
                let length = stalls.length.sample(&mut rng);
                actions.extend(hosts.iter().map(|&host| (at, PlannedAction::Stall(host, length))));
                at = at + length + exponential(stalls.every, &mut rng);
            }
        }
    }
    actions.sort_by_key(|&(at, _)| at);
    Ok(actions)
}

fn exponential(mean: Duration, rng: &mut Rng) -> Duration {
    RandomTime::Exponential(mean).sample(rng)
}
