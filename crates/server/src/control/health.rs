//! Carries out what [`balance::Cluster`] decides about the members' health: probes are sent, shards told, people informed.

use super::Control;
use crate::shards::Command;
use balance::{Effect, News, Node, Refusal, Sign, Slot};
use base::Instant;
use node::{HopFailure, Outcome};
use std::net::SocketAddr;
use std::time::Duration;

impl Control {
    /// What the probes brought.
    pub(super) fn probed(&mut self, outcomes: Vec<Outcome>) {
        let now = self.clock.now();
        for outcome in outcomes {
            let (slot, reason) = (outcome.slot, outcome.reason);
            let before = self.cluster.nodes()[slot.index()].clone();
            outcome.apply(now, &mut self.cluster);
            self.remarks[slot.index()].last_probe = Some(reason);
            let after = &self.cluster.nodes()[slot.index()];
            if after.is_up() && before.paused_until <= now && now < after.paused_until {
                let (member, rest) =
                    (self.remarks[slot.index()].address, after.paused_until.saturating_since(now));
                tracing::info!(%member, ?rest, "member answered a probe with 503, it rests");
            }
        }
        self.carry_out();
    }

    /// No member took these new calls.
    pub(super) fn exhausted(&mut self, now: Instant, refused: u64) {
        /// Each shard reports every second.
        const EACH: Duration = Duration::from_secs(10);
        self.cluster.none_took(now);
        self.refused.0 += refused;
        if self.refused.1.is_some_and(|told| now.saturating_since(told) < EACH) {
            return;
        }
        let members = self.cluster.nodes().iter().zip(&self.remarks).filter(|(node, _)| node.member);
        // Only the shards know how many calls a member has.
        let why = |node: &Node| node.refusal(now, 0).map_or("full", Refusal::name);
        let members: Vec<_> =
            members.map(|(node, remark)| format!("{} {}", remark.address, why(node))).collect();
        let (refused, members) = (core::mem::take(&mut self.refused.0), members.join(", "));
        tracing::error!(refused, members, "no member takes new calls: they get 503");
        self.refused.1 = Some(now);
    }

    /// A shard found that a next hop has failed: all others take it for failed at once.
    pub(super) fn hop_failed(&mut self, now: Instant, failure: &HopFailure) {
        for worker in &self.workers {
            worker.send(Command::HopFailed(*failure));
        }
        let HopFailure { hop, until, is_unreachable } = *failure;
        let before = self.resting.insert(hop, until);
        if before.is_some_and(|until| now < until) {
            return;
        }
        let why = if is_unreachable { "unreachable (ICMP)" } else { "503, or no answer in time" };
        let next = self.config.proxy().map_or(&[][..], |proxy| &proxy.next);
        self.resting.retain(|hop, _| next.contains(hop));
        let is_resting = |hop: &&SocketAddr| self.resting.get(*hop).is_some_and(|until| now < *until);
        let left = next.len() - next.iter().filter(is_resting).count();
        tracing::warn!(%hop, why, rest = ?until.saturating_since(now), left, "next hop has failed: it is asked last");
        if left == 0 {
            tracing::error!("all next hops have failed: requests go to them all the same");
        }
    }

    /// Logs what the traffic says of a member.
    pub(super) fn log_sign(&self, now: Instant, sign: Sign) {
        let member = |slot: Slot| self.remarks[slot.index()].address;
        match sign {
            // Others follow as long as it is asked all the same.
            Sign::Pause { slot, until, .. } if self.cluster.nodes()[slot.index()].paused_until <= now => {
                let rest = until.saturating_since(now);
                tracing::info!(member = %member(slot), ?rest, "member answered 503, it rests");
            }
            Sign::NoAnswer { slot, .. } => tracing::debug!(member = %member(slot), "a request got no answer"),
            Sign::Recovered { slot } => {
                tracing::info!(member = %member(slot), "member has answered a call in its rest, which is over");
            }
            Sign::Pause { .. } | Sign::Answer { .. } | Sign::Tally { .. } | Sign::Memory { .. } => {}
        }
    }

    /// Does what the cluster has decided and nobody has done yet.
    pub(super) fn carry_out(&mut self) {
        let effects: Vec<_> = self.cluster.drain_effects().collect();
        for effect in effects {
            self.probes.carry_out(effect);
            if let Effect::Note(news) = effect {
                self.announce_news(news);
            }
        }
    }

