//! When a run has settled: how long its warm-up must be is found out, not guessed.

/// Part of the mean by which two means of a stationary stretch may differ.
const PART: f64 = 0.05;

/// Takes in a quantity bin by bin until it is stationary, or until there is no more patience.
///
/// A test is made each time the number of bins has doubled. The first half of the bins is warm-up and left out. A
/// test is passed when the means of both halves of the rest differ by no more than a twentieth, or by no more than
/// what does not matter. The quantity is stationary when two tests in a row are passed and their means agree as well.
///
/// A decay that is too slow for the first test is found by the second one, or once it has gone on for longer: time
/// constants up to [`SLOWEST`](Self::SLOWEST) times the bins before the first test. A slower decay is not seen, and
/// no test of what has been seen can tell what changes afterwards, such as a network that collapses by chance after
/// hours.
///
/// Source: the doubling of run lengths until means agree follows Law and Carson, A sequential procedure for
/// determining the length of a steady-state simulation, Operations Research 27, 1979.
#[derive(Clone, Debug)]
pub struct Settling {
    bins: Vec<f64>,
    /// Bins at the next test.
    next: usize,
    most: usize,
    matters: f64,
    /// Mean of the bins that counted in the last test, if it was passed.
    passed: Option<f64>,
    is_stationary: bool,
}

impl Settling {
    /// The greatest time constant of a decay that is found, in lengths L of the first test. The bins that count in
    /// the first test lie from L / 2 to L, those of the second one from L to 2 L: of a time constant T their means
    /// differ by 0.75 L / T.
    pub const SLOWEST: f64 = 0.75 / PART;

    /// The first test is after `least` bins, the last one after `most` at the latest. Differences up to `matters` do
    /// not matter, whatever the mean is.
    ///
    /// # Panics
    /// When `least` is below four bins: both halves of a half need one.
    pub fn new(least: usize, most: usize, matters: f64) -> Self {
        assert!(least >= 4, "a test needs four bins at least, and it got {least}");
        let most = most.max(least);
        Self { bins: Vec::new(), next: least, most, matters, passed: None, is_stationary: false }
    }

    /// Takes in a bin. Whether nothing more is wanted: it is stationary, or has run for as long as it may.
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

    /// Whether two means differ by no more than they may.
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

    /// How many bins were taken in.
    pub fn len(&self) -> usize {
        self.bins.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.bins.is_empty()
    }

    /// How many bins are to be left out.
    pub fn warm_up(&self) -> usize {
        self.bins.len() / 2
    }

    /// Means of the third and the last quarter.
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

    /// Feeds one bin a second until it is over; what it says then, and the mean of what it lets count.
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

    /// Calls that come at random, 270 a second, differ by some 16 from one second to the next.
    #[test]
    fn what_does_not_change_is_mostly_stationary_at_the_second_test() {
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

    /// A minute after forty seconds would show 7, 30 and 48 as what lasts, of a time of 300 s.
    #[test]
    fn what_decays_counts_only_once_it_has_decayed() {
        for time in [10.0, 30.0, 100.0, 300.0, 60.0 * Settling::SLOWEST - 50.0] {
            let (settling, mean) = settle(100_000, |at| 60.0 * (-at / time).exp());
            assert!(settling.is_stationary());
            assert!(mean < 3.0, "{mean} of a time of {time} s");
        }
        // To a level that is not zero.
        let (_, mean) = settle(100_000, |at| 89.0 + 60.0 * (-at / 200.0).exp());
        assert!((mean / 89.0 - 1.0).abs() < 0.02, "{mean}");
    }

    /// What the limit means: slower than that, and it is taken for constant.
    #[test]
    fn what_decays_more_slowly_than_the_limit_is_not_seen() {
        let time = 60.0 * Settling::SLOWEST + 150.0;
        let (settling, mean) = settle(100_000, |at| 60.0 * (-at / time).exp());
        assert!(settling.is_stationary() && mean > 30.0, "{mean}");
    }

    #[test]
    fn what_goes_on_to_change_is_not_called_stationary() {
        let (settling, _) = settle(2_000, |at| at);
        assert!(!settling.is_stationary());
        assert_eq!((settling.len(), settling.warm_up()), (2_000, 1_000));
    }
}
