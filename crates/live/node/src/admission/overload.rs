//! Overload control at the gate: which new requests a busy thread accepts.

use super::neighbours::Neighbours;
use crate::outcome::rejection::{Refused, Rejection, refused};
use base::{Flow, Instant, Peer, Rng};
use core::time::Duration;
use overload::{
    Guard, LocalLaw, MessageClass, NewRequestSender, OverloadSettings, RequestPath, Tier, Triage,
    TurnControl, is_above_routine, is_emergency,
};
use route::Network;
use std::net::IpAddr;
use wire::{Message, Method, OverloadParams};

/// Settings of overload control.
#[derive(Clone, PartialEq, Debug)]
pub struct OverloadControl {
    /// Laws of overload control.
    pub laws: OverloadSettings,
    /// Networks of neighbours. Only their Resource-Priority is honoured (RFC 4412 §9), and feedback is exchanged only
    /// with them.
    pub neighbours: Box<[Network]>,
}

impl Default for OverloadControl {
    /// Returns overload control by waiting time, with priority for requests that finish calls, and without neighbours.
    fn default() -> Self {
        Self { laws: OverloadSettings::by_wait(), neighbours: Box::default() }
    }
}

impl OverloadControl {
    /// If a setting is known to make calls fail at loads above capacity, returns the reason.
    pub fn collapses(&self) -> Option<&'static str> {
        match self.laws.local {
            LocalLaw::None => Some(
                "overload.local = \"none\": nothing is refused, and above capacity calls are set up late or not at all; \
                 remove it (docs/overload.md)",
            ),
            LocalLaw::RetryAfter(_) => Some(
                "overload.retry_after: all neighbours stop and then return at the same time; remove it \
                 (docs/overload.md)",
            ),
            _ => None,
        }
    }
}

/// Number of new requests that reached the law of a shard, and number of those requests that the law refused.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OverloadCounts {
    /// All new requests.
    pub offered: u64,
    /// Refused requests.
    pub refused: u64,
}

impl core::ops::AddAssign for OverloadCounts {
    fn add_assign(&mut self, more: Self) {
        self.offered += more.offered;
        self.refused += more.refused;
    }
}

/// Present state of the overload control of a shard.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OverloadReport {
    /// Name of the law.
    pub law: &'static str,
    /// Share of new requests accepted now, 0 to 1.
    pub acceptance: f64,
    /// Expected waiting time of a message that arrives now.
    pub wait: Duration,
    /// New requests without priority.
    pub usual: OverloadCounts,
    /// New requests with priority.
    pub priority: OverloadCounts,
    /// All new requests of the last 5 to 10 s.
    pub recent: OverloadCounts,
}

impl OverloadReport {
    /// Adds the counts of another shard. Of the waits it keeps the longer one, of the acceptances the lower one.
    pub fn merge(&mut self, other: &Self) {
        self.usual += other.usual;
        self.priority += other.priority;
        self.recent += other.recent;
        self.acceptance = self.acceptance.min(other.acceptance);
        self.wait = self.wait.max(other.wait);
    }
}

pub(crate) struct Overload {
    control: OverloadControl,
    pub(super) guard: Guard<Peer>,
    turn: TurnControl,
    /// State of the feedback with neighbours, if there is any.
    pub(super) feedback: Option<Box<Neighbours>>,
    rng: Rng,
    /// Total busy time of the thread when the laws started; `None` if it was not reported yet.
    busy_before: Option<Duration>,
    usual: OverloadCounts,
    priority: OverloadCounts,
    /// Start of the recent counts.
    recent_since: Instant,
    recent: [OverloadCounts; 2],
}

pub(crate) struct OverloadRefusal {
    pub(crate) rejection: Rejection,
    /// Whether the local law refused the request. Otherwise the request exceeded the share that is accepted from its
    /// sender.
    pub(crate) is_by_law: bool,
}

/// Period of the recent counts. They cover at most two periods.
const RECENT: Duration = Duration::from_secs(5);

/// Estimated work of one message, until it is measured.
const MEAN: Duration = Duration::from_micros(20);

impl Overload {
    /// Creates overload control without any law. `seed` starts the random generator.
    pub(super) fn new(seed: u64) -> Self {
        let rng = Rng::from_seed(seed);
        let off = OverloadControl { laws: OverloadSettings::default(), neighbours: Box::default() };
        let guard = Guard::new(Instant::ZERO, off.laws, 1, MEAN, rng.clone());
        Self {
            control: off,
            guard,
            turn: TurnControl::new(rng.fork("turn")),
            feedback: None,
            rng,
            busy_before: None,
            usual: OverloadCounts::default(),
            priority: OverloadCounts::default(),
            recent_since: Instant::ZERO,
            recent: [OverloadCounts::default(); 2],
        }
    }

    /// Changes the laws. Laws that stay keep their state. `shards` is the number of shards that share the traffic of
    /// neighbours; `epoch_unix` is the Unix time of [`Instant::ZERO`].
    pub(crate) fn configure(
        &mut self,
        now: Instant,
        control: &OverloadControl,
        shards: usize,
        epoch_unix: u64,
    ) {
        if control.laws != self.control.laws {
            self.guard = Guard::new(now, control.laws, 1, MEAN, self.rng.clone());
            self.busy_before = None;
            self.feedback = Neighbours::of(&control.laws, shards, epoch_unix).map(Box::new);
        }
        self.control = control.clone();
    }

