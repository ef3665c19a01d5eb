//! The health of the nodes: what probes, the traffic and the operator say, and what follows.
//!
//! An answer is life, whatever was asked: a probe or a request. Silence is death after a few probes without an
//! answer, unless the node answered requests meanwhile: then it ignores OPTIONS, and only requests that go unanswered
//! are a sign. A closed port (ICMP in answer to a probe) is death at once.

use super::Cluster;
use super::news::{HealthCause, HealthEffect, HealthNews};
use crate::{Health, Node, PoolId, Sign, Slot};
use base::Instant;
use core::time::Duration;

/// So many deaths after which a node may have kept calls: far fewer than half of what a count of deaths holds.
const DEATHS_MOST: u16 = 1 << 14;

/// How long a datagram of a process that is gone may still be under way.
const LATE: Duration = Duration::from_secs(1);

/// How long the other members of a pool of which none was alive count as perhaps back, once the first is: long enough
/// for a probe that is sent at once, and for its repetition after T1 (RFC 3261 §17.1.2.2, half a second), to be
/// answered.
const EXPECTED: Duration = Duration::from_secs(1);

/// So many probes in a row that a node answers after it refused them end the rest that it asked for: one that is busy
/// and refuses part of what comes lets one through now and then.
const RETURNED: u32 = 2;

/// From one probe to the next of a node that rests and is not probed regularly.
const REST_GAP: Duration = Duration::from_secs(1);

/// So many calls in a row of which a node knows nothing, after it came back, are all of them. Some calls end while it
/// is away, and it says the same of these.
const LOST_CALLS: u8 = 4;

/// The calls of a node that has been silent for so long are lost.
const FORGET_AFTER: Duration = Duration::from_mins(5);

/// Fewer than this make no row.
const ROW_MIN: u32 = 2;

impl Cluster {
    /// What the traffic says.
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

    /// The outcome of one probe: `fall` failures in a row make a node dead, one answer brings it back.
    pub fn probed(&mut self, now: Instant, slot: Slot, alive: bool) {
        if alive {
            self.probe_answered(now, slot);
        } else {
            self.probe_failed(now, slot, HealthCause::ProbesUnanswered);
        }
        self.probed_at_rest(now, slot, alive);
    }

    /// A probe was answered 503: new calls go elsewhere until then. Where probes are regular that is a failed one as
    /// well, and the pause holds also when the node is dead and back in between. `asked`: it named the time
    /// (Retry-After).
    pub fn refused(&mut self, now: Instant, slot: Slot, until: Instant, asked: bool) {
        if !self.settings(slot).regular {
            self.probe_answered(now, slot);
            self.pause(now, slot, until, asked);
            return self.probed_at_rest(now, slot, false);
        }
        self.learn_probing(slot, true);
        self.probe_failed(now, slot, HealthCause::ProbesRefused);
        // After the death that this may be: the process that asks for the rest is there.
        self.rest(now, slot, until, asked);
        self.probed_at_rest(now, slot, false);
    }

