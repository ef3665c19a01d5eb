//! The P² algorithm: a quantile of observations that are not kept.
//!
//! R. Jain and I. Chlamtac, "The P² Algorithm for Dynamic Calculation of Quantiles and Histograms Without Storing
//! Observations", Communications of the ACM 28(10), 1985, pages 1076 to 1085, box 1. The letters are those of the
//! paper.

/// Number of markers: the minimum, the quantile, the maximum, and one half-way to each of the two.
const MARKERS: usize = 5;

/// An estimate of the `p`-quantile.
#[derive(Clone, Debug)]
pub struct P2 {
    p: f64,
    /// Heights of the markers; with fewer than five observations, the observations, sorted.
    q: [f64; MARKERS],
    /// Positions of the markers, from 1 to the number of observations: how many observations are at most as high.
    n: [u64; MARKERS],
    /// Desired positions of the markers.
    desired: [f64; MARKERS],
    /// Increments of the desired positions for each observation.
    increment: [f64; MARKERS],
    count: u64,
}

impl P2 {
    /// An estimator of the quantile `p`, between 0 and 1.
    pub fn new(p: f64) -> Self {
        Self {
            p,
            q: [0.0; MARKERS],
            n: [1, 2, 3, 4, 5],
            desired: [1.0, 1.0 + 2.0 * p, 1.0 + 4.0 * p, 3.0 + 2.0 * p, 5.0],
            increment: [0.0, p / 2.0, p, f64::midpoint(1.0, p), 1.0],
            count: 0,
        }
    }

    /// Adds an observation.
    pub fn note(&mut self, x: f64) {
        self.count += 1;
        if self.count <= MARKERS as u64 {
            self.begin(x);
            return;
        }
        // B1: the cell of the observation, between markers k and k + 1.
        let k = if x < self.q[0] {
            self.q[0] = x;
            0
        } else if x >= self.q[4] {
            self.q[4] = self.q[4].max(x);
            3
        } else {
            (1..=3).rev().find(|&k| x >= self.q[k]).unwrap_or(0)
        };
        // B2: markers above it move up by one, and all desired positions by their increments.
        for n in &mut self.n[k + 1..] {
            *n += 1;
        }
        for (desired, increment) in self.desired.iter_mut().zip(self.increment) {
            *desired += increment;
        }
        // B3.
        for i in 1..=3 {
            self.adjust(i);
        }
    }

    /// A: the first five observations, sorted, are the heights.
    fn begin(&mut self, x: f64) {
        let mut at = self.count as usize - 1;
        while at > 0 && self.q[at - 1] > x {
            self.q[at] = self.q[at - 1];
            at -= 1;
        }
        self.q[at] = x;
    }

    /// Moves marker `i` by one place towards its desired position, if it is off by one or more and there is room.
    fn adjust(&mut self, i: usize) {
        let off = self.desired[i] - self.n[i] as f64;
        let up = off >= 1.0 && self.n[i + 1] > self.n[i] + 1;
        let down = off <= -1.0 && self.n[i - 1] + 1 < self.n[i];
        if !up && !down {
            return;
        }
        let d = if up { 1.0 } else { -1.0 };
        let height = self.parabolic(i, d);
        let between = self.q[i - 1] < height && height < self.q[i + 1];
        self.q[i] = if between { height } else { self.linear(i, up) };
        self.n[i] = if up { self.n[i] + 1 } else { self.n[i] - 1 };
    }

    /// The piecewise-parabolic prediction, after which the algorithm is named.
    fn parabolic(&self, i: usize, d: f64) -> f64 {
        let [below, here, above] = [self.n[i - 1] as f64, self.n[i] as f64, self.n[i + 1] as f64];
        let [low, height, high] = [self.q[i - 1], self.q[i], self.q[i + 1]];
        let rise = (here - below + d) * (high - height) / (above - here);
        let fall = (above - here - d) * (height - low) / (here - below);
        height + d / (above - below) * (rise + fall)
    }

    fn linear(&self, i: usize, up: bool) -> f64 {
        let to = if up { i + 1 } else { i - 1 };
        let places = self.n[to] as f64 - self.n[i] as f64;
        let d = if up { 1.0 } else { -1.0 };
        self.q[i] + d * (self.q[to] - self.q[i]) / places
    }

