//! The scaler of a pool: rate of arrivals and results of decisions.

use super::view::{MemberLoad, PoolView};
use base::Instant;
use elastic::scale::{FrontTraffic, ScaleSettings, Scaler, ScalingDecision, ServerLoad, ServerState};

/// Decisions by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecisionCounts {
    /// Servers to start.
    pub start: u64,
    /// Servers that get no new calls from now on.
    pub drain: u64,
    /// Drained servers that get new calls again.
    pub resume: u64,
    /// Servers to stop, repeated requests included.
    pub stop: u64,
    /// Servers to stop because they did not come up.
    pub give_up: u64,
}

/// The scaler of a pool, with its figures.
pub struct ScalerOutlook {
    /// Decides how many servers there should be.
    pub scaler: Scaler,
    /// Settings of the scaler.
    pub settings: ScaleSettings,
    /// Time and number of arrivals at the last observation.
    seen: Option<(Instant, u64)>,
    /// Whether most servers announce much less capacity than usual.
    pub cluster_latency: bool,
    /// Number of servers needed if it exceeds the largest number.
    pub short: Option<usize>,
    /// Decisions so far.
    pub decisions: DecisionCounts,
}

impl ScalerOutlook {
    pub(super) fn new(now: Instant, settings: ScaleSettings) -> Self {
        Self {
            scaler: Scaler::new(now, settings.clone()),
            settings,
            seen: None,
            cluster_latency: false,
            short: None,
            decisions: DecisionCounts::default(),
        }
    }

    /// Returns the scaler's decisions at this rate and for these servers.
    pub(super) fn decide(&mut self, now: Instant, rate: f64, servers: &[ServerLoad]) -> Vec<ScalingDecision> {
        let mut decisions = Vec::new();
        self.scaler.step(now, &FrontTraffic { rate, servers }, &mut decisions);
        for decision in &decisions {
            self.note(*decision);
        }
        decisions
    }

    /// Returns the number of servers that should take calls.
    pub fn wanted(&self) -> usize {
        let is_wanted = |state| matches!(state, ServerState::Starting | ServerState::Ready);
        self.scaler.rows().filter(|row| is_wanted(row.state)).count()
    }

    /// Returns the calls a second that the members that take calls can carry.
    pub fn capacity(&self, view: &PoolView) -> f64 {
        // The sum of no floats is -0.0.
        view.taking().map(|member| self.capacity_of(member)).sum::<f64>() + 0.0
    }

    pub(super) fn capacity_of(&self, member: &MemberLoad) -> f64 {
        member.capacity.unwrap_or(self.settings.capacity * member.weight)
    }

    /// Returns the new requests a second since the last call; `None` at the first.
    pub(super) fn rate(&mut self, now: Instant, arrivals: u64) -> Option<f64> {
        let (at, before) = self.seen.replace((now, arrivals))?;
        let since = (now - at).as_secs_f64();
        // When a member is forgotten, its arrivals disappear from the sum.
        (since > 0.0).then(|| arrivals.saturating_sub(before) as f64 / since)
    }

    /// Counts a decision.
    fn note(&mut self, decision: ScalingDecision) {
        let count = match decision {
            ScalingDecision::Start(_) => &mut self.decisions.start,
            ScalingDecision::Drain(_) => &mut self.decisions.drain,
            ScalingDecision::Resume(_) => &mut self.decisions.resume,
            ScalingDecision::Stop(_) => &mut self.decisions.stop,
            ScalingDecision::GiveUp(_) => &mut self.decisions.give_up,
            ScalingDecision::ClusterLatency(has_fallen) => {
                self.cluster_latency = has_fallen;
                return;
            }
            ScalingDecision::Limit(needed) => {
                self.short = needed;
                return;
            }
        };
        *count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_counts_arrivals_since_the_last_look() {
        let mut outlook = ScalerOutlook::new(Instant::ZERO, ScaleSettings::default());
        let mut rate = |millis, arrivals| outlook.rate(Instant::from_millis(millis), arrivals);
        assert_eq!(rate(1_000, 50), None);
        assert_eq!(rate(3_000, 90), Some(20.0));
        assert_eq!(rate(3_000, 95), None, "no time has passed");
        assert_eq!(rate(4_000, 30), Some(0.0), "a member has left, and its count with it");
        assert_eq!(rate(4_500, 31), Some(2.0));
    }
}
