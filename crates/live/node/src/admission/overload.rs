//! Overload control at the gate: which new requests a busy thread accepts.

use super::neighbours::Neighbours;
use crate::outcome::rejection::{Refused, Rejection, refused};
use base::{Flow, Instant, Peer, Rng};
use core::time::Duration;
use overload::{
    Guard, LocalLaw, MessageClass, Origin, OverloadSettings, RequestPath, Tier, Triage, TurnControl,
    is_above_routine, is_emergency,
};
use route::Network;
use std::net::IpAddr;
use wire::{Message, Method, OverloadParams};

/// What a process does about more requests than it can serve.
#[derive(Clone, PartialEq, Debug)]
pub struct OverloadControl {
    /// The laws.
    pub laws: OverloadSettings,
    /// Networks of neighbours: their Resource-Priority counts (RFC 4412 §9), and feedback goes to and comes from them
    /// alone.
    pub neighbours: Box<[Network]>,
}

impl Default for OverloadControl {
    /// New requests are taken by their wait, what finishes calls comes first, and nobody is a neighbour.
    fn default() -> Self {
        Self { laws: OverloadSettings::by_wait(), neighbours: Box::default() }
    }
}

impl OverloadControl {
    /// The setting that loses calls above capacity, and why, if one is known to.
    pub fn collapses(&self) -> Option<&'static str> {
        match self.laws.local {
            LocalLaw::None => Some(
                "overload.local = \"none\": nothing is refused, and above capacity calls are set up late or not at all; \
                 remove it (docs/overload/too-many-calls.md)",
            ),
            LocalLaw::RetryAfter(_) => Some(
                "overload.retry_after: neighbours go away and come back all at once; remove it \
                 (docs/overload/retry-after.md)",
            ),
            _ => None,
        }
    }
}

/// New requests that came to the law of a shard, and those that it refused.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OverloadCounts {
    /// All.
    pub offered: u64,
    /// Those that were refused.
    pub refused: u64,
}

impl core::ops::AddAssign for OverloadCounts {
    fn add_assign(&mut self, more: Self) {
        self.offered += more.offered;
        self.refused += more.refused;
    }
}

/// The overload control of a shard, as it is now.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OverloadReport {
    /// The law.
    pub law: &'static str,
    /// The share of new requests that it takes now, 0 to 1.
    pub acceptance: f64,
    /// How long a message that comes now is expected to wait.
    pub wait: Duration,
    /// New requests without priority.
    pub usual: OverloadCounts,
    /// New requests with priority.
    pub priority: OverloadCounts,
    /// All new requests of the last 5 to 10 s.
    pub recent: OverloadCounts,
}

impl OverloadReport {
    /// Adds another shard: its counts, and the longer wait with its acceptance.
    pub fn merge(&mut self, other: &Self) {
        self.usual += other.usual;
        self.priority += other.priority;
        self.recent += other.recent;
        self.acceptance = self.acceptance.min(other.acceptance);
        self.wait = self.wait.max(other.wait);
    }
}

/// The guard of a shard.
pub(crate) struct Overload {
    control: OverloadControl,
    pub(super) guard: Guard<Peer>,
    turn: TurnControl,
    /// What is said to neighbours and taken from them, if anything is.
    pub(super) feedback: Option<Box<Neighbours>>,
    rng: Rng,
    /// How long the thread had been busy in all when the laws began. `None`: it has not said so since.
    busy_before: Option<Duration>,
    usual: OverloadCounts,
    priority: OverloadCounts,
    /// Where the counts of late begin, and those of the time before that.
    recent_since: Instant,
    recent: [OverloadCounts; 2],
}

/// Why a new request was not taken.
pub(crate) struct OverloadRefusal {
    pub(crate) rejection: Rejection,
    /// Whether it was let in, as far as the proxies behind go.
    pub(crate) is_by_law: bool,
}

/// Of so long are the counts of late, and twice as long at most.
const RECENT: Duration = Duration::from_secs(5);

/// What a message takes until that is measured.
const MEAN: Duration = Duration::from_micros(20);

impl Overload {
    /// One without any law. `seed`: of the shares that it draws.
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

    /// Changes the laws. Laws that stay keep what they have learned. `shards` share what neighbours send; `epoch_unix`
    /// is the Unix time of [`Instant::ZERO`].
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

