//! Limit of the time that a host spends on refusals.

use crate::Tier;
use base::Instant;
use core::time::Duration;

/// Share of a host's time spent on refusing requests. Above [`Refusing::MOST`], refusals leave too little time for
/// accepted requests. A new request is then dropped and not refused, which takes less time. Even reading such requests
/// takes time, so the host lets the kernel drop some of them unread ([`pass`](Self::pass)).
///
/// A dropped request comes back up to six times (RFC 3261 §17.1.1.2), so refusing is better as long as there is time
/// for it.
#[derive(Clone, Debug, Default)]
pub struct Refusing {
    since: Instant,
    spent: Duration,
    share: f64,
    /// New requests read in this window, and those of them that were dropped.
    read: usize,
    dropped: usize,
    /// Busy time of the host up to this window.
    busy_before: Duration,
    /// The same requests a second, and the share of busy time, over about the last 500 ms.
    reads: f64,
    drops: f64,
    busy: f64,
    /// New requests a second that arrive, also those that the kernel drops.
    offered: f64,
    /// Share of new requests to read; `None`: all.
    pass: Option<f64>,
}

/// Length of a window: short compared with T1, and as long as some hundred refusals.
const WINDOW: Duration = Duration::from_millis(50);
/// Weight of a new window. Averages cover about the last 500 ms, so that a burst of refusals does not cause drops.
const WEIGHT: f64 = 0.1;
/// Share of dropped requests among the new ones that are read from which the kernel drops requests. To read and drop a
/// message takes about a quarter of the time of a served message.
const DROPPED_MOST: f64 = 0.2;
/// Requests that the kernel passes, in terms of those that the host takes. A few more come than it takes, since the
/// number is only known while some are dropped.
const PASSED: f64 = 1.1;
/// Least share of new requests that the kernel passes.
const PASS_MIN: f64 = 1.0 / 256.0;

impl Refusing {
    /// Largest share for refusals of requests without priority. The rest serves accepted requests.
    pub const MOST: f64 = 0.125;
    /// Largest share for refusals of all requests. Requests with priority may also be the flood of an outsider.
    pub const MOST_WITH_PRIORITY: f64 = 0.5;

    /// Adds time spent on a refusal that ended now.
    pub fn on_refused(&mut self, spent: Duration) {
        self.spent += spent;
    }

    /// Whether one more request of this tier is refused, and not dropped.
    pub fn may_refuse(&self, tier: Tier) -> bool {
        self.share <= if tier == Tier::First { Self::MOST } else { Self::MOST_WITH_PRIORITY }
    }

    /// Counts a new request that was read.
    pub fn on_read(&mut self) {
        self.read += 1;
    }

    /// Counts a new request that was read and then dropped.
    pub fn on_dropped(&mut self) {
        self.dropped += 1;
    }

    /// Share of the time, 0 to 1.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Share of new requests without priority that the host should read, 0 to 1.
    pub fn pass(&self) -> f64 {
        self.pass.unwrap_or(1.0)
    }

    /// Time at which [`roll`](Self::roll) changes the share of requests to read; `None` while all are read.
    pub fn deadline(&self) -> Option<Instant> {
        self.pass.map(|_| self.since + WINDOW)
    }

    /// Ends the present window if it is over, in which the kernel passed this share of new requests. `busy` is the
    /// host's busy time so far.
    pub fn roll(&mut self, now: Instant, passed: f64, busy: Duration) {
        let length = now.saturating_since(self.since);
        if length < WINDOW {
            return;
        }
        // After 100 windows the averages are those of the last one.
        let windows = (length.as_secs_f64() / WINDOW.as_secs_f64()).min(100.0);
        let weight = 1.0 - (1.0 - WEIGHT).powf(windows);
        let average = |value: &mut f64, new: f64| *value += (new / length.as_secs_f64() - *value) * weight;
        average(&mut self.share, self.spent.min(length).as_secs_f64());
        average(&mut self.busy, busy.saturating_sub(self.busy_before).min(length).as_secs_f64());
        average(&mut self.reads, self.read as f64);
        average(&mut self.drops, self.dropped as f64);
        average(&mut self.offered, self.read as f64 / passed);
        if self.pass.is_some() || self.drops > DROPPED_MOST * self.reads {
            // A host that is not always busy can take more than it does.
            let takes = (self.reads - self.drops) / self.busy.max(0.1);
            let pass = (PASSED * takes / self.offered.max(1.0)).max(PASS_MIN);
            self.pass = (pass < 1.0 || passed < 1.0).then_some(pass.min(1.0));
        }
        (self.since, self.busy_before) = (now, busy);
        (self.spent, self.read, self.dropped) = (Duration::ZERO, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host that serves 1,000 requests a second, and refuses each further one in 100 us.
    #[derive(Default)]
    struct Host {
        refusing: Refusing,
        now: Instant,
        busy: Duration,
    }

    impl Host {
        /// Offers this many requests a second for some windows. Returns the shares that the kernel passed, and the share
        /// of the time spent on refusals.
        fn offer(&mut self, a_second: f64, windows: usize) -> (Vec<f64>, f64) {
            let mut refused = Duration::ZERO;
            let passes = (0..windows).map(|_| {
                let passed = self.refusing.pass();
                for number in 0..(a_second * passed * WINDOW.as_secs_f64()) as usize {
                    self.refusing.on_read();
                    if number < 50 {
                        self.busy += Duration::from_millis(1);
                    } else if self.refusing.may_refuse(Tier::First) {
                        refused += Duration::from_micros(100);
                        self.refusing.on_refused(Duration::from_micros(100));
                    } else {
                        self.refusing.on_dropped();
                    }
                }
                self.now += WINDOW;
                self.refusing.roll(self.now, passed, self.busy);
                self.refusing.pass()
            });
            let passes = passes.collect();
            (passes, refused.as_secs_f64() / (windows as f64 * WINDOW.as_secs_f64()))
        }
    }

    #[test]
    fn refusals_take_their_share_of_the_time_and_the_kernel_passes_what_the_host_takes() {
        let mut host = Host::default();
        for load in [5_000.0, 20_000.0, 5_000.0] {
            host.offer(load, 100);
            let (passes, refusing) = host.offer(load, 200);
            assert!((0.7..1.1).contains(&(refusing / Refusing::MOST)), "{refusing} at {load}");
            // It takes 1,000, and refuses 1,250.
            let least = passes.iter().copied().fold(1.0, f64::min) * load / 2_250.0;
            let most = passes.iter().copied().fold(0.0, f64::max) * load / 2_250.0;
            assert!(0.8 < least && most < 1.4, "{least} to {most} at {load}");
        }
        let (passes, _) = host.offer(800.0, 40);
        assert!(passes[39] >= 1.0, "{passes:?}");
        assert_eq!(host.refusing.deadline(), None);
    }

    #[test]
    fn few_refusals_are_all_sent_and_a_pause_resets_the_share() {
        let mut host = Host::default();
        let (passes, refusing) = host.offer(2_000.0, 200);
        assert!(passes.iter().all(|passed| *passed >= 1.0) && (refusing - 0.1).abs() < 0.01, "{refusing}");
        host.offer(20_000.0, 10);
        assert!(!host.refusing.may_refuse(Tier::First));
        host.refusing.roll(host.now + Duration::from_secs(2), 1.0, host.busy);
        assert!(host.refusing.may_refuse(Tier::First), "{}", host.refusing.share());
    }
}