    fn announce_news(&mut self, news: News) {
        let now = self.clock.now();
        match news {
            News::Lost { slot, cause } => {
                let remark = &mut self.remarks[slot.index()];
                remark.last_change = now;
                tracing::warn!(member = %remark.address, reason = %cause, "member is dead: new calls go elsewhere");
            }
            News::Back { slot, cause } => {
                let remark = &mut self.remarks[slot.index()];
                remark.last_change = now;
                tracing::info!(member = %remark.address, reason = %cause, "member is back");
            }
            News::CallsLost { slot } => tracing::info!(
                member = %self.remarks[slot.index()].address,
                "member is back without the calls it had: it answers 481"
            ),
            News::IgnoresProbes { slot } => tracing::warn!(
                member = %self.remarks[slot.index()].address,
                "member answers calls but not OPTIONS: from now on only unanswered calls and closed ports tell that it is \
                 dead. Let it answer OPTIONS, or set `enabled = false` in [pool.<name>.probe]"
            ),
            News::Ejected { slot, outlier, until } => tracing::warn!(
                member = %self.remarks[slot.index()].address,
                reason = %outlier,
                length = ?until.saturating_since(now),
                "member is ejected: new calls go elsewhere for a while; `sarabande up MEMBER` ends that"
            ),
            News::NoneAlive { silent: true } => tracing::error!(
                "no member is alive: calls go on to those that are only silent. If they do not answer OPTIONS, let them, or \
                 set `enabled = false` in [pool.<name>.probe]; `sarabande up MEMBER` brings one back"
            ),
            News::NoneAlive { silent: false } => {
                tracing::error!("no member is alive: new calls are refused with 503");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::control::dns::Names;
    use crate::control::resolver::Resolver;
    use crate::shards::listen::Bind;
    use crate::token_time::TokenTime;
    use node::{Reason, Rest};

    fn config(probe: &str) -> config::Config {
        let text = format!(
            "[listen]\nudp = [\"127.0.0.1:5060\"]\n[pool.servers]\nmembers = [\"127.0.0.1:5081\"]\nprobe = {probe}\n"
        );
        config::parse(&text, "test.toml").unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn control(probe: &str) -> Control {
        let config = config(probe);
        let address = "127.0.0.1:5060".parse().unwrap();
        let binds = vec![Bind { address, advertised: address }];
        let names = (Names::default(), Resolver::new(&[], &binds));
        Control::new(
            Clock::start(),
            None,
            config,
            binds,
            names,
            ([0; 16], TokenTime::start(None, Duration::from_hours(1))),
            std::sync::Arc::new(crate::shards::board::Board::new(1)),
        )
        .unwrap()
    }

    fn outcome(reason: Reason, rest: Option<Rest>) -> Vec<Outcome> {
        vec![Outcome { slot: Slot(0), reason, rest }]
    }

    #[tokio::test]
    async fn one_503_to_a_probe_keeps_new_calls_away_for_as_long_as_it_says() {
        let mut control = control("{ fall = 3 }");
        let rest = Rest { length: Duration::from_mins(1), asked: true };
        control.probed(outcome(Reason::Status(503), Some(rest)));
        let (node, now) = (&control.cluster.nodes()[0], control.clock.now());
        assert!(node.is_up() && node.asked_until > now);
        assert_eq!(node.refusal(now, 0), Some(Refusal::Paused));
    }

    const UNASKED: &str = "{ enabled = false, fall = 2 }";

    #[tokio::test]
    async fn without_regular_probes_silence_is_death_and_never_life() {
        let mut control = control(UNASKED);
        let mut silence = |reachable| {
            control.probed(outcome(Reason::Timeout, None));
            assert_eq!(control.cluster.nodes()[0].is_up(), reachable);
        };
        silence(true);
        silence(false);
        silence(false);
        control.probed(outcome(Reason::Status(405), None));
        assert!(control.cluster.nodes()[0].is_up(), "it answers, if only that it does not know OPTIONS");
        control.probed(outcome(Reason::Unreachable, None));
        control.probed(outcome(Reason::Timeout, None));
        assert!(!control.cluster.nodes()[0].is_up(), "the host of the closed port is gone, too");
    }

    #[tokio::test]
    async fn without_regular_probes_an_answer_to_a_request_is_life() {
        let mut control = control(UNASKED);
        let now = control.clock.now();
        control.cluster.suspect(now, Slot(0));
        assert!(control.cluster.nodes()[0].doubted, "the shards are to tell of its next answer");
        control.probed(outcome(Reason::Timeout, None));
        control.cluster.sign(now, Sign::Answer { slot: Slot(0) });
        control.probed(outcome(Reason::Timeout, None));
        assert!(control.cluster.nodes()[0].is_up(), "it has answered in between");
        control.probed(outcome(Reason::Timeout, None));
        assert!(!control.cluster.nodes()[0].is_up());
        control.cluster.sign(now, Sign::Answer { slot: Slot(0) });
        assert!(control.cluster.nodes()[0].is_up() && !control.cluster.nodes()[0].doubted);
    }

    #[tokio::test]
    async fn a_reload_asks_the_dead_anew_where_nobody_is_asked_regularly() {
        let mut control = control(UNASKED);
        control.probed(outcome(Reason::Unreachable, None));
        control.probed(outcome(Reason::Status(200), None));
        control.probed(outcome(Reason::Unreachable, None));
        control.take_over(config(UNASKED));
        control.carry_out();
        let due =
            control.probes.deadline().is_some_and(|due| due <= control.clock.now() + Duration::from_secs(1));
        assert!(due, "nothing else would ask it");
    }
}
