//! Policies of least load that break ties at random. The server's policies break ties in turn.

use balance::policy::{Candidate, Candidates, NewCall};
use balance::{Policy, PolicyKind, Slot};
use base::Rng;
use config::scenario::{BalancerSettings, Ties};
use rand::Rng as _;

/// Returns the policy of a balancer.
pub(super) fn policy(settings: &BalancerSettings, rng: &Rng) -> Box<dyn Policy> {
    match (settings.ties, load_of(settings.policy)) {
        (Ties::Random, Some(load)) => Box::new(Drawn { kind: settings.policy, load, rng: rng.fork("ties") }),
        _ => settings.policy.make(0),
    }
}

/// Returns the load that a policy compares, before division by the capacity; `None` if the policy compares no loads.
fn load_of(kind: PolicyKind) -> Option<fn(&Candidate) -> f64> {
    match kind {
        PolicyKind::Cjsq => Some(|candidate| f64::from(candidate.load.calls)),
        PolicyKind::Tjsq => Some(|candidate| f64::from(candidate.load.transactions)),
        PolicyKind::Tlwl => Some(|candidate| candidate.load.work as f64),
        PolicyKind::RoundRobin | PolicyKind::Hash | PolicyKind::FnvHash | PolicyKind::Rwma => None,
    }
}

/// Chooses the candidate with the least load divided by capacity; tied candidates have equal probability.
#[derive(Clone, Debug)]
struct Drawn {
    kind: PolicyKind,
    load: fn(&Candidate) -> f64,
    rng: Rng,
}

impl Policy for Drawn {
    fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn choose(&mut self, _: &NewCall<'_>, candidates: &Candidates<'_>) -> Option<Slot> {
        let relative = |candidate: &Candidate| (self.load)(candidate) / candidate.capacity;
        let least = candidates.iter().map(|candidate| relative(&candidate)).reduce(f64::min)?;
        let level = || candidates.iter().filter(|candidate| relative(candidate) <= least);
        let drawn = self.rng.random_range(0..level().count());
        level().nth(drawn).map(|candidate| candidate.slot)
    }

    fn clone_box(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}
