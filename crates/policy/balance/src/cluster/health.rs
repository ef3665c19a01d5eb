//! Health of the nodes: conclusions from probes, traffic and the operator.
//!
//! Any response to a probe or a request shows that a node is alive. A node is dead after a few probes without an
//! answer, unless it has answered requests meanwhile. A node that answers requests but no probes ignores OPTIONS, so
//! only unanswered requests count. A closed port (ICMP in answer to a probe) shows death at once.

use super::Cluster;
use super::news::{HealthCause, HealthEffect, HealthNews};
use crate::{Health, Node, PoolId, Sign, Slot};
use base::Instant;
use core::time::Duration;

/// Most deaths after which a node may still have its calls: far fewer than half the range of the count.
const DEATHS_MOST: u16 = 1 << 14;

/// Time for which a datagram of a process that is gone may still arrive.
const LATE: Duration = Duration::from_secs(1);

/// Time for which the other members of a pool are expected back, after all members were dead and the first one has come
/// back. It covers a probe sent at once and its retransmission after T1 (RFC 3261 §17.1.2.2, half a second).
const EXPECTED: Duration = Duration::from_secs(1);

/// Number of successive answered probes, after a refused probe, that end a requested pause. A busy node that refuses
/// some requests answers a single probe from time to time.
const RETURNED: u32 = 2;

/// Time between probes of a pausing node that is not probed regularly.
const REST_GAP: Duration = Duration::from_secs(1);

/// Number of successive calls that a node must answer with 481 after it came back, to show that it lost all calls. Some
/// calls end while the node is away, and also get a 481.
const LOST_CALLS: u8 = 4;

/// Time of silence after which the calls of a node count as lost.
const FORGET_AFTER: Duration = Duration::from_mins(5);

/// Least number of successive events that count.
const ROW_MIN: u32 = 2;

impl Cluster {
    /// Handles a sign from the traffic.
    pub fn sign(&mut self, now: Instant, sign: Sign) {
        match sign {
            Sign::NoAnswer { slot, silent } => self.request_unanswered(now, slot, silent),
            Sign::Answer { slot } => self.request_answered(now, slot),
            Sign::Pause { slot, until, asked } => self.pause(now, slot, until, asked),
            Sign::Unreachable { slot, until } => {
                self.pause(now, slot, until, false);
                self.watches[slot.index()].unreachable_until = self.nodes[slot.index()].paused_until;
                self.suspect(now, slot);
            }
            Sign::Recovered { slot } => self.end_pause(slot),
            Sign::Memory { slot, knows } => self.remembers(slot, knows),
            Sign::Tally { slot, tally } => self.tallied(now, slot, tally),
        }
    }

    /// Handles the outcome of one probe. `fall` successive failures make a node dead; one answer brings it back.
    pub fn probed(&mut self, now: Instant, slot: Slot, alive: bool) {
        if alive {
            self.probe_answered(now, slot);
        } else {
            self.probe_failed(now, slot, HealthCause::ProbesUnanswered);
        }
        self.probed_at_rest(now, slot, alive);
    }

    /// Handles a probe that was answered 503: new calls go elsewhere until `until`. With regular probes it also counts
    /// as a failed probe, and the pause continues after a death and return of the node. `asked`: the node named the
    /// time (Retry-After).
    pub fn refused(&mut self, now: Instant, slot: Slot, until: Instant, asked: bool) {
        if !self.settings(slot).regular {
            self.probe_answered(now, slot);
            self.pause(now, slot, until, asked);
            return self.probed_at_rest(now, slot, false);
        }
        self.learn_probing(slot, true);
        self.probe_failed(now, slot, HealthCause::ProbesRefused);
        // The process that asks for the pause is alive. So the pause is set after the death that this refusal may
        // cause.
        self.rest(now, slot, until, asked);
        self.probed_at_rest(now, slot, false);
    }