    /// A probe of a node that asked for a rest. A process that is stopped names the time until its end, and another
    /// one may be there long before: it answers what the first refused. A node that answered every probe in its rest
    /// refuses calls and not probes, so its answers say nothing.
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
            self.ask(now + REST_GAP, slot);
        }
    }

    /// A rest begins that the node asked for, if it does not rest so already: a probe tells whether it refuses these
    /// as well.
    pub(super) fn begin_rest(&mut self, now: Instant, slot: Slot) {
        if now >= self.nodes[slot.index()].asked_until {
            self.watches[slot.index()].returns = None;
            self.ask(now, slot);
        }
    }

    /// The network said, of a probe, that nobody listens there (ICMP): dead at once, a probe may bring it back.
    pub fn unreachable(&mut self, now: Instant, slot: Slot) {
        self.doubt(slot);
        self.watches[slot.index()].refuses = false;
        if self.nodes[slot.index()].health == Health::Closed {
            self.wake(slot);
        } else {
            self.set_health(now, slot, Health::Closed, HealthCause::PortClosed);
        }
    }

    /// The network reported an error about a request to the node. That is no proof (an ICMP error is easily forged),
    /// but a probe is quick to tell.
    pub fn suspect(&mut self, now: Instant, slot: Slot) {
        if !self.settings(slot).regular {
            self.doubt(slot);
        }
        self.ask(now, slot);
    }

    /// The process that this one has taken over from held the node for dead. A probe asks at once whether it still
    /// is.
    pub fn was_dead(&mut self, now: Instant, slot: Slot) {
        self.doubt(slot);
        if self.nodes[slot.index()].is_up() {
            self.set_health(now, slot, Health::Silent, HealthCause::ProcessBefore);
        }
        self.ask(now, slot);
    }

    /// Where nobody is asked regularly, one that was dead when it left may come back alive, and nothing else would
    /// ask it.
    pub(super) fn suspect_the_dead(&mut self, now: Instant) {
        for slot in self.slots() {
            let node = &self.nodes[slot.index()];
            if node.member && !node.is_up() && !self.settings(slot).regular {
                self.suspect(now, slot);
            }
        }
    }

    /// The operator knows that the node is back, and takes calls.
    pub fn raise(&mut self, now: Instant, slot: Slot) {
        self.end_pause(slot);
        self.readmit(slot);
        if !self.nodes[slot.index()].is_up() {
            self.set_health(now, slot, Health::Up, HealthCause::Operator);
        }
    }

    /// It takes new calls again, so the shards forget its pause as well.
    fn end_pause(&mut self, slot: Slot) {
        let node = &mut self.nodes[slot.index()];
        node.wake();
        node.wakes = node.wakes.wrapping_add(1);
        self.version += 1;
    }

    /// Takes what is to be done since the last time.
    pub fn drain_effects(&mut self) -> impl Iterator<Item = HealthEffect> + use<'_> {
        self.effects.drain(..)
    }

    fn probe_answered(&mut self, now: Instant, slot: Slot) {
        self.learn_probing(slot, true);
        self.set_doubted(slot, false);
        // One message may make it close a connection, and an ICMP error is easily forged: it is there all the same.
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
                // Something swallows the probe now: another process that ignores OPTIONS, or the host is gone too.
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

    /// A node in doubt has answered a request: alive at once.
    fn request_answered(&mut self, now: Instant, slot: Slot) {
        let regular = self.settings(slot).regular;
        let (watch, node) = (&mut self.watches[slot.index()], &self.nodes[slot.index()]);
        // Where probes are not regular the one under way is given up.
        (watch.heard, watch.unanswered) = (regular, 0);
        if watch.refuses {
            // It is there, which nobody doubts. It does not want calls, and only the answer to a probe says
            // otherwise.
            return;
        }
        if !regular || node.answers_probes == Some(false) {
            self.set_doubted(slot, false);
            self.effects.push(HealthEffect::Clear { slot });
            if now < self.nodes[slot.index()].asked_until {
                self.ask(now + REST_GAP, slot);
            }
        }
        let node = &self.nodes[slot.index()];
        match node.health {
            Health::Up => self.watches[slot.index()].failed = 0,
            Health::Closed if now.saturating_since(node.since) < LATE => self.ask(now, slot),
            Health::Silent | Health::Closed => {
                self.set_health(now, slot, Health::Up, HealthCause::RequestAnswered);
            }
        }
    }

    /// A request got no answer at all. `silent`: nor did anything else since it was sent, as far as one shard knows.
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

    /// The pause of a node is over, which the shards are to know.
    fn wake(&mut self, slot: Slot) {
        let node = &mut self.nodes[slot.index()];
        let rest = (node.paused_until, node.asked_until);
        node.wake();
        self.version += u64::from(rest != (node.paused_until, node.asked_until));
    }

    fn ask(&mut self, at: Instant, slot: Slot) {
        self.effects.push(HealthEffect::Ask { slot, at });
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
            // Counts wrap: what is older than half of them would come to life again.
            let is_old = node.deaths.wrapping_sub(node.lost) >= DEATHS_MOST;
            if health == Health::Closed || is_old {
                // Its process is gone, and the calls with it.
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

    /// A node that is back knows a call from before, or does not.
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

    /// The calls that a node had before it was last found dead are over.
    fn lose_calls(&mut self, slot: Slot) {
        let node = &mut self.nodes[slot.index()];
        if node.lost != node.deaths {
            node.lost = node.deaths;
            self.version += 1;
        }
    }

    /// Gives up the calls of those that have been silent for long. To be called now and then.
    pub fn forget_silent(&mut self, now: Instant) {
        for slot in self.slots() {
            let node = &self.nodes[slot.index()];
            if node.health == Health::Silent && now >= node.since + FORGET_AFTER {
                self.lose_calls(slot);
            }
        }
    }

    /// New calls were refused since no member takes any: those that count as dead are asked.
    pub fn none_took(&mut self, now: Instant) {
        for slot in self.slots() {
            let node = &self.nodes[slot.index()];
            if node.member && !node.is_up() {
                self.ask(now, slot);
            }
        }
    }

    /// The first member of a pool is back of which none was alive. What kept them away has often ended for all of
    /// them (a network, a restart), so all are asked at once. Until they have had time to answer, those that were
    /// only silent get their share of new calls, as slowly as the first: all of them on one member would be a flood.
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
            self.ask(now, slot);
        }
    }

    /// Notes when the last member of a pool is lost, or the first is back.
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