    /// Records how long the next requests of this class have waited in the sockets and the queue of the thread. `queue`
    /// is the number of requests that still wait. Requests with priority come first and probes last, so their waits say
    /// nothing about other requests.
    pub(crate) fn waited(&mut self, now: Instant, waited: Duration, queue: usize, class: MessageClass) {
        self.turn.on_waited(&mut self.guard, now, waited, class);
        self.guard.on_queue(queue);
    }

    pub(crate) fn busy(&mut self, now: Instant, busy: Duration) {
        let before = *self.busy_before.get_or_insert(busy);
        self.guard.tick(now, busy.saturating_sub(before));
    }

    /// Returns the waiting time from which on a new request counts as late.
    pub(crate) fn late(&self) -> Duration {
        self.control.laws.late()
    }

    /// Returns whether the Resource-Priority of this sender is honoured.
    pub(crate) fn may_have_priority(&self, ip: IpAddr, is_member: bool) -> bool {
        is_member || self.is_neighbour(ip)
    }

    pub(crate) fn triage(&self) -> Triage {
        self.control.laws.triage.unwrap_or_default()
    }

    pub(crate) fn has_triage(&self) -> bool {
        self.control.laws.triage.is_some()
    }

    /// Returns when the laws need the busy time of the thread.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.guard.deadline()
    }

    pub(crate) fn is_off(&self) -> bool {
        self.guard.is_off()
    }

    pub(crate) fn takes_all(&self, now: Instant) -> bool {
        let is_late = |triage: Triage| self.guard.wait(now) >= triage.reject_after;
        self.guard.is_off()
            || (self.guard.acceptance(now) >= 1.0 && !self.control.laws.triage.is_some_and(is_late))
    }

    /// Decides whether a new request of this class is accepted.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        class: MessageClass,
        origin: NewRequestSender,
    ) -> Result<(), OverloadRefusal> {
        if self.guard.is_off() {
            return Ok(());
        }
        let path = RequestPath { from: None, takes_feedback: false, to: None, path: None, is_onward: false };
        let taken = self.turn.admit(&mut self.guard, now, class, &path, origin);
        let judged = OverloadCounts { offered: 1, refused: u64::from(taken.is_err()) };
        *(if class.tier() == Tier::Later { &mut self.priority } else { &mut self.usual }) += judged;
        self.roll(now);
        self.recent[0] += judged;
        taken.map_err(|overload::TurnRefusal { rejection, is_by_law }| {
            let retry_after = (rejection.retry_after > 0).then(|| u64::from(rejection.retry_after));
            let refused = Refused { retry_after, ..refused(rejection.status, OVERLOADED) };
            OverloadRefusal { rejection: Rejection::Overloaded(refused), is_by_law }
        })
    }

    /// Starts new recent counts if the present ones are old enough.
    fn roll(&mut self, now: Instant) {
        let age = now.saturating_since(self.recent_since);
        if age >= RECENT {
            let before = if age >= RECENT * 2 { OverloadCounts::default() } else { self.recent[0] };
            (self.recent, self.recent_since) = ([OverloadCounts::default(), before], now);
        }
    }

    /// Returns whether the configuration names an address as a neighbour.
    pub(super) fn is_neighbour(&self, ip: IpAddr) -> bool {
        self.control.neighbours.iter().any(|network| network.contains(ip))
    }

    /// Returns the feedback with the neighbour at the other end of a flow, if there is one.
    pub(super) fn with(&self, flow: Flow) -> Option<&Neighbours> {
        let neighbours = self.feedback.as_deref()?;
        self.is_neighbour(flow.peer.ip()).then_some(neighbours)
    }

    /// Returns whether the sender of a request is a neighbour that offers to follow the feedback used here.
    pub(super) fn keeps_to_feedback(&self, flow: Flow, message: &Message<'_>) -> bool {
        self.with(flow).is_some_and(|neighbours| {
            let offered = OverloadParams::of(message.top_via(), message.bytes());
            offered.common(neighbours.algorithms).is_some()
        })
    }

    /// Returns whether a request is an emergency call (RFC 5031 §4.1), or has a Resource-Priority from a sender that
    /// may use it (RFC 4412 §9).
    pub(crate) fn has_priority(&self, message: &Message<'_>, flow: Flow, is_member: bool) -> bool {
        let asks = || message.header("Resource-Priority").is_some_and(is_above_routine);
        let method = message.method().unwrap_or(Method::Other);
        is_emergency(method, message.uri().unwrap_or_default())
            || (self.may_have_priority(flow.peer.ip(), is_member) && asks())
    }

    /// Returns the law, the share of new requests that it accepts, and the expected waiting time of messages.
    pub(crate) fn standing(&self, now: Instant) -> (&'static str, f64, Duration) {
        (self.guard.law(), self.guard.acceptance(now), self.guard.wait(now))
    }

    pub(crate) fn report(&mut self, now: Instant) -> OverloadReport {
        self.roll(now);
        let [mut recent, before] = self.recent;
        recent += before;
        OverloadReport {
            recent,
            law: self.guard.law(),
            acceptance: self.guard.acceptance(now),
            wait: self.guard.wait(now),
            usual: self.usual,
            priority: self.priority,
        }
    }
}

const OVERLOADED: &str = "Overloaded";
