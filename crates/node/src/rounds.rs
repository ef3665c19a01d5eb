//! When whom to ask, and what follows from the answer: the prober without its messages.

use crate::Rest;
use balance::{Cluster, Effect, Slot};
use base::Instant;
use core::time::Duration;

/// When nodes are asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeSettings {
    /// Whether nodes are asked at the interval. If not, only on suspicion ([`Rounds::hurry`]), and then until they answer
    /// or are [cleared](Rounds::clear).
    pub periodic: bool,
    /// Time between two probes of a node.
    pub interval: Duration,
    /// A probe without an answer for this long has failed.
    pub timeout: Duration,
    /// An unanswered probe is sent again after this, doubling (T1, RFC 3261 §17.1.2.2): one lost datagram is no death.
    pub t1: Duration,
}

/// What came of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The node.
    pub slot: Slot,
    /// What came: a status, or one of the words `timeout` and `unreachable`. Any final answer but 503 means that it is
    /// alive.
    pub reason: Reason,
    /// It answered 503: it gets no new calls for so long, as if a call had been answered with it.
    pub rest: Option<Rest>,
}

impl Outcome {
    /// No answer.
    pub(crate) fn failure(slot: Slot, reason: Reason) -> Self {
        Self { slot, reason, rest: None }
    }

    /// What it means for the health of the node.
    pub fn apply(self, now: Instant, cluster: &mut Cluster) {
        let Self { slot, reason, rest } = self;
        match (reason, rest) {
            // A closed port answers for itself; silence and 503 have to repeat.
            (Reason::Unreachable, _) => cluster.unreachable(now, slot),
            (_, Some(rest)) => cluster.refused(now, slot, now + rest.length, rest.asked),
            (_, None) => cluster.probed(now, slot, matches!(reason, Reason::Status(_))),
        }
    }
}

/// What decided a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// A final response with this status.
    Status(u16),
    /// Nothing came.
    Timeout,
    /// The network said that nobody listens there.
    Unreachable,
}

impl core::fmt::Display for Reason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Status(status) => write!(f, "status {status}"),
            Self::Timeout => f.write_str("timeout"),
            Self::Unreachable => f.write_str("unreachable"),
        }
    }
}

#[derive(Debug)]
struct Probe {
    fails: Instant,
    again: Instant,
    wait: Duration,
}

#[derive(Debug)]
struct Target<A> {
    ask: Ask<A>,
    next: Instant,
    /// When a probe was last sent.
    asked: Option<Instant>,
    open: Option<Probe>,
}

/// A probe to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask<A> {
    /// The node.
    pub slot: Slot,
    /// Where it is.
    pub address: A,
    /// Counts the probes of the node; one that is sent again keeps its number.
    pub cseq: u32,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step<A> {
    /// Send this probe.
    Send(Ask<A>),
    /// Take note that nobody answered.
    Note(Outcome),
}

/// Shortest time between two probes of a node, whatever the suspicion: whoever forges ICMP errors must not make us send
/// a probe for each. As short as the shortest interval that the configuration may set.
const HURRY_GAP: Duration = Duration::from_millis(100);
/// For nodes that are asked on suspicion only.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// Asks every node at an interval whether it is alive, and at once on suspicion. What an address and a probe look like is
/// the user's: bytes live, a typed message in the simulator's model.
///
/// - Setting up: [`new`](Self::new), [`set_targets`](Self::set_targets).
/// - Running: [`answered`](Self::answered), [`unreachable`](Self::unreachable), [`carry_out`](Self::carry_out),
///   [`hurry`](Self::hurry), [`clear`](Self::clear), [`tick`](Self::tick), [`deadline`](Self::deadline).
#[derive(Debug)]
pub struct Rounds<A> {
    settings: ProbeSettings,
    targets: Vec<Target<A>>,
}

impl<A: Copy + Eq> Rounds<A> {
    /// Nobody is asked yet.
    pub fn new(settings: ProbeSettings) -> Self {
        Self { settings, targets: Vec::new() }
    }

    /// The times.
    pub fn settings(&self) -> &ProbeSettings {
        &self.settings
    }

    /// Changes the times.
    pub fn set_settings(&mut self, settings: ProbeSettings) {
        self.settings = settings;
    }

