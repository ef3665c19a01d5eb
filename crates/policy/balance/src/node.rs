//! A node as the balancer sees it: who it is, how much it can take, and why it may take no new calls.

use crate::ids::{NodeId, PoolId};
use base::Instant;
use core::time::Duration;
use overload::member::RateCap;
use std::sync::Arc;

/// Why a node takes no new calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeRefusal {
    /// It was taken out of the configuration; the calls it has go on.
    Removed,
    /// It does not answer.
    Unreachable,
    /// It is drained.
    Draining,
    /// It fails what the others do not.
    Ejected,
    /// It pauses after a 503.
    Paused,
    /// It has as many calls as it may have.
    Full,
    /// It has got as many calls a second as it may get.
    Rate,
    /// It has as many requests without any answer as it can do, by the delay of its answers.
    Limit,
}

impl NodeRefusal {
    /// Whether it has too much to do for now: what would go there is refused rather than given to a node that is dead
    /// or pauses.
    pub const fn is_of_load(self) -> bool {
        matches!(self, Self::Rate | Self::Limit)
    }

    /// The word used in metrics, in the API and by `explain`.
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

/// Whether a node is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Health {
    /// It answers, or nothing says that it does not.
    Up,
    /// What it was asked went unanswered, or its probes were answered 503. It may be there all the same: it may not
    /// know OPTIONS, or be slow.
    Silent,
    /// The network said that nobody listens at its port (ICMP port unreachable in answer to a probe): its process is
    /// gone.
    Closed,
}

/// Membership, health and weight of a node as one value: whoever reads it sees all of one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// Who it is.
    pub id: NodeId,
    /// Relative capacity, 1.0 unless set; loads are divided by it.
    pub capacity: f64,
    /// Most calls at a time; 0 for no limit.
    pub max_calls: u32,
    /// Most new calls a second, over all shards; 0 for no limit.
    pub max_rate: u32,
    /// The bucket that counts these. Copies of a node share it, so it goes on over a reload.
    pub rate_cap: Arc<RateCap>,
    /// The pool in which its health is judged.
    pub pool: PoolId,
    /// Whether the configuration (still) names it.
    pub member: bool,
    /// Whether it is there.
    pub health: Health,
    /// When that last changed.
    pub since: Instant,
    /// Whether it answers OPTIONS probes; `None` until it is known. `Some(false)`: it answers calls and leaves probes
    /// unanswered, so that their silence says nothing.
    pub answers_probes: Option<bool>,
    /// Whether it is drained: no new calls, whoever wants that.
    pub draining: bool,
    /// Whether it has left something unanswered: the shards tell of its next answers.
    pub doubted: bool,
    /// It pauses until this instant after a 503: new calls go elsewhere.
    pub paused_until: Instant,
    /// So much of the pause it asked for itself (Retry-After). For the remainder it gets calls if nobody else takes
    /// any.
    pub asked_until: Instant,
    /// When the present pause began, however often it has been prolonged.
    pub paused_since: Instant,
    /// How often a pause was ended before its time.
    pub wakes: u16,
    /// It is ejected as an outlier until then.
    pub ejected_until: Instant,
    /// How often it has been.
    pub ejections: u32,
    /// It is dead for silence alone, and may be back with the rest of the pool: until then it gets its share of new
    /// calls.
    pub expected_until: Instant,
    /// When it (re)joined; its capacity ramps up from here for `ramp`.
    pub joined: Instant,
    /// Length of the slow start; zero for none.
    pub ramp: Duration,
    /// How often it has been found dead. A lease remembers the count it was taken at; that of a transaction ends with
    /// it.
    pub deaths: u16,
    /// The count of deaths at which its calls were last found lost: calls from before it are over.
    pub lost: u16,
}

/// Share of its capacity that a node starts with after it came back.
const SLOW_START_SHARE: f64 = 0.1;

/// So long a pause that was asked for is kept to without exception (RFC 3261 §21.5.4). Whoever names a longer time
/// has often named it once for all, and when all members do, calls would be refused although they could be answered.
pub(crate) const HALF_OPEN: Duration = Duration::from_secs(10);

impl Node {
    /// A member of the first pool of which nothing is known: it is up until a probe says otherwise, since a balancer
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

    /// Capacity at `now`: ramps linearly from 10 % to all of it in the slow start.
    pub fn capacity_at(&self, now: Instant) -> f64 {
        let since = now.saturating_since(self.joined);
        if since >= self.ramp {
            return self.capacity;
        }
        let share = since.as_secs_f64() / self.ramp.as_secs_f64();
        self.capacity * (SLOW_START_SHARE + (1.0 - SLOW_START_SHARE) * share)
    }

    /// It answered 503 and pauses until then. `asked`: it named the time (Retry-After). Returns whether that is news.
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

    /// Takes over what another copy of this node knows of its pause.
    pub(crate) fn pause_as(&mut self, other: &Self) {
        if self.paused_until < other.paused_until {
            self.paused_since = other.paused_since;
        }
        self.paused_until = self.paused_until.max(other.paused_until);
        self.asked_until = self.asked_until.max(other.asked_until);
    }

    /// Its pause is over. A node that was silent comes back as another process than the one that asked for the pause,
    /// or at least in another state.
    pub(crate) fn wake(&mut self) {
        (self.paused_until, self.asked_until) = (Instant::ZERO, Instant::ZERO);
    }

    /// Whether it counts as alive.
    pub fn is_up(&self) -> bool {
        self.health == Health::Up
    }

    /// Whether only a trial request can show that it is back: it is dead for silence alone, and not known to answer
    /// probes. Then it gets a new request now and then, although it counts as dead.
    pub fn is_on_trial(&self) -> bool {
        self.is_only_silent() && self.answers_probes != Some(true)
    }

    /// Since when it has been away, if a new request to it is a trial request.
    pub(crate) fn tried_since(&self, now: Instant) -> Option<Instant> {
        if self.is_expected(now) {
            None
        } else if self.is_on_trial() {
            Some(self.since)
        } else {
            self.is_half_open(now).then_some(self.paused_since)
        }
    }

    /// Whether it gets its share of new calls although it counts as dead: another member has just shown that the pool
    /// is back, and nobody knows yet whether this one is.
    pub fn is_expected(&self, now: Instant) -> bool {
        self.is_only_silent() && now < self.expected_until && now >= self.asked_until
    }

    /// Whether it has paused for long because it asked for that: where no member takes calls, it gets one now and
    /// then.
    pub fn is_half_open(&self, now: Instant) -> bool {
        let serves = self.member && self.is_up() && !self.draining;
        serves && now < self.asked_until && now >= self.paused_since + HALF_OPEN
    }

    fn is_only_silent(&self) -> bool {
        self.member && !self.draining && self.health == Health::Silent
    }

    /// Why it takes no new call now, or `None` if it does. `calls` is what it has on all shards.
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

    /// The same where no other node takes calls (the panic threshold of other load balancers, here at none): a pause
    /// that it did not ask for is over then. A 503 without Retry-After may be about one destination behind the node;
    /// to refuse all calls for it would be worse, and so it would for what an outlier fails. One that is dead for
    /// silence alone gets them too: it may not know OPTIONS, and what it is sent shows whether it lives.
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
