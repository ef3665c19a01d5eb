//! Utilisation of the process: the share of the available processor time that its work takes. Available is one
//! processor for each shard thread, but no more than exist and than the quota of the control groups allows. Instead of
//! these, a model of a processor can be used.
//!
//! Processor time alone does not follow the load. A message costs several times as much if it wakes a sleeping thread
//! as if it is read with many others. A process that has used all its time may therefore still be able to carry twice
//! as many calls. So the work is counted and multiplied by the price that [`Prices`] finds, as if the process never
//! slept.

mod prices;
mod quota;
mod work;

use base::Instant;
use core::time::Duration;
use prices::Prices;
use quota::{Quota, quotas};
use rustix::time::ClockId;
pub(crate) use work::ThreadWork;
use work::time_of;

/// A model of a processor, for several servers in one process, whose measured times would be mixed. The same work takes
/// the same share on any machine. For a server with one thread.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ModelProcessor {
    /// Steps a second. A message that is read is one step, and so is a transaction that is created. A proxied call of
    /// seven messages also creates four transactions. Their sum is near the measurement (docs/evidence/chain.md).
    pub steps_per_second: f64,
}

impl ModelProcessor {
    /// Returns the share of a period of this length that the work takes.
    fn busy(self, work: ThreadWork, length: Duration) -> f64 {
        (work.read + work.transactions) as f64 / (self.steps_per_second * length.as_secs_f64())
    }
}

/// Measures the utilisation once a period.
pub(crate) struct Meter {
    /// Length of a period, which is the period of [`node::Distribution`].
    every: Duration,
    threads: f64,
    model: Option<ModelProcessor>,
    since: Instant,
    work: ThreadWork,
    prices: Prices,
}

impl Meter {
    /// Starts a meter for a process with `threads` shards, of which the shard of this thread has done `work` so far.
    /// With `model`, the process must have one shard.
    pub(crate) fn new(
        now: Instant,
        every: Duration,
        threads: usize,
        model: Option<ModelProcessor>,
        work: ThreadWork,
    ) -> Self {
        let there = std::thread::available_parallelism().map_or(threads, usize::from);
        Self { every, threads: threads.min(there) as f64, model, since: now, work, prices: Prices::default() }
    }

    /// Changes the length of a period. The prices are kept.
    pub(crate) fn take_every(&mut self, every: Duration) {
        self.every = every;
    }

    /// Returns the end of the present period.
    pub(crate) fn deadline(&self) -> Instant {
        self.since + self.every
    }

    /// Ends a period that is over. Returns its length, and the share of the processors from 0 to 1 that its work takes
    /// without sleeps. `work` returns the work of this thread so far. `all` adds the other threads' work of their last
    /// period to this thread's work of this period.
    pub(crate) fn period(
        &mut self,
        now: Instant,
        work: impl FnOnce() -> ThreadWork,
        all: impl FnOnce(ThreadWork) -> ThreadWork,
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

    /// Returns the processors that the process may use, or this thread if it has its own control group.
    fn processors(&self) -> f64 {
        // Quotas may change, and a thread may be moved to another group. Without /proc the quota is unknown.
        let quotas = quotas().unwrap_or_default();
        quotas.iter().filter_map(Quota::processors).fold(self.threads, f64::min)
    }
}

/// Returns the processor time of all threads so far, in user mode and in the kernel.
pub fn processor_time() -> Duration {
    time_of(ClockId::ProcessCPUTime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_reported_once() {
        let second = Duration::from_secs(1);
        let mut meter = Meter::new(Instant::ZERO, second, 2, None, ThreadWork::default());
        let mut period = |millis| meter.period(Instant::from_millis(millis), ThreadWork::default, |own| own);
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
        let work = |read, transactions| ThreadWork { read, transactions, sent: 7, ..ThreadWork::default() };
        let second = Duration::from_secs(1);
        let mut meter = Meter::new(Instant::ZERO, second, 1, Some(model), work(1_000, 0));
        let mut used = |second: u64, work: ThreadWork| {
            let now = Instant::from_millis(1_000 * second);
            let (_, used) = meter.period(now, || work, |own| own).expect("the period is over");
            (used * 100.0).round() as u32
        };
        assert_eq!(used(1, work(1_060, 40)), 50);
        assert_eq!(used(3, work(1_160, 40)), 25, "in two seconds");
        assert_eq!(used(4, work(9_000, 40)), 100, "at most all processor time");
    }
}
