//! What probes say of the members' health.

use super::Control;
use base::Instant;
use node::{Outcome, Reason};

impl Control {
    pub(super) fn probed(&mut self, outcomes: Vec<Outcome>) {
        let now = self.clock.now();
        for outcome in outcomes {
            let slot = outcome.slot.index();
            let before = self.cluster.nodes()[slot].clone();
            self.judge(now, outcome);
            let after = &self.cluster.nodes()[slot];
            let remark = &mut self.remarks[slot];
            remark.last_probe = Some(outcome.reason);
            let (member, reason) = (remark.address, outcome.reason);
            if before.reachable != after.reachable {
                remark.last_change = now;
                if after.reachable {
                    tracing::info!(%member, %reason, "member is back");
                } else {
                    tracing::warn!(%member, %reason, "member is dead: new calls go elsewhere");
                }
            } else if after.reachable && before.paused_until <= now && now < after.paused_until {
                let rest = after.paused_until.saturating_since(now);
                tracing::info!(%member, ?rest, "member answered a probe with 503, it rests");
            }
        }
    }

    /// A closed port answers for itself; silence and 503 have to repeat.
    fn judge(&mut self, now: Instant, outcome: Outcome) {
        let Outcome { slot, alive, reason, rest } = outcome;
        match (reason, rest) {
            (Reason::Unreachable, _) => self.cluster.unreachable(now, slot),
            // Members that nobody probes may not know OPTIONS: that somebody listens has to do.
            _ if self.config.pool().is_some_and(|pool| !pool.probe.enabled) => {
                self.cluster.reachable(now, slot);
            }
            (_, Some(rest)) => self.cluster.refused(now, slot, now + rest.length, rest.asked),
            (_, None) => self.cluster.probed(now, slot, alive),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::control::dns::Names;
    use crate::shards::listen::Bind;
    use balance::{Refusal, Slot};
    use node::Rest;
    use std::time::Duration;

    fn control(probe: &str) -> Control {
        let text = format!(
            "[listen]\nudp = [\"127.0.0.1:5060\"]\n[pool.servers]\nmembers = [\"127.0.0.1:5081\"]\nprobe = {probe}\n"
        );
        let config = config::parse(&text, "test.toml").unwrap_or_else(|errors| panic!("{errors}"));
        let address = "127.0.0.1:5060".parse().unwrap();
        let binds = vec![Bind { address, advertised: address }];
        Control::new(Clock::start(), None, config, binds, Names::default(), [0; 16]).unwrap()
    }

    fn outcome(reason: Reason, rest: Option<Rest>) -> Vec<Outcome> {
        let alive = matches!(reason, Reason::Status(200));
        vec![Outcome { slot: Slot(0), alive, reason, rest }]
    }

    #[tokio::test]
    async fn one_503_to_a_probe_keeps_new_calls_away_for_as_long_as_it_says() {
        let mut control = control("{ fall = 3 }");
        let rest = Rest { length: Duration::from_mins(1), asked: true };
        control.probed(outcome(Reason::Status(503), Some(rest)));
        let (node, now) = (&control.cluster.nodes()[0], control.clock.now());
        assert!(node.reachable && node.asked_until > now);
        assert_eq!(node.refusal(now, 0), Some(Refusal::Paused));
    }
}
