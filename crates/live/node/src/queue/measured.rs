//! Capacities of members from their times to the first answer to an INVITE: without a monitor beside the member, or
//! while the monitor is silent.

use balance::Slot;
use base::Instant;
use core::time::Duration;
use elastic::estimate::{Estimator, Settings, Window};
use std::collections::BTreeMap;

/// Cloud paper, section IV-A.
const WINDOW: Duration = Duration::from_secs(1);

/// The measurements of a member in the current window.
#[derive(Clone)]
struct Member {
    estimator: Estimator,
    /// Calls that it got.
    calls: u64,
    /// And in the window before.
    calls_before: u64,
    answers: Vec<Duration>,
    /// Calls of these windows whose first answer has not come. Further answers are to other calls: an INVITE that
    /// comes again with credentials, or a call of another pool.
    unanswered: u64,
    /// It has answered nothing in the window before.
    was_silent: bool,
}

/// The members of a pool.
#[derive(Clone)]
pub(super) struct Measured {
    settings: Settings,
    members: BTreeMap<Slot, Member>,
    /// The end of the window; none where nothing is going on.
    ends: Option<Instant>,
}

impl Measured {
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings, members: BTreeMap::new(), ends: None }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.ends
    }

    /// A new member, which has the initial capacity, or the one that it has shown before.
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

    /// Whether calls have shown the capacity of a member.
    pub(super) fn is_learned(&self, slot: Slot) -> bool {
        self.members.get(&slot).is_some_and(|member| member.estimator.is_learned())
    }

    /// The capacities of members that calls have shown.
    pub(super) fn learned(&self) -> impl Iterator<Item = (Slot, f64)> + '_ {
        let learned = self.members.iter().filter(|(_, member)| member.estimator.is_learned());
        learned.map(|(slot, member)| (*slot, member.estimator.capacity()))
    }

    /// Another server has taken this slot.
    pub(super) fn remove(&mut self, slot: Slot) {
        self.members.remove(&slot);
    }

    /// A member gets a call.
    pub(super) fn delivered(&mut self, now: Instant, slot: Slot) {
        if let Some(member) = self.members.get_mut(&slot) {
            member.calls += 1;
            member.unanswered += 1;
            self.ends.get_or_insert(now + WINDOW);
        }
    }

    /// A member has answered for the first time, after so long.
    pub(super) fn answered(&mut self, now: Instant, slot: Slot, took: Duration) {
        let Some(member) = self.members.get_mut(&slot) else { return };
        if member.unanswered > 0 {
            member.unanswered -= 1;
            member.answers.push(took);
            self.ends.get_or_insert(now + WINDOW);
        }
    }

    /// A call that this member got does not count for it.
    pub(super) fn taken_back(&mut self, slot: Slot) {
        if let Some(member) = self.members.get_mut(&slot).filter(|member| member.unanswered > 0) {
            member.unanswered -= 1;
            let calls = if member.calls > 0 { &mut member.calls } else { &mut member.calls_before };
            *calls = calls.saturating_sub(1);
        }
    }

    /// The capacities that follow from a window, if one is over.
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
    /// Ends its window of this length.
    fn end(&mut self, length: Duration) -> Window {
        let mut answers = core::mem::take(&mut self.answers);
        answers.sort_unstable();
        // Nearest rank.
        let at = (answers.len() * 95).div_ceil(100).saturating_sub(1);
        // A call that is unanswered for two windows took that long at least.
        let is_stuck = answers.is_empty() && self.was_silent && self.calls_before > 0 && self.unanswered > 0;
        let p95 = answers.get(at).copied();
        let goodput = answers.len() as f64 / length.as_secs_f64();
        let window = Window { calls: self.calls, p95, goodput, oldest: is_stuck.then_some(length) };
        self.was_silent = answers.is_empty() && self.calls > 0;
        self.unanswered = self.unanswered.min(self.calls + self.calls_before);
        self.calls_before = core::mem::take(&mut self.calls);
        window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An INVITE that comes again with credentials is answered, too, but does not count as additional capacity.
    #[test]
    fn what_was_not_delivered_is_no_goodput() {
        let at = Instant::from_millis;
        let slot = Slot(0);
        let mut measured = Measured::new(Settings { maximum: 100.0, ..Settings::default() });
        let start = measured.enter(at(0), slot, None);
        for second in 0..20 {
            // Half of the calls that it may get; each is challenged and comes again.
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

    /// Or a member whose calls are never sent would pass for one that stands still.
    #[test]
    fn what_was_taken_back_says_nothing() {
        let at = Instant::from_millis;
        let mut measured = Measured::new(Settings { maximum: 100.0, ..Settings::default() });
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
    fn what_is_never_answered_is_slow() {
        let at = Instant::from_millis;
        let mut measured = Measured::new(Settings { maximum: 100.0, ..Settings::default() });
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
