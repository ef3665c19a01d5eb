//! A node with its health and capacity, and the reasons to send it no new calls.

use crate::ids::{NodeId, PoolId};
use base::Instant;
use core::time::Duration;
use overload::member::RateCap;
use std::sync::Arc;

/// Reason why a node takes no new calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeRefusal {
    /// The node was removed from the configuration; its calls continue.
    Removed,
    /// The node does not answer.
    Unreachable,
    /// The node is drained.
    Draining,
    /// The node is an outlier: requests fail at it that do not fail at other members.
    Ejected,
    /// The node pauses after a 503.
    Paused,
    /// The node has `max_calls` calls.
    Full,
    /// The node has already got `max_rate` new calls in this second.
    Rate,
    /// The node has as many unanswered requests as its measured limit allows.
    Limit,
}

impl NodeRefusal {
    /// Whether the node is only overloaded for now. New requests are then refused, and not sent to dead or pausing
    /// nodes.
    pub const fn is_of_load(self) -> bool {
        matches!(self, Self::Rate | Self::Limit)
    }

    /// Word used in metrics, in the API and by `explain`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::Unreachable => "unreachable",
            Self::Draining => "draining",
            Self::Ejected => "ejected",
            Self::Paused => "paused",
            Self::Full => "full",
            Self::Rate => "max_rate",
            Self::Limit => "limit",
        }
    }
}

/// Health of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Health {
    /// The node answers, or nothing shows that it does not.
    Up,
    /// Probes or requests were not answered, or probes were answered with 503. The node may still be alive: it may be
    /// slow, or not support OPTIONS.
    Silent,
    /// The port is closed (ICMP port unreachable in answer to a probe), so the node's process is gone.
    Closed,
}

/// Membership, health and weight of a node as one value, so that a reader sees one consistent moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// Identity.
    pub id: NodeId,
    /// Relative capacity, 1.0 by default. Loads are divided by it.
    pub capacity: f64,
    /// Most simultaneous calls; 0 for no limit.
    pub max_calls: u32,
    /// Most new calls a second, over all shards; 0 for no limit.
    pub max_rate: u32,
    /// Bucket that enforces `max_rate`. Copies of a node share it, so it survives a reload.
    pub rate_cap: Arc<RateCap>,
    /// Pool whose settings apply to the node's health.
    pub pool: PoolId,
    /// Whether the configuration still contains the node.
    pub member: bool,
    /// Health.
    pub health: Health,
    /// Time of the last change of `health`.
    pub since: Instant,
    /// Whether the node answers OPTIONS probes; `None` until this is known. With `Some(false)` it answers calls but not
    /// probes, so unanswered probes mean nothing.
    pub answers_probes: Option<bool>,
    /// Whether the node is drained: it gets no new calls at all.
    pub draining: bool,
    /// Whether the node left a request or probe unanswered. The shards then report its next answers.
    pub doubted: bool,
    /// End of a pause after a 503: until then new calls go elsewhere.
    pub paused_until: Instant,
    /// End of the part of the pause that the node requested itself (Retry-After). In the remainder the node gets calls
    /// if no other node takes any.
    pub asked_until: Instant,
    /// Start of the present pause, including prolongations.
    pub paused_since: Instant,
    /// Number of pauses that were ended early.
    pub wakes: u16,
    /// End of its ejection as an outlier.
    pub ejected_until: Instant,
    /// Number of its ejections.
    pub ejections: u32,
    /// Until this time, a node that is dead only because it was silent gets its share of new calls. It may have come
    /// back together with its pool.
    pub expected_until: Instant,
    /// Time when the node joined or came back. From this time on, its capacity ramps up for the time `ramp`.
    pub joined: Instant,
    /// Length of the slow start; zero for none.
    pub ramp: Duration,
    /// Number of times that the node was marked dead. A lease stores the count at which it was taken. Transaction
    /// leases with another count have ended.
    pub deaths: u16,
    /// Count of deaths at which the node last turned out to have lost its calls. Calls from before this count are over.
    pub lost: u16,
}

/// Share of its capacity with which a node starts after it comes back.
const SLOW_START_SHARE: f64 = 0.1;

/// Time for which a requested pause applies without exception (RFC 3261 §21.5.4). Servers often send a longer fixed
/// Retry-After. If all members did so, calls would be refused that could be answered.
pub(crate) const HALF_OPEN: Duration = Duration::from_secs(10);

impl Node {
    /// A member of the first pool with default values. The node is up until a probe shows otherwise, since a balancer
    /// that starts must not refuse the first calls.
    pub fn new(id: NodeId) -> Self {
        Self {
            id,
            capacity: 1.0,
            max_calls: 0,
            max_rate: 0,
            rate_cap: Arc::default(),
            pool: PoolId::default(),
            member: true,
            health: Health::Up,
            since: Instant::ZERO,
            answers_probes: None,
            draining: false,
            doubted: false,
            paused_until: Instant::ZERO,
            asked_until: Instant::ZERO,
            paused_since: Instant::ZERO,
            wakes: 0,
            ejected_until: Instant::ZERO,
            ejections: 0,
            expected_until: Instant::ZERO,
            joined: Instant::ZERO,
            ramp: Duration::ZERO,
            deaths: 0,
            lost: 0,
        }
    }

