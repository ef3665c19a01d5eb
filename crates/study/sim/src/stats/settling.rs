//! Detects when a run has become stationary, which gives the length of its warm-up.

/// Relative difference up to which two means of a stationary stretch count as equal.
const PART: f64 = 0.05;

/// Collects a quantity bin by bin until it is stationary, or until the maximum number of bins.
///
/// A test takes place each time the number of bins has doubled. The first half of the bins is warm-up and left out. A
/// test passes if the means of both halves of the rest differ by at most a twentieth, or by at most an absolute limit.
/// The quantity is stationary when two tests in a row pass and their means agree as well.
///
/// A decay that is too slow for the first test is found by the second test, or by a later one, for time constants up to
/// [`SLOWEST`](Self::SLOWEST) times the bins before the first test. A slower decay is not found. No test can predict
/// later changes, such as a network that collapses by chance after hours.
///
/// Source: the doubling of run lengths until means agree follows Law and Carson, A sequential procedure for determining
/// the length of a steady-state simulation, Operations Research 27, 1979.
#[derive(Clone, Debug)]
pub struct Settling {
    bins: Vec<f64>,
    /// Number of bins at the next test.
    next: usize,
    most: usize,
    matters: f64,
    /// Mean of the counted bins in the last test, if the test passed.
    passed: Option<f64>,
    is_stationary: bool,
}

impl Settling {
    /// Greatest time constant of a decay that is found, in lengths L of the first test. The counted bins of the first
    /// test are from L / 2 to L, of the second from L to 2 L. For a time constant T their means differ by 0.75 L / T.
    pub const SLOWEST: f64 = 0.75 / PART;

    /// Returns an empty collection. The first test is after `least` bins, the last one after `most` at the latest.
    /// Differences up to `matters` are ignored, whatever the mean is.
    ///
    /// # Panics
    /// When `least` is below four bins: only half of the bins count, and both halves of these need a bin.
    pub fn new(least: usize, most: usize, matters: f64) -> Self {
        assert!(least >= 4, "a test needs at least four bins, not {least}");
        let most = most.max(least);
        Self { bins: Vec::new(), next: least, most, matters, passed: None, is_stationary: false }
    }

    /// Adds a bin. Returns whether the collection is over: stationary, or at its maximum.
    pub fn add(&mut self, bin: f64) -> bool {
        if self.is_over() {
            return true;
        }
        self.bins.push(bin);
        if self.bins.len() == self.next {
            let [early, late] = self.halves();
            let passed = self.agree(early, late).then_some(f64::midpoint(early, late));
            self.is_stationary = self.passed.zip(passed).is_some_and(|(before, now)| self.agree(before, now));
            self.passed = passed;
            self.next *= 2;
        }
        self.is_over()
    }

    /// Whether two means count as equal.
    fn agree(&self, one: f64, other: f64) -> bool {
        (one - other).abs() <= self.matters.max(PART * f64::midpoint(one, other).abs())
    }

    fn is_over(&self) -> bool {
        self.is_stationary || self.bins.len() >= self.most
    }

    /// Whether the bins from [`warm_up`](Self::warm_up) on are stationary.
    pub fn is_stationary(&self) -> bool {
        self.is_stationary
    }

    /// Number of bins.
    pub fn len(&self) -> usize {
        self.bins.len()
    }

    /// Whether there are no bins.
    pub fn is_empty(&self) -> bool {
        self.bins.is_empty()
    }

    /// Number of bins to be left out.
    pub fn warm_up(&self) -> usize {
        self.bins.len() / 2
    }

    /// Means of the third and the last quarter of the bins.
    fn halves(&self) -> [f64; 2] {
        let rest = &self.bins[self.warm_up()..];
        let (early, late) = rest.split_at(rest.len() / 2);
        [early, late].map(|half| half.iter().sum::<f64>() / half.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::Settling;
    use base::Rng;
    use rand::Rng as _;

    /// Adds one bin a second until the collection is over. Returns it, and the mean of the bins that count.
    fn settle(most: usize, of: impl Fn(f64) -> f64) -> (Settling, f64) {
        let mut settling = Settling::new(60, most, 1.0);
        let mut bins = Vec::new();
        loop {
            bins.push(of(bins.len() as f64));
            if settling.add(bins[bins.len() - 1]) {
                break;
            }
        }
        let counted = &bins[settling.warm_up()..];
        (settling, counted.iter().sum::<f64>() / counted.len() as f64)
    }

    /// Random calls at 270 a second differ by about 16 from one second to the next.
    #[test]
    fn a_constant_is_mostly_stationary_at_the_second_test() {
        let mut lengths = Vec::new();
        for seed in 0..100 {
            let mut rng = Rng::from_seed(seed);
            let noise: Vec<f64> = (0..1_000).map(|_| rng.random_range(-28.0..28.0)).collect();
            let (settling, mean) = settle(1_000, |at| 270.0 + noise[at as usize]);
            assert!(settling.is_stationary() && (mean - 270.0).abs() < 15.0, "{mean}");
            lengths.push(settling.len());
        }
        let soon = lengths.iter().filter(|length| **length == 120).count();
        assert!(soon >= 90, "{lengths:?}");
    }

    /// A mean over a fixed minute after forty seconds would give 7, 30 and 48 instead of 0, for time constants of 30,
    /// 100 and 300 s.
    #[test]
    fn a_decay_counts_only_after_its_end() {
        for time in [10.0, 30.0, 100.0, 300.0, 60.0 * Settling::SLOWEST - 50.0] {
            let (settling, mean) = settle(100_000, |at| 60.0 * (-at / time).exp());
            assert!(settling.is_stationary());
            assert!(mean < 3.0, "{mean} of a time of {time} s");
        }
        // Decay to a level other than zero.
        let (_, mean) = settle(100_000, |at| 89.0 + 60.0 * (-at / 200.0).exp());
        assert!((mean / 89.0 - 1.0).abs() < 0.02, "{mean}");
    }

    /// A decay slower than [`Settling::SLOWEST`] is taken for constant.
    #[test]
    fn a_decay_slower_than_the_limit_is_not_detected() {
        let time = 60.0 * Settling::SLOWEST + 150.0;
        let (settling, mean) = settle(100_000, |at| 60.0 * (-at / time).exp());
        assert!(settling.is_stationary() && mean > 30.0, "{mean}");
    }

    #[test]
    fn a_lasting_change_is_not_stationary() {
        let (settling, _) = settle(2_000, |at| at);
        assert!(!settling.is_stationary());
        assert_eq!((settling.len(), settling.warm_up()), (2_000, 1_000));
    }
}