    /// Returns the quantile; exact, by nearest rank, up to five observations. `None` without any.
    pub fn estimate(&self) -> Option<f64> {
        if self.count > MARKERS as u64 {
            return Some(self.q[2]);
        }
        let rank = (self.p * self.count as f64).ceil() as usize;
        (self.count > 0).then(|| self.q[rank.max(1) - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Table I of the paper, except for the second observation, which is misprinted there as 0.5: the heights in the
    /// table follow from 0.15.
    const OBSERVATIONS: [f64; 20] = [
        0.02, 0.15, 0.74, 3.39, 0.83, 22.37, 10.15, 15.43, 38.62, 15.92, 34.60, 10.28, 1.47, 0.40, 0.05,
        11.39, 0.27, 0.42, 0.09, 11.37,
    ];

    #[test]
    fn the_papers_example_step_by_step() {
        let mut median = P2::new(0.5);
        let mut seen = Vec::new();
        for x in OBSERVATIONS {
            median.note(x);
            seen.push(median.q[2]);
        }
        // The third marker, from the fifth observation on.
        let third =
            [0.74, 0.74, 0.74, 2.18, 4.75, 4.75, 9.27, 9.27, 9.27, 9.27, 6.30, 6.30, 6.30, 6.30, 4.44, 4.44];
        for (number, (seen, table)) in (5..).zip(seen[4..].iter().zip(third)) {
            assert!((seen - table).abs() < 0.005, "observation {number}: {seen}, the table has {table}");
        }
        assert_eq!(median.n, [1, 6, 10, 16, 20]);
        for (height, table) in median.q.iter().zip([0.02, 0.493_895, 4.440_63, 17.203_9, 38.62]) {
            assert!((height - table).abs() < 1e-4, "{:?}", median.q);
        }
    }

    #[test]
    fn few_observations_are_exact() {
        let mut median = P2::new(0.5);
        assert_eq!(median.estimate(), None);
        for (x, expected) in [(9.0, 9.0), (1.0, 1.0), (5.0, 5.0), (7.0, 5.0), (6.0, 6.0)] {
            median.note(x);
            assert_eq!(median.estimate(), Some(expected));
        }
    }

    /// The share of `values` below `x`, and at most `x`.
    fn ranks(values: &[f64], x: f64) -> (f64, f64) {
        let share = |count: usize| count as f64 / values.len() as f64;
        (
            share(values.iter().filter(|&&value| value < x).count()),
            share(values.iter().filter(|&&value| value <= x).count()),
        )
    }

    proptest! {
        #[test]
        fn markers_stay_in_order_and_between_the_extremes(values in prop::collection::vec(0..1_000_u32, 5..300)) {
            let mut estimator = P2::new(0.5);
            for value in &values {
                estimator.note(f64::from(*value));
            }
            prop_assert!(estimator.q.is_sorted(), "{:?}", estimator.q);
            prop_assert!(estimator.n.is_sorted_by(|a, b| a < b), "{:?}", estimator.n);
            prop_assert_eq!(estimator.n[4], values.len() as u64);
            prop_assert_eq!(Some(estimator.q[0] as u32), values.iter().min().copied());
            prop_assert_eq!(Some(estimator.q[4] as u32), values.iter().max().copied());
        }

        /// For independent observations whose distribution is skewed to either side, over two decades. Over eight
        /// decades the error is up to a sixth of all observations.
        #[test]
        fn the_estimate_is_near_the_exact_quantile(seed in any::<u64>(), power in -1..4_i32, p in 0.3..0.7_f64) {
            use base::Rng;
            let mut rng = Rng::from_seed(seed);
            let mut estimator = P2::new(p);
            let values: Vec<f64> =
                (0..2_000).map(|_| ((next(&mut rng) + 0.01).powi(power) * 1e6).round()).collect();
            for value in &values {
                estimator.note(*value);
            }
            let (below, up_to) = ranks(&values, estimator.estimate().expect("there are observations"));
            prop_assert!(below <= p + 0.05 && up_to >= p - 0.05, "{below} to {up_to} for {p}");
        }
    }

    /// Returns the next number of a generator, from 0 to 1.
    fn next(rng: &mut base::Rng) -> f64 {
        use rand::RngCore as _;
        rng.next_u64() as f64 / u64::MAX as f64
    }
}
