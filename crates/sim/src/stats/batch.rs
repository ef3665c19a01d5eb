use super::{Confidence, Interval, Moments};

/// The mean of a long correlated series (waiting times, say) by batch means: the first part is thrown away as warm-up,
/// the rest cut into batches so long that their means are all but independent.
///
/// The caller chooses the length; it should span many times what the system needs to forget.
#[derive(Clone, Debug)]
pub struct BatchMeans {
    skip: u64,
    length: u64,
    batch: Moments,
    means: Moments,
}

impl BatchMeans {
    /// Skips the first `skip` numbers, then makes batches of `length`.
    ///
    /// # Panics
    /// When a batch has no length.
    pub fn new(skip: u64, length: u64) -> Self {
        assert!(length > 0, "a batch needs a length");
        Self { skip, length, batch: Moments::default(), means: Moments::default() }
    }

    /// Takes a number in.
    pub fn add(&mut self, value: f64) {
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        self.batch.add(value);
        if self.batch.count() == self.length {
            self.means.add(self.batch.mean());
            self.batch = Moments::default();
        }
    }

    /// The means of the batches that are full.
    pub fn means(&self) -> &Moments {
        &self.means
    }

    /// The interval of the mean; a batch that is not full does not count.
    pub fn interval(&self, confidence: Confidence) -> Interval {
        Interval::of(&self.means, confidence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_and_the_last_part_of_a_batch_do_not_count() {
        let mut means = BatchMeans::new(2, 3);
        for value in [100.0, 100.0, 1.0, 2.0, 3.0, 5.0, 6.0, 7.0, 100.0] {
            means.add(value);
        }
        assert_eq!((means.means().count(), means.interval(Confidence::P95).mean), (2, 4.0));
    }
}
