//! How busy the process is: what its work takes of the processors, as part of what it may use. That is a processor for
//! each thread of a shard, and no more than there are, and than the quota of its control groups. Or how busy it would be
//! on a processor that is a model.
//!
//! Processor time alone does not follow the load: a message costs several times as much when it wakes a thread that
//! sleeps as when it is read with many others, so that a process that has used all its time may still carry twice as
//! many calls. So the work is counted, and its price is what [`Prices`] finds: what a process would need that never
//! sleeps.

mod prices;
mod quota;
mod work;

use base::Instant;
use core::time::Duration;
use prices::Prices;
use quota::{Quota, quotas};
use rustix::time::ClockId;
pub(crate) use work::Work;
use work::time_of;

/// A processor that is a model, for several servers in one process, which measured time would not tell apart: the
/// same work takes as much of it on any machine. For a server with one thread.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ModelProcessor {
    /// Steps a second that it can do. A message that is read is one, and so is a transaction that is made: a proxied
    /// call of seven messages has four, which is near to what is measured (docs/state-distribution.md).
    pub steps_per_second: f64,
}

impl ModelProcessor {
    /// The part of its time that work takes in a period of this length.
    fn busy(self, work: Work, length: Duration) -> f64 {
        (work.read + work.transactions) as f64 / (self.steps_per_second * length.as_secs_f64())
    }
}

/// Takes the figure once a period.
pub(crate) struct Meter {
    /// How often the figure is taken: the period of [`node::Distribution`].
    every: Duration,
    threads: f64,
    model: Option<ModelProcessor>,
    since: Instant,
    work: Work,
    prices: Prices,
}

impl Meter {
    /// From now on, for a process with so many shards, of which this thread's has done this work so far; or for its only one,
    /// on a model.
    pub(crate) fn new(
        now: Instant,
        every: Duration,
        threads: usize,
        model: Option<ModelProcessor>,
        work: Work,
    ) -> Self {
        let there = std::thread::available_parallelism().map_or(threads, usize::from);
        Self { every, threads: threads.min(there) as f64, model, since: now, work, prices: Prices::default() }
    }

    /// From now on the figure is taken so often. What is known of prices stays.
    pub(crate) fn take_every(&mut self, every: Duration) {
        self.every = every;
    }

    /// When the period is over.
    pub(crate) fn deadline(&self) -> Instant {
        self.since + self.every
    }

    /// The length of the period that is over, and the part of the processors that its work takes where nothing sleeps,
    /// from 0 to 1. `work` is what this thread has done so far; `all` adds to what it has done in this period what the others
    /// have in theirs.
    pub(crate) fn period(
        &mut self,
        now: Instant,
        work: impl FnOnce() -> Work,
        all: impl FnOnce(Work) -> Work,
    ) -> Option<(Duration, f64)> {
        if now < self.deadline() {
            return None;
        }
        let (length, before) = (now.saturating_since(self.since), self.work);
        (self.since, self.work) = (now, work());
        let done = all(self.work.since(before));
        let busy = match self.model {
            Some(model) => model.busy(done, length),
            None => self.prices.busy(done, length, self.processors()),
        };
        Some((length, busy.min(1.0)))
    }

    /// How many the process may use, or this thread where it has a control group of its own.
    fn processors(&self) -> f64 {
        // A quota may be changed at any time, and a thread moved. Without /proc there is none to be known.
        let quotas = quotas().unwrap_or_default();
        quotas.iter().filter_map(Quota::processors).fold(self.threads, f64::min)
    }
}

/// The processor time of all threads so far, the kernel's included.
pub fn processor_time() -> Duration {
    time_of(ClockId::ProcessCPUTime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_told_once() {
        let second = Duration::from_secs(1);
        let mut meter = Meter::new(Instant::ZERO, second, 2, None, Work::default());
        let mut period = |millis| meter.period(Instant::from_millis(millis), Work::default, |own| own);
        assert_eq!(period(999), None);
        assert_eq!(period(1_500), Some((Duration::from_millis(1_500), 0.0)));
        assert_eq!(period(2_000), None);
        assert_eq!(meter.deadline(), Instant::from_millis(2_500));
        meter.take_every(Duration::from_millis(250));
        assert_eq!(meter.deadline(), Instant::from_millis(1_750), "after a reload");
    }

    #[test]
    fn on_a_model_work_takes_its_time() {
        let model = ModelProcessor { steps_per_second: 200.0 };
        let work = |read, transactions| Work { read, transactions, sent: 7, ..Work::default() };
        let second = Duration::from_secs(1);
        let mut meter = Meter::new(Instant::ZERO, second, 1, Some(model), work(1_000, 0));
        let mut used = |second: u64, work: Work| {
            let now = Instant::from_millis(1_000 * second);
            let (_, used) = meter.period(now, || work, |own| own).expect("it is over");
            (used * 100.0).round() as u32
        };
        assert_eq!(used(1, work(1_060, 40)), 50);
        assert_eq!(used(3, work(1_160, 40)), 25, "in two seconds");
        assert_eq!(used(4, work(9_000, 40)), 100, "no more than all of it");
    }
}