    /// Sets who is asked. Those that are asked already go on; new ones are asked soon, spread over an interval.
    pub fn set_targets(&mut self, now: Instant, targets: &[(Slot, A)]) {
        let count = targets.len() as u32;
        let mut before = core::mem::take(&mut self.targets);
        self.targets = (0..)
            .zip(targets)
            .map(|(index, &(slot, address))| {
                let first = now + self.settings.interval * index / count.max(1);
                let same = |target: &Target<A>| (target.ask.slot, target.ask.address) == (slot, address);
                if let Some(at) = before.iter().position(same) {
                    let mut target = before.swap_remove(at);
                    if self.settings.periodic {
                        // It may have been asked on suspicion only until now.
                        target.next = target.next.min(first + self.settings.interval);
                    }
                    return target;
                }
                let next = if self.settings.periodic { first } else { NEVER };
                Target { ask: Ask { slot, address, cseq: 0 }, next, asked: None, open: None }
            })
            .collect();
    }

    /// Carries out what the cluster wants of probes.
    pub fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Ask { slot, at } => self.hurry(at, slot),
            Effect::Clear { slot } => self.clear(slot),
            Effect::Note(_) => {}
        }
    }

    /// Asks this node now, or a tenth of a second after the last time: the traffic says that something may be wrong. A
    /// probe that is under way is sent again then.
    pub fn hurry(&mut self, now: Instant, slot: Slot) {
        let Some(target) = self.targets.iter_mut().find(|target| target.ask.slot == slot) else { return };
        let earliest = target.asked.map_or(now, |asked| asked + HURRY_GAP).max(now);
        let due = target.open.as_mut().map_or(&mut target.next, |probe| &mut probe.again);
        *due = (*due).min(earliest);
    }

    /// The node has given another sign of life: it is under suspicion no more.
    pub fn clear(&mut self, slot: Slot) {
        if self.settings.periodic {
            return;
        }
        if let Some(target) = self.targets.iter_mut().find(|target| target.ask.slot == slot) {
            (target.open, target.next) = (None, NEVER);
        }
    }

    /// A final response came to the probe that `is_it` recognises, and asks for this rest.
    pub fn answered(
        &mut self,
        status: u16,
        rest: Option<Rest>,
        mut is_it: impl FnMut(&Ask<A>) -> bool,
    ) -> Option<Outcome> {
        let target = self.targets.iter_mut().find(|target| is_it(&target.ask))?;
        target.open.take()?;
        if !self.settings.periodic {
            target.next = NEVER;
        }
        Some(Outcome { slot: target.ask.slot, reason: Reason::Status(status), rest })
    }

    /// The network reported (ICMP) that the probe to this address that `is_it` recognises did not arrive. Returns whether
    /// one is under way.
    pub fn unreachable(
        &mut self,
        address: A,
        is_it: impl Fn(&Ask<A>) -> bool,
        mut outcome: impl FnMut(Outcome),
    ) -> bool {
        let mut any = false;
        for target in &mut self.targets {
            if target.ask.address == address && target.open.is_some() && is_it(&target.ask) {
                target.open = None;
                outcome(Outcome::failure(target.ask.slot, Reason::Unreachable));
                any = true;
            }
        }
        any
    }

    /// As [`hurry`](Self::hurry), for whoever is at this address.
    pub fn suspect(&mut self, now: Instant, address: A) {
        let there = self.targets.iter().filter(|target| target.ask.address == address);
        let slots: Vec<_> = there.map(|target| target.ask.slot).collect();
        for slot in slots {
            self.hurry(now, slot);
        }
    }

    /// Sends what is due, and ends what has waited too long.
    pub fn tick(&mut self, now: Instant, mut step: impl FnMut(Step<A>)) {
        for target in &mut self.targets {
            let Some(probe) = &mut target.open else {
                if target.next <= now {
                    target.next = now + self.settings.interval;
                    target.asked = Some(now);
                    target.ask.cseq += 1;
                    let (fails, wait) = (now + self.settings.timeout, self.settings.t1);
                    target.open = Some(Probe { fails, again: now + wait, wait });
                    step(Step::Send(target.ask));
                }
                continue;
            };
            if probe.fails <= now {
                target.open = None;
                step(Step::Note(Outcome::failure(target.ask.slot, Reason::Timeout)));
            } else if probe.again <= now {
                probe.wait *= 2;
                probe.again = now + probe.wait;
                target.asked = Some(now);
                step(Step::Send(target.ask));
            }
        }
    }

    /// When [`tick`](Self::tick) is due.
    pub fn deadline(&self) -> Option<Instant> {
        let due = |target: &Target<A>| match &target.open {
            Some(probe) => probe.fails.min(probe.again),
            None => target.next,
        };
        self.targets.iter().map(due).min()
    }
}