    /// Handles a probe during a requested pause. A stopping process names the time until it is replaced, but the new
    /// process may start long before. The new process answers probes, which the old one refused. If a node answers
    /// every probe in its pause, it refuses calls but not probes. Then its answers to probes do not show that it takes
    /// calls.
    fn probed_at_rest(&mut self, now: Instant, slot: Slot, takes: bool) {
        if now >= self.nodes[slot.index()].asked_until {
            return;
        }
        let watch = &mut self.watches[slot.index()];
        watch.returns = if takes { watch.returns.map(|answers| answers + 1) } else { Some(0) };
        if watch.returns.is_some_and(|answers| answers >= RETURNED) && self.nodes[slot.index()].is_up() {
            self.end_pause(slot);
            return self.effects.push(HealthEffect::Note(HealthNews::Recovered { slot }));
        }
        if !self.settings(slot).regular {
            self.request_probe(now + REST_GAP, slot);
        }
    }

    /// Prepares for a pause that a node asked for, unless the node already pauses. A probe shows whether the node
    /// refuses probes as well.
    pub(super) fn begin_rest(&mut self, now: Instant, slot: Slot) {
        if now >= self.nodes[slot.index()].asked_until {
            self.watches[slot.index()].returns = None;
            self.request_probe(now, slot);
        }
    }

    /// Handles an ICMP error for a probe: the port is closed. The node is dead at once; a probe may bring it back.
    pub fn unreachable(&mut self, now: Instant, slot: Slot) {
        self.doubt(slot);
        self.watches[slot.index()].refuses = false;
        if self.nodes[slot.index()].health == Health::Closed {
            self.wake(slot);
        } else {
            self.set_health(now, slot, Health::Closed, HealthCause::PortClosed);
        }
    }

    /// Handles an ICMP error for a request. The error alone proves nothing, since ICMP errors are easily forged. So a
    /// probe is sent, which gives a quick answer.
    pub fn suspect(&mut self, now: Instant, slot: Slot) {
        if !self.settings(slot).regular {
            self.doubt(slot);
        }
        self.request_probe(now, slot);
    }

    /// Marks a node dead that was dead for the previous process. A probe checks at once whether the node is still dead.
    pub fn was_dead(&mut self, now: Instant, slot: Slot) {
        self.doubt(slot);
        if self.nodes[slot.index()].is_up() {
            self.set_health(now, slot, Health::Silent, HealthCause::ProcessBefore);
        }
        self.request_probe(now, slot);
    }

    /// Probes dead members if their pool has no regular probes. A member that was dead when it left may come back
    /// alive, and nothing else would probe it.
    pub(super) fn suspect_the_dead(&mut self, now: Instant) {
        for slot in self.slots() {
            let node = &self.nodes[slot.index()];
            if node.member && !node.is_up() && !self.settings(slot).regular {
                self.suspect(now, slot);
            }
        }
    }

    /// Marks a node up on an operator's request; it takes calls.
    pub fn raise(&mut self, now: Instant, slot: Slot) {
        self.end_pause(slot);
        self.readmit(slot);
        if !self.nodes[slot.index()].is_up() {
            self.set_health(now, slot, Health::Up, HealthCause::Operator);
        }
    }

    /// Ends a node's pause, also in the shards.
    fn end_pause(&mut self, slot: Slot) {
        let node = &mut self.nodes[slot.index()];
        node.wake();
        node.wakes = node.wakes.wrapping_add(1);
        self.version += 1;
    }

