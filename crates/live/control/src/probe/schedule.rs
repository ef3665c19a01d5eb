//! Schedule of probes, independent of their bytes.

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
    /// When the last probe was sent.
    asked: Option<Instant>,
    open: Option<OpenProbe>,
}

/// Shortest time between two probes of a node on suspicion. Forged ICMP errors must not trigger a probe each. It equals
/// the shortest interval that the configuration allows.
const HURRY_GAP: Duration = Duration::from_millis(100);
/// Due time of nodes that are probed only on suspicion.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// The schedule of all nodes' probes: at an interval, and at once on suspicion. The caller defines addresses and
/// probes: bytes in the server, a typed message in the simulator's model.
///
/// - Setting up: [`set_targets`](Self::set_targets).
/// - Running: [`answered`](Self::answered), [`unreachable`](Self::unreachable), [`carry_out`](Self::carry_out),
///   [`hurry`](Self::hurry), [`clear`](Self::clear), [`tick`](Self::tick), [`deadline`](Self::deadline).
#[derive(Debug)]
pub struct ProbeSchedule<A> {
    targets: Vec<Target<A>>,
}

impl<A> Default for ProbeSchedule<A> {
    /// No node is probed yet.
    fn default() -> Self {
        Self { targets: Vec::new() }
    }
}

impl<A: Copy + Eq> ProbeSchedule<A> {
    /// Sets the nodes to probe and their settings. Known nodes keep their schedule. The first probes of new nodes are
    /// spread over an interval.
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
                        // The node may have been probed only on suspicion before.
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

    /// Carries out an effect of the cluster on the schedule.
    pub fn carry_out(&mut self, effect: HealthEffect) {
        match effect {
            HealthEffect::Probe { slot, at } => self.hurry(at, slot),
            HealthEffect::Clear { slot } => self.clear(slot),
            HealthEffect::Note(_) => {}
        }
    }

    /// Probes this node now, or 100 ms after its last probe, because the traffic suggests a fault. A probe under way is
    /// sent again at that time.
    pub fn hurry(&mut self, now: Instant, slot: Slot) {
        let Some(target) = self.targets.iter_mut().find(|target| target.probe.slot == slot) else { return };
        let earliest = target.asked.map_or(now, |asked| asked + HURRY_GAP).max(now);
        let due = target.open.as_mut().map_or(&mut target.next, |open| &mut open.again);
        *due = (*due).min(earliest);
    }

    /// Ends the suspicion of a node that has given another sign of life.
    pub fn clear(&mut self, slot: Slot) {
        let is_it = |target: &&mut Target<A>| target.probe.slot == slot && !target.settings.periodic;
        if let Some(target) = self.targets.iter_mut().find(is_it) {
            (target.open, target.next) = (None, NEVER);
        }
    }

    /// Processes a final response to the probe that `is_it` recognises, with the pause that it asks for.
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

    /// Processes an ICMP error about the probe that `is_it` recognises. Returns `None` if that probe is not under way.
    pub fn unreachable(&mut self, is_it: impl Fn(&Probe<A>) -> bool) -> Option<ProbeOutcome> {
        let mut open = self.targets.iter_mut().filter(|target| target.open.is_some());
        let target = open.find(|target| is_it(&target.probe))?;
        target.open = None;
        Some(ProbeOutcome::failure(target.probe.slot, ProbeResult::Unreachable))
    }

    /// Does the same as [`hurry`](Self::hurry) for every node whose address satisfies `is_there`.
    pub fn suspect(&mut self, now: Instant, is_there: impl Fn(&A) -> bool) {
        let there = self.targets.iter().filter(|target| is_there(&target.probe.address));
        let slots: Vec<_> = there.map(|target| target.probe.slot).collect();
        for slot in slots {
            self.hurry(now, slot);
        }
    }

    /// Sends due probes, and reports probes that have timed out.
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

    /// Returns when [`tick`](Self::tick) is due; `None` if no probe is scheduled.
    pub fn deadline(&self) -> Option<Instant> {
        let due = |target: &Target<A>| match &target.open {
            Some(open) => open.fails.min(open.again),
            None => target.next,
        };
        self.targets.iter().map(due).min().filter(|&due| due != NEVER)
    }
}
