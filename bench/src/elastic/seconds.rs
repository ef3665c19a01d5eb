//! What callers noticed, second by second.

use crate::caller::{CallSetup, RunOutcome};

/// What the calls that were due in a second, or in several, came to.
#[derive(Clone, Default)]
pub(super) struct Second {
    pub(super) started: usize,
    pub(super) setups: Vec<CallSetup>,
}

impl Second {
    /// The calls by the second in which they were due.
    pub(super) fn all(outcome: &RunOutcome) -> Vec<Self> {
        let of = |call: usize| (outcome.due_ns[call] / 1_000_000_000) as usize;
        let count = outcome.due_ns.len().checked_sub(1).map_or(0, |last| of(last) + 1);
        let mut seconds = vec![Self::default(); count];
        for call in 0..outcome.due_ns.len() {
            seconds[of(call)].started += 1;
        }
        for setup in &outcome.setups {
            seconds[of(setup.call)].setups.push(*setup);
        }
        seconds
    }

    /// Several as one.
    pub(super) fn together(seconds: &[Self]) -> Self {
        let started = seconds.iter().map(|second| second.started).sum();
        Self { started, setups: seconds.iter().flat_map(|second| &second.setups).copied().collect() }
    }

    /// The time to ring of `percent` of the answered calls, in milliseconds; NaN without any.
    pub(super) fn percentile(&self, percent: usize) -> f64 {
        let mut took: Vec<u64> = self.setups.iter().map(|setup| setup.took_ns).collect();
        took.sort_unstable();
        let at = (took.len() * percent).div_ceil(100).checked_sub(1);
        at.map_or(f64::NAN, |at| took[at] as f64 / 1e6)
    }

    /// Percent of the answered calls that rang later than after so many milliseconds.
    pub(super) fn later_than(&self, milliseconds: f64) -> f64 {
        let late = self.setups.iter().filter(|setup| setup.took_ns as f64 / 1e6 > milliseconds).count();
        100.0 * late as f64 / self.setups.len().max(1) as f64
    }

    /// Percent of the answered calls that this server had.
    pub(super) fn share(&self, server: usize) -> f64 {
        let its = self.setups.iter().filter(|setup| setup.server == server).count();
        100.0 * its as f64 / self.setups.len().max(1) as f64
    }

    /// Calls that nobody answered.
    pub(super) fn lost(&self) -> usize {
        self.started - self.setups.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_count_in_the_second_in_which_they_were_due() {
        let setup = |call, ms: u64, server| CallSetup { call, took_ns: ms * 1_000_000, server };
        let outcome = RunOutcome {
            due_ns: vec![0, 999_999_999, 1_000_000_000, 2_500_000_000],
            setups: vec![setup(0, 4, 1), setup(2, 8, 0), setup(1, 2, 0)],
            ..RunOutcome::default()
        };
        let seconds = Second::all(&outcome);
        assert_eq!(seconds.iter().map(|second| second.started).collect::<Vec<_>>(), [2, 1, 1]);
        assert_eq!(seconds.iter().map(Second::lost).collect::<Vec<_>>(), [0, 0, 1]);
        let all = Second::together(&seconds);
        assert_eq!([all.percentile(50) as u64, all.percentile(95) as u64], [4, 8]);
        assert_eq!([3.0, 4.0, 8.0].map(|late| all.later_than(late) as u64), [66, 33, 0]);
        assert_eq!([all.share(0) as u64, all.share(1) as u64], [66, 33]);
        assert!(seconds[2].percentile(50).is_nan());
    }
}
