//! Plans in which all messages go over TCP.

use super::at;
use crate::{Plan, PlannedAction, Severity, SitePlan, SiteRole};
use base::{Rng, Transport};
use rand::Rng as _;

/// Fraction of plans over TCP, among those that can be.
const SHARE: f64 = 0.4;

/// Moves some plans to TCP. Drawn from a fork of the seed, so that plans over UDP do not depend on it. Connections lose
/// calls, so no such plan is gentle.
pub(super) fn draw(plan: &mut Plan, calm: u64) {
    let mut rng = Rng::from_seed(plan.seed).fork("streams");
    let is_balancer =
        |site: &SitePlan| matches!(site.role, SiteRole::Balancer(_)) && site.role.scale().is_none();
    let can_be = plan.severity == Severity::Harsh && plan.sites.iter().all(is_balancer);
    if !can_be || !rng.random_bool(SHARE) {
        return;
    }
    plan.transport = Transport::Tcp;
    for _ in 0..rng.random_range(1..8) {
        let (host, when) = (rng.random_range(0..plan.hosts()), at(rng.random_range(2_000..calm - 1_000)));
        let fault =
            if rng.random_bool(0.5) { PlannedAction::Reset(host) } else { PlannedAction::HalfOpen(host) };
        plan.actions.push((when, fault));
    }
    // Resets all connections at the end of the faults, since the kernel would need a minute to find broken connections
    // that are not used.
    plan.actions.extend((0..plan.hosts()).map(|host| (at(calm), PlannedAction::Reset(host))));
}