    /// The requests of this class to come have waited so long in the sockets and queue of the thread, where so many wait
    /// still. Requests with priority come first and probes last, so that their waits do not tell how long others wait.
    pub(crate) fn waited(&mut self, now: Instant, waited: Duration, queue: usize, class: MessageClass) {
        self.turn.on_waited(&mut self.guard, now, waited, class);
        self.guard.on_queue(queue);
    }

    /// The thread has been busy for so long in all.
    pub(crate) fn busy(&mut self, now: Instant, busy: Duration) {
        let before = *self.busy_before.get_or_insert(busy);
        self.guard.tick(now, busy.saturating_sub(before));
    }

    /// The wait from which on a new request is late.
    pub(crate) fn late(&self) -> Duration {
        self.control.laws.late()
    }

    /// Whether the Resource-Priority of whoever sends by this flow counts.
    pub(crate) fn may_have_priority(&self, ip: IpAddr, is_member: bool) -> bool {
        is_member || self.is_neighbour(ip)
    }

    /// The rules of the queue in front of the shard.
    pub(crate) fn triage(&self) -> Option<Triage> {
        self.control.laws.triage
    }

    /// When the laws want to know how busy the thread was.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.guard.deadline()
    }

    /// Whether no law refuses anything.
    pub(crate) fn is_off(&self) -> bool {
        self.guard.is_off()
    }

    /// Whether it takes everything now.
    pub(crate) fn takes_all(&self, now: Instant) -> bool {
        let is_late = |triage: Triage| self.guard.wait(now) >= triage.reject_after;
        self.guard.is_off()
            || (self.guard.acceptance(now) >= 1.0 && !self.control.laws.triage.is_some_and(is_late))
    }

    /// Whether a new request of this class, which came by this flow, is taken.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        flow: Flow,
        message: &Message<'_>,
        class: MessageClass,
        origin: Origin,
    ) -> Result<(), OverloadRefusal> {
        if self.guard.is_off() {
            return Ok(());
        }
        let takes_feedback = self.is_spared(flow, message);
        let path = RequestPath { from: None, takes_feedback, to: None, path: None, is_onward: false };
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

    /// Puts the counts of late aside where they are old enough.
    fn roll(&mut self, now: Instant) {
        let age = now.saturating_since(self.recent_since);
        if age >= RECENT {
            let before = if age >= RECENT * 2 { OverloadCounts::default() } else { self.recent[0] };
            (self.recent, self.recent_since) = ([OverloadCounts::default(), before], now);
        }
    }

    /// Whether the configuration names an address as that of a neighbour.
    pub(super) fn is_neighbour(&self, ip: IpAddr) -> bool {
        self.control.neighbours.iter().any(|network| network.contains(ip))
    }

    /// The feedback with the neighbour at the other end of a flow, if there is one.
    pub(super) fn with(&self, flow: Flow) -> Option<&Neighbours> {
        let neighbours = self.feedback.as_deref()?;
        self.is_neighbour(flow.peer.ip()).then_some(neighbours)
    }

    /// Whether the sender of a request is a neighbour, and offers to keep to the feedback that is used here.
    pub(super) fn keeps_to_feedback(&self, flow: Flow, message: &Message<'_>) -> bool {
        self.with(flow).is_some_and(|neighbours| {
            let offered = OverloadParams::of(message.top_via(), message.bytes());
            offered.common(&[neighbours.algorithm]).is_some()
        })
    }

    /// Whether the local law leaves a request alone, since its sender refuses in our place.
    fn is_spared(&self, flow: Flow, message: &Message<'_>) -> bool {
        self.feedback.as_ref().is_some_and(|feedback| feedback.spares)
            && self.keeps_to_feedback(flow, message)
    }

    /// An emergency call (RFC 5031 §4.1), or a Resource-Priority of somebody who may ask for that (RFC 4412 §9).
    pub(crate) fn has_priority(&self, message: &Message<'_>, flow: Flow, is_member: bool) -> bool {
        let asks = || message.header("Resource-Priority").is_some_and(is_above_routine);
        let method = message.method().unwrap_or(Method::Other);
        is_emergency(method, message.uri().unwrap_or_default())
            || (self.may_have_priority(flow.peer.ip(), is_member) && asks())
    }

    /// The law, the share of new requests that it takes, and how long messages wait.
    pub(crate) fn standing(&self, now: Instant) -> (&'static str, f64, Duration) {
        (self.guard.law(), self.guard.acceptance(now), self.guard.wait(now))
    }

    /// What is to be told of it.
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

/// The reason phrase of a refusal by the law.
const OVERLOADED: &str = "Overloaded";
