//! Expected wait of a message that arrives now, as a signal of load.

use crate::MessageClass;
use base::Instant;
use core::time::Duration;

/// Expected wait of a message that arrives now: queued messages times their mean service time, divided by the rate at
/// which the processor works.
///
/// The mean service time of each class is learned from served messages, and the rate from the work done while messages
/// waited. The rate is the number of workers less other use of the processor, mainly early rejections. At a load of ten
/// times the capacity, rejections take a large part of the processor, and the queue moves more slowly.
#[derive(Clone, Debug)]
pub struct Backlog {
    workers: f64,
    queued: [usize; MessageClass::ALL.len()],
    /// Mean service time of each class, in seconds.
    mean: [f64; MessageClass::ALL.len()],
    length: usize,
    rate: f64,
    window: Window,
}

#[derive(Clone, Debug, Default)]
struct Window {
    start: Instant,
    /// Start of the present time with waiting messages; `None` if no message waits.
    waiting_since: Option<Instant>,
    waited: Duration,
    served: Duration,
}

/// Length of a window: long enough for a hundred messages of 1 ms, and short compared with T1.
const WINDOW: Duration = Duration::from_millis(100);
/// Weight of a new window in the rate, so that the rate follows a step within half a second.
const RATE_WEIGHT: f64 = 0.3;
/// Weight of a new service time in the mean, so that the mean covers about the last hundred messages of a class.
const MEAN_WEIGHT: f64 = 0.02;
/// Smallest rate, as a share of the workers, so that a single stall does not count as a complete stop.
const RATE_MIN: f64 = 0.05;

impl Backlog {
    /// Creates a signal for a host with `workers` workers. Until they are measured, messages count as taking `mean`.
    pub fn new(workers: u32, mean: Duration) -> Self {
        let workers = f64::from(workers.max(1));
        Self {
            workers,
            queued: [0; MessageClass::ALL.len()],
            mean: [mean.as_secs_f64(); MessageClass::ALL.len()],
            length: 0,
            rate: workers,
            window: Window::default(),
        }
    }

    /// Counts a message that joins the queue.
    pub fn on_enqueue(&mut self, now: Instant, class: MessageClass) {
        self.queued[class as usize] += 1;
        self.length += 1;
        self.window.waiting_since.get_or_insert(now);
    }

    /// Counts a message that leaves the queue, to be served or dropped.
    pub fn on_dequeue(&mut self, now: Instant, class: MessageClass) {
        debug_assert!(self.queued[class as usize] > 0, "the message was queued");
        self.queued[class as usize] = self.queued[class as usize].saturating_sub(1);
        self.length = self.length.saturating_sub(1);
        if self.length == 0 {
            self.window.close(now);
        }
        self.roll(now);
    }

    /// Counts a message from the queue that took `service` of a worker's time.
    pub fn on_served(&mut self, class: MessageClass, service: Duration) {
        let mean = &mut self.mean[class as usize];
        *mean += MEAN_WEIGHT * (service.as_secs_f64() - *mean);
        self.window.served += service;
    }

    fn roll(&mut self, now: Instant) {
        if now.saturating_since(self.window.start) < WINDOW {
            return;
        }
        let still_waiting = self.window.waiting_since.is_some();
        self.window.close(now);
        let waited = self.window.waited.as_secs_f64();
        // In a window in which hardly any message waited, the work done does not show the rate.
        let measured = if waited >= WINDOW.as_secs_f64() / 2.0 {
            (self.window.served.as_secs_f64() / waited).clamp(RATE_MIN * self.workers, self.workers)
        } else {
            self.workers
        };
        self.rate += RATE_WEIGHT * (measured - self.rate);
        self.window = Window { start: now, waiting_since: still_waiting.then_some(now), ..Window::default() };
    }

    /// Number of waiting messages.
    pub const fn length(&self) -> usize {
        self.length
    }

    /// Wait behind all queued messages, if they are served in order of arrival.
    pub fn wait(&self) -> Duration {
        self.wait_behind(|_| true)
    }

    /// Wait of a message of this class if lanes are served in order ([`MessageClass::lane`]).
    pub fn wait_in_lane(&self, class: MessageClass) -> Duration {
        self.wait_behind(|other| other.lane() <= class.lane())
    }

    fn wait_behind(&self, ahead: impl Fn(MessageClass) -> bool) -> Duration {
        let work: f64 = MessageClass::ALL
            .iter()
            .filter(|&&class| ahead(class))
            .map(|&class| self.queued[class as usize] as f64 * self.mean[class as usize])
            .sum();
        Duration::from_secs_f64(work / self.rate)
    }
}

impl Window {
    fn close(&mut self, now: Instant) {
        if let Some(since) = self.waiting_since.take() {
            self.waited += now.saturating_since(since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn the_wait_is_the_work_ahead_over_the_workers() {
        let mut backlog = Backlog::new(2, MILLI);
        (0..30).for_each(|_| backlog.on_enqueue(Instant::ZERO, MessageClass::NewInvite));
        (0..10).for_each(|_| backlog.on_enqueue(Instant::ZERO, MessageClass::Response));
        assert_eq!(backlog.wait(), MILLI * 20);
        assert_eq!(backlog.wait_in_lane(MessageClass::Response), MILLI * 5);
        assert_eq!(backlog.length(), 40);
    }

    #[test]
    fn the_mean_and_the_rate_are_learned() {
        let mut backlog = Backlog::new(1, MILLI);
        // Each message takes 2 ms, and another 2 ms are spent on rejections: the queue moves at half speed.
        (0..1_001).for_each(|_| backlog.on_enqueue(Instant::ZERO, MessageClass::NewInvite));
        for served in 1..=1_000 {
            backlog.on_served(MessageClass::NewInvite, MILLI * 2);
            backlog.on_dequeue(Instant::from_millis(4 * served), MessageClass::NewInvite);
        }
        let wait = backlog.wait().as_secs_f64();
        assert!((wait - 0.004).abs() < 0.0002, "one message of 2 ms at half the speed: {wait}");
        backlog.on_dequeue(Instant::from_millis(4_001), MessageClass::NewInvite);
        // Half a minute of light traffic: the rate is that of one worker again.
        for at in 0..300 {
            backlog.on_enqueue(Instant::from_millis(5_000 + at * 100), MessageClass::NewInvite);
            backlog.on_dequeue(Instant::from_millis(5_001 + at * 100), MessageClass::NewInvite);
        }
        backlog.on_enqueue(Instant::from_millis(40_000), MessageClass::NewInvite);
        assert!(backlog.wait() < MILLI * 21 / 10);
    }
}
