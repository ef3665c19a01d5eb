//! Settings of a balancer of a scenario: policy, sessions, health checks and probes.

use balance::{HealthSettings, PolicyKind, Weights};
use control::ProbeSettings;
use proxy::ProxyTimers;

/// Settings of a balancer in `[host.<name>]`; all others are the defaults of the server.
#[derive(Debug, Clone, PartialEq)]
pub struct BalancerSettings {
    /// Policy that chooses the server for the next call.
    pub policy: PolicyKind,
    /// Choice among servers that the policy finds equal.
    pub ties: Ties,
    /// Work of a transaction by method.
    pub weights: Weights,
    /// Whether servers are probed with OPTIONS.
    pub probes: bool,
    /// Whether a server is ejected if its calls fail and the calls of other servers do not.
    pub outlier: bool,
}

/// Choice among servers that a policy of least load (`cjsq`, `tjsq`, `tlwl`) finds equal. The TLWL paper does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ties {
    /// In turn, as in the server.
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
    /// Weights and times of its sessions, whose number is not limited.
    pub fn session_settings(&self, timers: &ProxyTimers) -> balance::SessionSettings {
        balance::SessionSettings {
            weights: self.weights,
            transaction_timeout: timers.transaction.t1 * 64,
            invite_timeout: timers.c,
            hold_failures: self.outlier,
            ..balance::SessionSettings::default()
        }
    }

    /// Rules by which a server is dead or an outlier.
    pub fn health_settings(&self) -> HealthSettings {
        HealthSettings { regular: self.probes, ejects: self.outlier, ..HealthSettings::default() }
    }

    /// Settings of probes.
    pub fn probe_settings(&self, timers: &ProxyTimers) -> ProbeSettings {
        ProbeSettings { periodic: self.probes, t1: timers.transaction.t1, ..ProbeSettings::default() }
    }
}