    /// Capacity at `now`. During the slow start it ramps linearly from 10 % to 100 %.
    pub fn capacity_at(&self, now: Instant) -> f64 {
        let since = now.saturating_since(self.joined);
        if since >= self.ramp {
            return self.capacity;
        }
        let share = since.as_secs_f64() / self.ramp.as_secs_f64();
        self.capacity * (SLOW_START_SHARE + (1.0 - SLOW_START_SHARE) * share)
    }

    /// Pauses the node until `until` after a 503. `asked`: the node named the time (Retry-After). Returns whether the
    /// pause got longer.
    pub(crate) fn pause(&mut self, now: Instant, until: Instant, asked: bool) -> bool {
        if now >= self.paused_until {
            self.paused_since = now;
        }
        let longer = self.paused_until < until || (asked && self.asked_until < until);
        self.paused_until = self.paused_until.max(until);
        if asked {
            self.asked_until = self.asked_until.max(until);
        }
        longer
    }

    /// Copies the pause of another copy of this node.
    pub(crate) fn pause_as(&mut self, other: &Self) {
        if self.paused_until < other.paused_until {
            self.paused_since = other.paused_since;
        }
        self.paused_until = self.paused_until.max(other.paused_until);
        self.asked_until = self.asked_until.max(other.asked_until);
    }

    /// Ends the pause. A node that was silent comes back as another process than the process that asked for the pause,
    /// or in another state.
    pub(crate) fn wake(&mut self) {
        (self.paused_until, self.asked_until) = (Instant::ZERO, Instant::ZERO);
    }

    /// Whether it is up.
    pub fn is_up(&self) -> bool {
        self.health == Health::Up
    }

    /// Whether only a trial request can show that the node is back: it is dead only because it was silent, and
    /// is not known to answer probes. It gets a new request from time to time although it counts as dead.
    pub fn is_on_trial(&self) -> bool {
        self.is_only_silent() && self.answers_probes != Some(true)
    }

    /// Start of the node's absence, if a new request to it would be a trial request.
    pub(crate) fn tried_since(&self, now: Instant) -> Option<Instant> {
        if self.is_expected(now) {
            None
        } else if self.is_on_trial() {
            Some(self.since)
        } else {
            self.is_half_open(now).then_some(self.paused_since)
        }
    }

    /// Whether the node gets its share of new calls although it counts as dead. Another member has just shown that the
    /// pool is back, and the state of this node is not yet known.
    pub fn is_expected(&self, now: Instant) -> bool {
        self.is_only_silent() && now < self.expected_until && now >= self.asked_until
    }

    /// Whether the node is in a long pause for which it asked. If no member takes calls, such a node gets a call from
    /// time to time.
    pub fn is_half_open(&self, now: Instant) -> bool {
        let serves = self.member && self.is_up() && !self.draining;
        serves && now < self.asked_until && now >= self.paused_since + HALF_OPEN
    }

    fn is_only_silent(&self) -> bool {
        self.member && !self.draining && self.health == Health::Silent
    }

    /// Reason why the node takes no new call now; `None` if it takes calls. `calls` is its number of calls on all
    /// shards.
    pub fn refusal(&self, now: Instant, calls: u32) -> Option<NodeRefusal> {
        if !self.member {
            Some(NodeRefusal::Removed)
        } else if !self.is_up() {
            Some(NodeRefusal::Unreachable)
        } else if self.draining {
            Some(NodeRefusal::Draining)
        } else if self.is_ejected(now) {
            Some(NodeRefusal::Ejected)
        } else if now < self.paused_until {
            Some(NodeRefusal::Paused)
        } else {
            self.full(calls)
        }
    }

    /// Like [`Self::refusal`], for the last resort: no other node takes calls (a panic threshold of zero). Ejections,
    /// and pauses that the node did not ask for, are ignored. A 503 without Retry-After may concern one destination
    /// behind the node, and refusing all calls would be worse. A node that is dead only because it was silent is used
    /// as well: it may not support OPTIONS, and a call shows whether it is alive.
    pub fn last_resort_refusal(&self, now: Instant, calls: u32) -> Option<NodeRefusal> {
        match self.refusal(now, calls) {
            Some(NodeRefusal::Unreachable)
                if self.health == Health::Silent && !self.draining && now >= self.asked_until =>
            {
                self.full(calls)
            }
            Some(NodeRefusal::Paused | NodeRefusal::Ejected) if now >= self.asked_until => self.full(calls),
            other => other,
        }
    }

    pub(crate) fn full(&self, calls: u32) -> Option<NodeRefusal> {
        (self.max_calls != 0 && calls >= self.max_calls).then_some(NodeRefusal::Full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_ramps_up_after_it_joined() {
        let node = Node {
            capacity: 2.0,
            joined: Instant::from_millis(10_000),
            ramp: Duration::from_secs(30),
            ..Node::new(NodeId(1))
        };
        let at = |seconds: u64| node.capacity_at(Instant::from_millis(seconds * 1_000));
        assert!((at(10) - 0.2).abs() < 1e-9);
        assert!((at(25) - 1.1).abs() < 1e-9);
        assert!((at(40) - 2.0).abs() < 1e-9);
    }
}