    /// Drains the effects.
    pub fn drain_effects(&mut self) -> impl Iterator<Item = HealthEffect> + use<'_> {
        self.effects.drain(..)
    }

    fn probe_answered(&mut self, now: Instant, slot: Slot) {
        self.learn_probing(slot, true);
        self.set_doubted(slot, false);
        // An ICMP error for a request may be forged, or concern one message after which the node closed a connection.
        // The answer shows that the node is reachable.
        let (node, until) = (&self.nodes[slot.index()], self.watches[slot.index()].unreachable_until);
        if now < until && node.paused_until == until && now >= node.asked_until {
            self.end_pause(slot);
            self.effects.push(HealthEffect::Note(HealthNews::Recovered { slot }));
        }
        let watch = &mut self.watches[slot.index()];
        (watch.heard, watch.refuses, watch.ignored, watch.failed) = (false, false, 0, 0);
        if !self.nodes[slot.index()].is_up() {
            self.set_health(now, slot, Health::Up, HealthCause::ProbeAnswered);
        }
    }

    fn probe_failed(&mut self, now: Instant, slot: Slot, cause: HealthCause) {
        let fall = self.settings(slot).fall;
        let (watch, node) = (&mut self.watches[slot.index()], &mut self.nodes[slot.index()]);
        let heard = core::mem::take(&mut watch.heard);
        watch.refuses = cause == HealthCause::ProbesRefused;
        if !node.is_up() {
            self.wake(slot);
            self.forget_silent(now);
            let node = &mut self.nodes[slot.index()];
            if node.health == Health::Closed {
                // The probe also gets no answer: another process at this address ignores OPTIONS, or the host is also
                // gone.
                (node.health, node.since) = (Health::Silent, now);
                self.version += 1;
            }
            return self.doubt(slot);
        }
        if cause == HealthCause::ProbesUnanswered && (heard || node.answers_probes == Some(false)) {
            watch.failed = 0;
            watch.ignored = watch.ignored.saturating_add(u32::from(heard));
            if node.answers_probes == Some(false) {
                return;
            }
            if watch.ignored >= fall.max(ROW_MIN) {
                self.learn_probing(slot, false);
                return self.set_doubted(slot, false);
            }
            return self.doubt(slot);
        }
        watch.failed += 1;
        let is_dead = watch.failed >= fall;
        self.doubt(slot);
        if is_dead {
            self.set_health(now, slot, Health::Silent, cause);
        }
    }

    /// Handles an answer of a doubted node to a request. It shows that the node is alive.
    fn request_answered(&mut self, now: Instant, slot: Slot) {
        let regular = self.settings(slot).regular;
        let (watch, node) = (&mut self.watches[slot.index()], &self.nodes[slot.index()]);
        // Without regular probes, the probe in progress is ended.
        (watch.heard, watch.unanswered) = (regular, 0);
        if watch.refuses {
            // The node is alive but refuses calls. Only an answer to a probe shows that it takes them again.
            return;
        }
        if !regular || node.answers_probes == Some(false) {
            self.set_doubted(slot, false);
            self.effects.push(HealthEffect::Clear { slot });
            if now < self.nodes[slot.index()].asked_until {
                self.request_probe(now + REST_GAP, slot);
            }
        }
        let node = &self.nodes[slot.index()];
        match node.health {
            Health::Up => self.watches[slot.index()].failed = 0,
            Health::Closed if now.saturating_since(node.since) < LATE => self.request_probe(now, slot),
            Health::Silent | Health::Closed => {
                self.set_health(now, slot, Health::Up, HealthCause::RequestAnswered);
            }
        }
    }

    /// Handles a request without any response. `silent`: one shard has seen no other response of the node since the
    /// request was sent either.
    fn request_unanswered(&mut self, now: Instant, slot: Slot, silent: bool) {
        self.suspect(now, slot);
        if !silent || self.nodes[slot.index()].answers_probes != Some(false) {
            return;
        }
        self.doubt(slot);
        let row = self.settings(slot).fall.max(ROW_MIN);
        let watch = &mut self.watches[slot.index()];
        watch.unanswered += 1;
        if watch.unanswered >= row && self.nodes[slot.index()].is_up() {
            self.set_health(now, slot, Health::Silent, HealthCause::RequestsUnanswered);
        }
    }

    /// Ends the pause of a node, and lets the shards know.
    fn wake(&mut self, slot: Slot) {
        let node = &mut self.nodes[slot.index()];
        let rest = (node.paused_until, node.asked_until);
        node.wake();
        self.version += u64::from(rest != (node.paused_until, node.asked_until));
    }

    fn request_probe(&mut self, at: Instant, slot: Slot) {
        self.effects.push(HealthEffect::Probe { slot, at });
    }

    fn learn_probing(&mut self, slot: Slot, answers: bool) {
        let before = self.nodes[slot.index()].answers_probes.replace(answers);
        if before != Some(answers) {
            self.version += 1;
            if !answers {
                self.effects.push(HealthEffect::Note(HealthNews::IgnoresProbes { slot }));
            }
        }
    }

    fn doubt(&mut self, slot: Slot) {
        self.set_doubted(slot, true);
    }

    fn set_doubted(&mut self, slot: Slot, doubted: bool) {
        let before = core::mem::replace(&mut self.nodes[slot.index()].doubted, doubted);
        self.version += u64::from(before != doubted);
    }

    fn set_health(&mut self, now: Instant, slot: Slot, health: Health, cause: HealthCause) {
        let ramp = self.settings(slot).slow_start;
        let watch = &mut self.watches[slot.index()];
        (watch.failed, watch.unanswered) = (0, 0);
        let node = &mut self.nodes[slot.index()];
        let was_up = node.is_up();
        (node.health, node.since) = (health, now);
        if node.is_up() {
            (node.joined, node.ramp) = (now, ramp);
            watch.unknown = Some(0);
        } else {
            node.wake();
            node.deaths = node.deaths.wrapping_add(1);
            // Counts wrap: leases older than half the range would become live again.
            let is_old = node.deaths.wrapping_sub(node.lost) >= DEATHS_MOST;
            if health == Health::Closed || is_old {
                // The process of the node is gone, and so are its calls.
                node.lost = node.deaths;
            }
        }
        self.version += 1;
        if was_up != node.is_up() {
            let news =
                if was_up { HealthNews::Lost { slot, cause } } else { HealthNews::Back { slot, cause } };
            self.effects.push(HealthEffect::Note(news));
        }
        self.look_for_life(now);
    }

    /// Handles a response of a node that is back: it knows a call from before, or does not.
    fn remembers(&mut self, slot: Slot, knows: bool) {
        let watch = &mut self.watches[slot.index()];
        let Some(unknown) = watch.unknown else { return };
        let unknown = unknown + 1;
        let lost = !knows && unknown >= LOST_CALLS;
        watch.unknown = (!knows && !lost).then_some(unknown);
        if lost {
            self.lose_calls(slot);
            self.effects.push(HealthEffect::Note(HealthNews::CallsLost { slot }));
        }
    }

    /// Marks the calls lost that a node had before its last death.
    fn lose_calls(&mut self, slot: Slot) {
        let node = &mut self.nodes[slot.index()];
        if node.lost != node.deaths {
            node.lost = node.deaths;
            self.version += 1;
        }
    }

    /// Gives up the calls of nodes that have been silent for long. Call it from time to time.
    pub fn forget_silent(&mut self, now: Instant) {
        for slot in self.slots() {
            let node = &self.nodes[slot.index()];
            if node.health == Health::Silent && now >= node.since + FORGET_AFTER {
                self.lose_calls(slot);
            }
        }
    }

    /// Probes dead members because new calls were refused since no node took them.
    pub fn none_took(&mut self, now: Instant) {
        for slot in self.slots() {
            let node = &self.nodes[slot.index()];
            if node.member && !node.is_up() {
                self.request_probe(now, slot);
            }
        }
    }

    /// Handles the return of the first member of a pool without a live member. The cause, such as a network failure or
    /// a restart, has often ended for all members, so all are probed at once. Until they have had time to answer,
    /// members that are dead only because they were silent get their share of new calls, with the same slow start.
    /// Otherwise all calls would flood the first member.
    fn expect_the_others(&mut self, now: Instant, pool: PoolId) {
        for slot in self.slots() {
            let ramp = self.settings(slot).slow_start;
            let node = &mut self.nodes[slot.index()];
            if !node.member || node.is_up() || node.pool != pool {
                continue;
            }
            if node.health == Health::Silent {
                node.expected_until = now + EXPECTED;
                (node.joined, node.ramp) = (now, ramp);
            }
            self.request_probe(now, slot);
        }
    }

    /// Detects that the last member of a pool is lost, or that the first is back.
    pub(super) fn look_for_life(&mut self, now: Instant) {
        for pool in (0..self.pools.len()).map(|pool| PoolId(pool as u16)) {
            let members = || self.members_of(pool);
            let none_alive = members().next().is_some() && !members().any(Node::is_up);
            let silent = members().any(|node| node.health == Health::Silent);
            let before = core::mem::replace(&mut self.pools[pool.index()].none_alive, none_alive);
            if none_alive && !before {
                self.effects.push(HealthEffect::Note(HealthNews::NoneAlive { pool, silent }));
            } else if before && !none_alive {
                self.expect_the_others(now, pool);
            }
        }
    }
}
