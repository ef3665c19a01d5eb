//! When whom to ask: probes without their bytes.

use super::{Probe, ProbeOutcome, ProbeResult, ProbeSettings};
use balance::{HealthEffect, Slot};
use base::Instant;
use core::time::Duration;
use node::Pause;

#[derive(Debug)]
struct OpenProbe {
    fails: Instant,
    again: Instant,
    wait: Duration,
}

#[derive(Debug)]
struct Target<A> {
    probe: Probe<A>,
    settings: ProbeSettings,
    next: Instant,
    /// When a probe was last sent.
    asked: Option<Instant>,
    open: Option<OpenProbe>,
}

/// Shortest time between two probes of a node, whatever the suspicion: whoever forges ICMP errors must not make us
/// send a probe for each. As short as the shortest interval that the configuration may set.
const HURRY_GAP: Duration = Duration::from_millis(100);
/// For nodes that are asked on suspicion only.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// When each node is asked: at an interval, and at once on suspicion. What an address and a probe look like is the
/// user's: bytes live, a typed message in the simulator's model.
///
/// - Setting up: [`set_targets`](Self::set_targets).
/// - Running: [`answered`](Self::answered), [`unreachable`](Self::unreachable), [`carry_out`](Self::carry_out),
///   [`hurry`](Self::hurry), [`clear`](Self::clear), [`tick`](Self::tick), [`deadline`](Self::deadline).
#[derive(Debug)]
pub struct ProbeSchedule<A> {
    targets: Vec<Target<A>>,
}

impl<A> Default for ProbeSchedule<A> {
    /// Nobody is asked yet.
    fn default() -> Self {
        Self { targets: Vec::new() }
    }
}

impl<A: Copy + Eq> ProbeSchedule<A> {
    /// Sets who is asked, and how. Those that are asked already go on; new ones are asked soon, spread over an
    /// interval.
    pub fn set_targets(&mut self, now: Instant, targets: &[(Slot, A, ProbeSettings)]) {
        let count = targets.len() as u32;
        let mut before = core::mem::take(&mut self.targets);
        self.targets = (0..)
            .zip(targets)
            .map(|(index, &(slot, address, settings))| {
                let first = now + settings.interval * index / count.max(1);
                let same = |target: &Target<A>| (target.probe.slot, target.probe.address) == (slot, address);
                if let Some(at) = before.iter().position(same) {
                    let mut target = before.swap_remove(at);
                    target.settings = settings;
                    if settings.periodic {
                        // It may have been asked on suspicion only until now.
                        target.next = target.next.min(first + settings.interval);
                    }
                    return target;
                }
                let next = if settings.periodic { first } else { NEVER };
                let probe = Probe { slot, address, cseq: 0 };
                Target { probe, settings, next, asked: None, open: None }
            })
            .collect();
    }

    /// Carries out what the cluster wants of probes.
    pub fn carry_out(&mut self, effect: HealthEffect) {
        match effect {
            HealthEffect::Ask { slot, at } => self.hurry(at, slot),
            HealthEffect::Clear { slot } => self.clear(slot),
            HealthEffect::Note(_) => {}
        }
    }

    /// Asks this node now, or a tenth of a second after the last time: the traffic says that something may be wrong.
    /// A probe that is under way is sent again then.
    pub fn hurry(&mut self, now: Instant, slot: Slot) {
        let Some(target) = self.targets.iter_mut().find(|target| target.probe.slot == slot) else { return };
        let earliest = target.asked.map_or(now, |asked| asked + HURRY_GAP).max(now);
        let due = target.open.as_mut().map_or(&mut target.next, |open| &mut open.again);
        *due = (*due).min(earliest);
    }

    /// The node has given another sign of life: it is under suspicion no more.
    pub fn clear(&mut self, slot: Slot) {
        let is_it = |target: &&mut Target<A>| target.probe.slot == slot && !target.settings.periodic;
        if let Some(target) = self.targets.iter_mut().find(is_it) {
            (target.open, target.next) = (None, NEVER);
        }
    }

    /// A final response came to the probe that `is_it` recognises, and asks for this pause.
    pub fn answered(
        &mut self,
        status: u16,
        pause: Option<Pause>,
        mut is_it: impl FnMut(&Probe<A>) -> bool,
    ) -> Option<ProbeOutcome> {
        let target = self.targets.iter_mut().find(|target| is_it(&target.probe))?;
        target.open.take()?;
        if !target.settings.periodic {
            target.next = NEVER;
        }
        Some(ProbeOutcome { slot: target.probe.slot, result: ProbeResult::Status(status), pause })
    }

    /// The network reported (ICMP) that the probe that `is_it` recognises did not arrive. `None` if it is not under
    /// way.
    pub fn unreachable(&mut self, is_it: impl Fn(&Probe<A>) -> bool) -> Option<ProbeOutcome> {
        let mut open = self.targets.iter_mut().filter(|target| target.open.is_some());
        let target = open.find(|target| is_it(&target.probe))?;
        target.open = None;
        Some(ProbeOutcome::failure(target.probe.slot, ProbeResult::Unreachable))
    }

    /// As [`hurry`](Self::hurry), for whoever is there.
    pub fn suspect(&mut self, now: Instant, is_there: impl Fn(&A) -> bool) {
        let there = self.targets.iter().filter(|target| is_there(&target.probe.address));
        let slots: Vec<_> = there.map(|target| target.probe.slot).collect();
        for slot in slots {
            self.hurry(now, slot);
        }
    }

    /// Sends what is due, and notes what has waited too long.
    pub fn tick(&mut self, now: Instant, mut send: impl FnMut(Probe<A>), mut note: impl FnMut(ProbeOutcome)) {
        for target in &mut self.targets {
            let Some(open) = &mut target.open else {
                if target.next <= now {
                    target.next = now + target.settings.interval;
                    target.asked = Some(now);
                    target.probe.cseq += 1;
                    let (fails, wait) = (now + target.settings.timeout, target.settings.t1);
                    target.open = Some(OpenProbe { fails, again: now + wait, wait });
                    send(target.probe);
                }
                continue;
            };
            if open.fails <= now {
                target.open = None;
                note(ProbeOutcome::failure(target.probe.slot, ProbeResult::Timeout));
            } else if open.again <= now {
                open.wait *= 2;
                open.again = now + open.wait;
                target.asked = Some(now);
                send(target.probe);
            }
        }
    }

    /// When [`tick`](Self::tick) is due; `None` if nobody is to be asked.
    pub fn deadline(&self) -> Option<Instant> {
        let due = |target: &Target<A>| match &target.open {
            Some(open) => open.fails.min(open.again),
            None => target.next,
        };
        self.targets.iter().map(due).min().filter(|&due| due != NEVER)
    }
}
