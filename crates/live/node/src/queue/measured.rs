//! Capacities of members, measured by the time to the first response to an INVITE. They are used if the member has no
//! monitor, or while the monitor is silent.

use balance::Slot;
use base::Instant;
use core::time::Duration;
use elastic::estimate::{Estimator, EstimatorSettings, ServerWindow};
use std::collections::BTreeMap;

/// Length of a window (Cloud paper, section IV-A).
const WINDOW: Duration = Duration::from_secs(1);

/// Measurements of one member in the current window.
#[derive(Clone)]
struct Member {
    estimator: Estimator,
    /// Calls delivered in this window.
    calls: u64,
    /// Calls delivered in the window before.
    calls_before: u64,
    answers: Vec<Duration>,
    /// Calls of both windows that have no response yet. More responses than that belong to other calls: an INVITE
    /// repeated with credentials, or a call of another pool.
    unanswered: u64,
    /// Whether the member answered nothing in the window before.
    was_silent: bool,
}

/// Measurements of the members of a pool.
#[derive(Clone)]
pub(super) struct Measured {
    settings: EstimatorSettings,
    members: BTreeMap<Slot, Member>,
    /// End of the window; `None` without traffic.
    ends: Option<Instant>,
}

impl Measured {
    pub(super) fn new(settings: EstimatorSettings) -> Self {
        Self { settings, members: BTreeMap::new(), ends: None }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.ends
    }

    /// Adds a member with its last measured capacity, or the initial capacity if it is new. Returns the capacity.
    pub(super) fn enter(&mut self, now: Instant, slot: Slot, learned: Option<f64>) -> f64 {
        let begin = || Estimator::new(now, self.settings);
        let estimator =
            learned.map_or_else(begin, |capacity| Estimator::resume(now, self.settings, capacity));
        let member = Member {
            estimator,
            calls: 0,
            calls_before: 0,
            answers: Vec::new(),
            unanswered: 0,
            was_silent: false,
        };
        self.members.entry(slot).or_insert(member).estimator.capacity()
    }

    /// Returns whether the capacity of a member has been measured.
    pub(super) fn is_learned(&self, slot: Slot) -> bool {
        self.members.get(&slot).is_some_and(|member| member.estimator.is_learned())
    }

    /// Returns the measured capacities.
    pub(super) fn learned(&self) -> impl Iterator<Item = (Slot, f64)> + '_ {
        let learned = self.members.iter().filter(|(_, member)| member.estimator.is_learned());
        learned.map(|(slot, member)| (*slot, member.estimator.capacity()))
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        self.members.remove(&slot);
    }

    /// Records a call delivered to a member.
    pub(super) fn delivered(&mut self, now: Instant, slot: Slot) {
        if let Some(member) = self.members.get_mut(&slot) {
            member.calls += 1;
            member.unanswered += 1;
            self.ends.get_or_insert(now + WINDOW);
        }
    }

    /// Records a member's first response to a call, and the time it took.
    pub(super) fn answered(&mut self, now: Instant, slot: Slot, took: Duration) {
        let Some(member) = self.members.get_mut(&slot) else { return };
        if member.unanswered > 0 {
            member.unanswered -= 1;
            member.answers.push(took);
            self.ends.get_or_insert(now + WINDOW);
        }
    }

    /// Stops counting a call that was delivered to this member.
    pub(super) fn taken_back(&mut self, slot: Slot) {
        if let Some(member) = self.members.get_mut(&slot).filter(|member| member.unanswered > 0) {
            member.unanswered -= 1;
            let calls = if member.calls > 0 { &mut member.calls } else { &mut member.calls_before };
            *calls = calls.saturating_sub(1);
        }
    }

    /// Returns the capacities after a window, if one is over.
    pub(super) fn capacities(&mut self, now: Instant) -> Vec<(Slot, f64)> {
        let Some(ends) = self.ends.filter(|ends| *ends <= now) else { return Vec::new() };
        let length = WINDOW + (now - ends);
        let mut goes_on = false;
        let of = |(slot, member): (&Slot, &mut Member)| {
            let window = member.end(length);
            goes_on |= window.calls > 0;
            (*slot, member.estimator.on_window(now, &window))
        };
        let capacities = self.members.iter_mut().map(of).collect();
        self.ends = goes_on.then(|| now + WINDOW);
        capacities
    }
}

impl Member {
    fn end(&mut self, length: Duration) -> ServerWindow {
        let mut answers = core::mem::take(&mut self.answers);
        answers.sort_unstable();
        // 95th percentile by nearest rank.
        let at = (answers.len() * 95).div_ceil(100).saturating_sub(1);
        // A call without a response for two windows has taken at least one window.
        let is_stuck = answers.is_empty() && self.was_silent && self.calls_before > 0 && self.unanswered > 0;
        let p95 = answers.get(at).copied();
        let goodput = answers.len() as f64 / length.as_secs_f64();
        let window = ServerWindow { calls: self.calls, p95, goodput, oldest: is_stuck.then_some(length) };
        self.was_silent = answers.is_empty() && self.calls > 0;
        self.unanswered = self.unanswered.min(self.calls + self.calls_before);
        self.calls_before = core::mem::take(&mut self.calls);
        window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An INVITE that is repeated with credentials gets a response as well, but does not count as additional capacity.
    #[test]
    fn repeated_invites_are_no_goodput() {
        let at = Instant::from_millis;
        let slot = Slot(0);
        let mut measured =
            Measured::new(EstimatorSettings { maximum: 100.0, ..EstimatorSettings::default() });
        let start = measured.enter(at(0), slot, None);
        for second in 0..20 {
            // Half of the calls that the member may get. Each call is challenged and repeated.
            for call in 0..25 {
                measured.delivered(at(1_000 * second + call), slot);
                measured.answered(at(1_000 * second + call), slot, Duration::from_micros(100));
                measured.answered(at(1_000 * second + call), slot, Duration::from_micros(100));
            }
            for (_, capacity) in measured.capacities(at(1_000 * (second + 1))) {
                assert!(capacity <= start, "{capacity}");
            }
        }
        measured.remove(slot);
        assert!(measured.capacities(at(60_000)).is_empty());
    }

    /// Otherwise a member whose calls are never sent would appear to stand still.
    #[test]
    fn calls_taken_back_are_not_measured() {
        let at = Instant::from_millis;
        let mut measured =
            Measured::new(EstimatorSettings { maximum: 100.0, ..EstimatorSettings::default() });
        let start = measured.enter(at(0), Slot(0), None);
        for second in 0..10 {
            for call in 0..20 {
                measured.delivered(at(1_000 * second + call), Slot(0));
                measured.taken_back(Slot(0));
            }
            for (_, capacity) in measured.capacities(at(1_000 * (second + 1))) {
                assert!(capacity >= start, "{capacity}");
            }
        }
    }

    #[test]
    fn unanswered_calls_count_as_slow() {
        let at = Instant::from_millis;
        let mut measured =
            Measured::new(EstimatorSettings { maximum: 100.0, ..EstimatorSettings::default() });
        let start = measured.enter(at(0), Slot(0), None);
        let mut last = start;
        for second in 0..10 {
            for call in 0..20 {
                measured.delivered(at(1_000 * second + call), Slot(0));
            }
            last =
                measured.capacities(at(1_000 * (second + 1))).first().map_or(last, |(_, capacity)| *capacity);
        }
        assert!(last < 0.5 * start, "{last}");
    }
}
