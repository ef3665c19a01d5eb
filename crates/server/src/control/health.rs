//! What probes and the traffic say of the members' health.
//!
//! With regular probes these alone decide. Without, a member is asked only once it is suspect, and then until it answers:
//! a probe or, since it may not know OPTIONS, a request of a call. Silence makes it dead, and never brings it back.

use super::Control;
use crate::shards::Command;
use balance::{Node, Refusal, Slot};
use base::Instant;
use node::{HopFailure, Outcome};
use std::fmt::Display;
use std::net::SocketAddr;
use std::time::Duration;

impl Control {
    fn probes_regularly(&self) -> bool {
        self.config.pool().is_some_and(|pool| pool.probe.enabled)
    }

    /// Something went unanswered, or the network reported an error. Neither is proof (an ICMP error is easily forged),
    /// but a probe is quick to tell.
    pub(super) fn suspect(&mut self, now: Instant, slot: Slot) {
        if !self.probes_regularly() {
            self.cluster.doubt(slot);
        }
        self.probes.hurry(now, slot);
    }

    /// Where nobody is asked regularly, one that was dead when it left may come back alive, and nothing else would ask it.
    /// Where all are, perhaps since a reload, nothing is left to doubt.
    pub(super) fn suspect_the_dead(&mut self, now: Instant) {
        if self.probes_regularly() {
            return self.cluster.end_doubt();
        }
        for index in 0..self.cluster.nodes().len() {
            let node = &self.cluster.nodes()[index];
            if node.member && !node.reachable {
                self.suspect(now, Slot(index as u16));
            }
        }
    }

    /// A member in doubt has answered a request.
    pub(super) fn answered(&mut self, now: Instant, slot: Slot) {
        if self.probes_regularly() {
            return;
        }
        let before = self.cluster.nodes()[slot.index()].reachable;
        self.cluster.reachable(now, slot);
        self.probes.clear(slot);
        self.remark_change(now, slot, before, &"answer to a request");
    }

    pub(super) fn probed(&mut self, outcomes: Vec<Outcome>) {
        let (now, periodic) = (self.clock.now(), self.probes_regularly());
        for outcome in outcomes {
            let (slot, reason) = (outcome.slot, outcome.reason);
            let before = self.cluster.nodes()[slot.index()].clone();
            outcome.apply(now, &mut self.cluster, periodic);
            self.remarks[slot.index()].last_probe = Some(reason);
            self.remark_change(now, slot, before.reachable, &reason);
            let after = &self.cluster.nodes()[slot.index()];
            if after.reachable && before.paused_until <= now && now < after.paused_until {
                let (member, rest) =
                    (self.remarks[slot.index()].address, after.paused_until.saturating_since(now));
                tracing::info!(%member, ?rest, "member answered a probe with 503, it rests");
            }
        }
    }

    /// No member took these new calls.
    pub(super) fn exhausted(&mut self, now: Instant, refused: u64) {
        /// Each shard reports every second.
        const EACH: Duration = Duration::from_secs(10);
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

    /// Notes that a member was found dead or back, if that is so.
    fn remark_change(&mut self, now: Instant, slot: Slot, before: bool, reason: &dyn Display) {
        let after = self.cluster.nodes()[slot.index()].reachable;
        if before == after {
            return;
        }
        let remark = &mut self.remarks[slot.index()];
        remark.last_change = now;
        let member = remark.address;
        if after {
            tracing::info!(%member, %reason, "member is back");
        } else {
            tracing::warn!(%member, %reason, "member is dead: new calls go elsewhere");
            if !self.cluster.nodes().iter().any(|node| node.member && node.reachable) {
                tracing::error!(last = %member, "all members are dead: new calls get 503 until one answers");
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
        assert!(node.reachable && node.asked_until > now);
        assert_eq!(node.refusal(now, 0), Some(Refusal::Paused));
    }

    const UNASKED: &str = "{ enabled = false, fall = 2 }";

    #[tokio::test]
    async fn without_regular_probes_silence_is_death_and_never_life() {
        let mut control = control(UNASKED);
        let mut silence = |reachable| {
            control.probed(outcome(Reason::Timeout, None));
            assert_eq!(control.cluster.nodes()[0].reachable, reachable);
        };
        silence(true);
        silence(false);
        silence(false);
        control.probed(outcome(Reason::Status(405), None));
        assert!(control.cluster.nodes()[0].reachable, "it answers, if only that it does not know OPTIONS");
        control.probed(outcome(Reason::Unreachable, None));
        control.probed(outcome(Reason::Timeout, None));
        assert!(!control.cluster.nodes()[0].reachable, "the host of the closed port is gone, too");
    }

    #[tokio::test]
    async fn without_regular_probes_an_answer_to_a_request_is_life() {
        let mut control = control(UNASKED);
        let now = control.clock.now();
        control.suspect(now, Slot(0));
        assert!(control.cluster.nodes()[0].doubted, "the shards are to tell of its next answer");
        control.probed(outcome(Reason::Timeout, None));
        control.answered(now, Slot(0));
        control.probed(outcome(Reason::Timeout, None));
        assert!(control.cluster.nodes()[0].reachable, "it has answered in between");
        control.probed(outcome(Reason::Timeout, None));
        assert!(!control.cluster.nodes()[0].reachable);
        control.answered(now, Slot(0));
        assert!(control.cluster.nodes()[0].reachable && !control.cluster.nodes()[0].doubted);
    }

    #[tokio::test]
    async fn regular_probes_leave_nothing_to_doubt() {
        let mut control = control(UNASKED);
        control.suspect(control.clock.now(), Slot(0));
        control.probed(outcome(Reason::Unreachable, None));
        control.take_over(config("{ enabled = true }"));
        let node = &control.cluster.nodes()[0];
        assert!(
            !node.reachable && !node.doubted,
            "it is dead until a probe is answered, and gets no call before"
        );
        control.take_over(config(UNASKED));
        assert!(control.cluster.nodes()[0].doubted, "and the other way round");
    }
}
