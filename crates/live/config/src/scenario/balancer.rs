//! A host that balances: what the scenario says of it, and what that is to its sessions, their health and their
//! probes.

use balance::{HealthSettings, PolicyKind, Weights};
use control::ProbeSettings;
use proxy::ProxyTimers;

/// What `[host.<name>]` says of a balancer; all else is as in a server whose configuration says nothing of it.
#[derive(Debug, Clone, PartialEq)]
pub struct BalancerSettings {
    /// Who gets the next call.
    pub policy: PolicyKind,
    /// Which of several servers gets it that are level for a policy of least load.
    pub ties: Ties,
    /// Work of a transaction by method.
    pub weights: Weights,
    /// Whether it asks its servers by OPTIONS whether they live.
    pub probes: bool,
    /// Whether it ejects those that fail what the others do not fail.
    pub outlier: bool,
}

/// Which of several servers gets a call that are level for a policy of least load (`cjsq`, `tjsq`, `tlwl`). The TLWL
/// paper does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ties {
    /// They take turns, as in the server.
    #[default]
    Turns,
    /// Each with the same probability.
    Random,
}

impl Default for BalancerSettings {
    fn default() -> Self {
        let (health, weights) = (HealthSettings::default(), Weights::default());
        let (probes, outlier) = (health.regular, health.ejects);
        Self { policy: PolicyKind::default(), ties: Ties::default(), weights, probes, outlier }
    }
}

impl BalancerSettings {
    /// Weights and times of its sessions, of which there is no limit.
    pub fn session_settings(&self, timers: &ProxyTimers) -> balance::SessionSettings {
        balance::SessionSettings {
            weights: self.weights,
            transaction_timeout: timers.transaction.t1 * 64,
            invite_timeout: timers.c,
            hold_failures: self.outlier,
            ..balance::SessionSettings::default()
        }
    }

    /// When a server counts as dead and as an outlier.
    pub fn health_settings(&self) -> HealthSettings {
        HealthSettings { regular: self.probes, ejects: self.outlier, ..HealthSettings::default() }
    }

    /// When servers are probed.
    pub fn probe_settings(&self, timers: &ProxyTimers) -> ProbeSettings {
        ProbeSettings { periodic: self.probes, t1: timers.transaction.t1, ..ProbeSettings::default() }
    }
}
