//! What is known of a pool beside its servers: how many calls come, and what the scaler has said.

use base::Instant;
use elastic::scale::Decision;

/// Decisions by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecisionCounts {
    /// Servers to be started.
    pub start: u64,
    /// Servers that get no new calls any more.
    pub drain: u64,
    /// Drained ones that get calls again.
    pub resume: u64,
    /// Servers to be stopped, those that are asked for again included.
    pub stop: u64,
    /// Servers to be stopped since they did not come up.
    pub give_up: u64,
}

/// What is known of a pool beside its servers.
#[derive(Clone, Debug, Default)]
pub struct Outlook {
    /// When arrivals were last looked at, and how many there had been.
    seen: Option<(Instant, u64)>,
    /// Most servers announce much less than they use to.
    pub cluster_latency: bool,
    /// So many servers are needed, which are more than there may be.
    pub short: Option<usize>,
    /// Decisions so far.
    pub decisions: DecisionCounts,
}

impl Outlook {
    /// New requests a second since the last look; `None` at the first.
    pub(super) fn rate(&mut self, now: Instant, arrivals: u64) -> Option<f64> {
        let (at, before) = self.seen.replace((now, arrivals))?;
        let since = (now - at).as_secs_f64();
        // A member that has been forgotten takes what it was given with it.
        (since > 0.0).then(|| arrivals.saturating_sub(before) as f64 / since)
    }

    /// Takes note of a decision.
    pub(super) fn note(&mut self, decision: Decision) {
        let count = match decision {
            Decision::Start(_) => &mut self.decisions.start,
            Decision::Drain(_) => &mut self.decisions.drain,
            Decision::Resume(_) => &mut self.decisions.resume,
            Decision::Stop(_) => &mut self.decisions.stop,
            Decision::GiveUp(_) => &mut self.decisions.give_up,
            Decision::ClusterLatency(has_fallen) => {
                self.cluster_latency = has_fallen;
                return;
            }
            Decision::Limit(needed) => {
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
    fn a_rate_is_of_what_came_since_the_last_look() {
        let mut outlook = Outlook::default();
        let mut rate = |millis, arrivals| outlook.rate(Instant::from_millis(millis), arrivals);
        assert_eq!(rate(1_000, 50), None);
        assert_eq!(rate(3_000, 90), Some(20.0));
        assert_eq!(rate(3_000, 95), None, "no time has passed");
        assert_eq!(rate(4_000, 30), Some(0.0), "a member is gone with its count");
        assert_eq!(rate(4_500, 31), Some(2.0));
    }
}
