//! Virtual processor of an answerer, which determines its speed.
use base::{INVITE_WORK, Instant, Rng};
use core::time::Duration;
use rand_distr::{Distribution, Exp1};
use std::collections::VecDeque;
use wire::Method;

/// Service times of requests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ServiceModel {
    /// Time of one unit of work; at zero, requests are served at once. An INVITE takes [`INVITE_WORK`] units, every
    /// other request takes one unit. ACKs and retransmissions take no time.
    pub service_per_work: Duration,
    /// Whether service times are drawn from an exponential distribution. Its mean is the time of the request's work.
    pub exponential: bool,
    /// Factor on all service times: with 2 the server is half as fast.
    pub slowdown: f64,
    /// Maximum number of requests that wait or are served; further requests are dropped without a response. `None`: no
    /// limit.
    pub queue_max: Option<usize>,
}

impl Default for ServiceModel {
    /// Serves requests at once.
    fn default() -> Self {
        Self { service_per_work: Duration::ZERO, exponential: false, slowdown: 1.0, queue_max: None }
    }
}

/// A single first-in first-out server. `T` is the action after the work.
#[derive(Debug)]
pub(crate) struct Processor<T> {
    model: ServiceModel,
    rng: Rng,
    free_at: Instant,
    queue: VecDeque<(Instant, T)>,
}

impl<T> Processor<T> {
    pub(crate) fn new(model: ServiceModel, rng: Rng) -> Self {
        Self { model, rng, free_at: Instant::ZERO, queue: VecDeque::new() }
    }

    /// Whether a further request would be dropped.
    pub(crate) fn is_full(&self) -> bool {
        self.model.queue_max.is_some_and(|max| self.queue.len() >= max)
    }

    /// Queues a request. Without service time it is done at `now`.
    pub(crate) fn push(&mut self, now: Instant, method: Method, job: T) {
        let work = if method == Method::Invite { INVITE_WORK } else { 1.0 };
        let mut seconds = self.model.service_per_work.as_secs_f64() * work * self.model.slowdown;
        if self.model.exponential {
            seconds *= Distribution::<f64>::sample(&Exp1, &mut self.rng);
        }
        let service = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
        self.free_at = self.free_at.max(now) + service;
        self.queue.push_back((self.free_at, job));
    }

    /// Removes the next request whose work is done by `now`. Returns it with the instant at which the work was done.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(Instant, T)> {
        self.deadline().filter(|&done| done <= now)?;
        self.queue.pop_front()
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.queue.front().map(|&(done, _)| done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: Duration = Duration::from_millis(4);

    fn processor(model: ServiceModel) -> Processor<usize> {
        Processor::new(model, Rng::from_seed(1))
    }

    #[test]
    fn requests_are_served_one_after_another_by_their_work() {
        let mut cpu = processor(ServiceModel { service_per_work: UNIT, slowdown: 2.0, ..Default::default() });
        cpu.push(Instant::from_millis(100), Method::Invite, 0);
        cpu.push(Instant::from_millis(101), Method::Bye, 1);
        cpu.push(Instant::from_millis(200), Method::Options, 2);
        assert_eq!(cpu.pop(Instant::from_millis(113)), None);
        assert_eq!(cpu.deadline(), Some(Instant::from_millis(114)));
        let late = Instant::from_millis(1_000);
        assert_eq!(cpu.pop(late), Some((Instant::from_millis(114), 0)));
        assert_eq!(cpu.pop(late), Some((Instant::from_millis(122), 1)));
        assert_eq!(cpu.pop(late), Some((Instant::from_millis(208), 2)));
    }

    #[test]
    fn a_bounded_queue_fills_and_empties() {
        let model = ServiceModel { service_per_work: UNIT, queue_max: Some(2), ..Default::default() };
        let mut cpu = processor(model);
        for n in 0..2 {
            assert!(!cpu.is_full());
            cpu.push(Instant::ZERO, Method::Bye, n);
        }
        assert!(cpu.is_full());
        cpu.pop(Instant::from_millis(4));
        assert!(!cpu.is_full());
    }

    #[test]
    fn exponential_service_keeps_the_mean() {
        let mut cpu =
            processor(ServiceModel { service_per_work: UNIT, exponential: true, ..Default::default() });
        for n in 0..100_000 {
            cpu.push(Instant::ZERO, Method::Bye, n);
        }
        // All start together, so the last one is done after the sum of all service times.
        let mean_ms = cpu.free_at.as_secs_f64() * 1e3 / 1e5;
        assert!((mean_ms - 4.0).abs() < 0.05, "{mean_ms}");
    }
}
