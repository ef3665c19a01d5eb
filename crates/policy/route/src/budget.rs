//! Retry budget: limits retries to a share of the first attempts, so that retries cannot multiply an overload.

use base::Instant;
use core::time::Duration;

/// Limit of retries.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BudgetSettings {
    /// Retries per first attempt in the window.
    pub ratio: f64,
    /// Retries allowed in each window regardless of first attempts, so that failover works with few calls.
    pub least: u32,
    /// Length of the window.
    pub window: Duration,
}

impl Default for BudgetSettings {
    /// A tenth of the first attempts in 10 s, plus 100. With many calls, retries add at most about a tenth to an
    /// overload. With few calls, all of them may be retried.
    fn default() -> Self {
        Self { ratio: 0.1, least: 100, window: Duration::from_secs(10) }
    }
}

impl BudgetSettings {
    /// Share of one of `shards` shards, each of which sees an equal part of the traffic. At least one retry.
    #[must_use]
    pub fn share(self, shards: usize) -> Self {
        let shards = u32::try_from(shards.max(1)).unwrap_or(u32::MAX);
        Self { least: self.least.div_ceil(shards), ..self }
    }
}

/// Number of parts of a window. Old counts expire one part at a time, so the effective window is up to one part
/// shorter.
const PARTS: usize = 10;

#[derive(Clone, Copy, Default, Debug)]
struct Count {
    firsts: u32,
    retries: u32,
}

/// Counts of attempts over a window, in fixed memory.
///
/// - [`first`](Self::first) counts the first attempt of a request.
/// - [`may_retry`](Self::may_retry) is called before each further attempt; if it returns false, the present failure is
///   final.
/// - [`retry`](Self::retry) counts each further attempt.
#[derive(Clone, Debug)]
pub struct Budget {
    settings: BudgetSettings,
    /// Indexed by the number of the part modulo [`PARTS`].
    parts: [Count; PARTS],
    /// Number of the latest part with a count.
    latest: u64,
}

impl Budget {
    /// Creates a budget without attempts.
    pub fn new(settings: BudgetSettings) -> Self {
        Self { settings, parts: [Count::default(); PARTS], latest: 0 }
    }

    /// Settings.
    pub fn settings(&self) -> BudgetSettings {
        self.settings
    }

    /// Changes the settings. Counts are kept unless the window changes.
    pub fn configure(&mut self, settings: BudgetSettings) {
        if settings.window == self.settings.window {
            self.settings = settings;
        } else {
            *self = Self::new(settings);
        }
    }

    /// Counts the first attempt of a request.
    pub fn first(&mut self, now: Instant) {
        let count = self.part(now);
        count.firsts = count.firsts.saturating_add(1);
    }

    /// Whether a further attempt is allowed now.
    pub fn may_retry(&mut self, now: Instant) -> bool {
        self.part(now);
        let sum = |of: fn(&Count) -> u32| self.parts.iter().map(|part| u64::from(of(part))).sum::<u64>();
        let (firsts, retries) = (sum(|part| part.firsts), sum(|part| part.retries));
        retries < u64::from(self.settings.least) + (firsts as f64 * self.settings.ratio) as u64
    }

    /// Counts a further attempt.
    pub fn retry(&mut self, now: Instant) {
        let count = self.part(now);
        count.retries = count.retries.saturating_add(1);
    }

    /// Returns the part to which `now` belongs. Clears the parts that have left the window.
    fn part(&mut self, now: Instant) -> &mut Count {
        let length = (self.settings.window.as_nanos() as u64 / PARTS as u64).max(1);
        let number = (now.as_nanos() / length).max(self.latest);
        let passed = (number - self.latest).min(PARTS as u64);
        for part in 0..passed {
            self.parts[((number - part) % PARTS as u64) as usize] = Count::default();
        }
        self.latest = number;
        &mut self.parts[(number % PARTS as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Makes a further attempt if it is allowed; returns whether it was.
    fn try_retry(budget: &mut Budget, now: Instant) -> bool {
        let may = budget.may_retry(now);
        if may {
            budget.retry(now);
        }
        may
    }

    #[test]
    fn few_calls_are_all_retried_but_only_a_tenth_of_many() {
        let retried = |calls: u32| {
            let mut budget = Budget::new(BudgetSettings::default());
            let mut retried = 0;
            for call in 0..calls {
                // All calls come within a second.
                let now = Instant::from_nanos(u64::from(call) * 1_000_000_000 / u64::from(calls));
                budget.first(now);
                retried += u32::from(try_retry(&mut budget, now));
            }
            retried
        };
        assert_eq!(retried(8), 8);
        assert_eq!(retried(10_000), 1_100);
    }

    #[test]
    fn attempts_before_the_window_do_not_count() {
        let mut budget = Budget::new(BudgetSettings { least: 1, ..BudgetSettings::default() });
        (0..100).for_each(|_| budget.first(Instant::ZERO));
        assert_eq!((0..100).filter(|_| try_retry(&mut budget, Instant::from_millis(9_900))).count(), 11);
        assert_eq!((0..100).filter(|_| try_retry(&mut budget, Instant::from_millis(18_000))).count(), 0);
        assert_eq!((0..100).filter(|_| try_retry(&mut budget, Instant::from_millis(19_500))).count(), 1);
        assert_eq!(
            (0..100).filter(|_| try_retry(&mut budget, Instant::from_millis(u64::MAX / 2_000_000))).count(),
            1
        );
    }

    #[test]
    fn a_shard_has_its_share() {
        let settings = BudgetSettings::default();
        assert_eq!(
            (settings.share(3).least, settings.share(100).least, settings.share(0).least),
            (34, 1, 100)
        );
    }

    proptest! {
        /// No window has more retries than its first attempts allow, and an allowed retry is never refused. Windows
        /// consist of whole parts, as in the budget.
        #[test]
        fn retries_are_a_share_of_first_attempts(
            steps in prop::collection::vec((0..3_000_u64, any::<bool>(), 1..20_u8), 1..200),
            least in 0..5_u32,
            percent in 0..60_u32,
        ) {
            let settings = BudgetSettings {
                ratio: f64::from(percent) / 100.0, least, window: Duration::from_secs(10),
            };
            let mut budget = Budget::new(settings);
            let (mut now, mut done): (u64, Vec<(u64, bool)>) = (0, Vec::new());
            for (wait, is_first, times) in steps {
                now += wait;
                for _ in 0..times {
                    let part = now / 1_000;
                    let within = |of: bool| done.iter().filter(|(at, first)| at + 10 > part && *first == of).count();
                    if is_first {
                        budget.first(Instant::from_millis(now));
                        done.push((part, true));
                        continue;
                    }
                    let allowed = least as usize + (within(true) as f64 * settings.ratio) as usize;
                    let may = try_retry(&mut budget, Instant::from_millis(now));
                    prop_assert_eq!(may, within(false) < allowed);
                    if may {
                        done.push((part, false));
                    }
                }
            }
            let (firsts, retries) = (done.iter().filter(|(_, first)| *first).count(), done.iter().filter(|(_, first)| !first).count());
            let windows = (now / 10_000 + 1) as f64;
            prop_assert!(retries as f64 <= firsts as f64 * settings.ratio * 2.0 + f64::from(least) * windows);
        }
    }
}
