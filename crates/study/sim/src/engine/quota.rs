//! A processor quota, as a control group gives it to its processes.

use base::Instant;
use core::time::Duration;

/// A part of each period (`cpu.max` of a control group, CFS bandwidth control of Linux). Services run at the speed of
/// the whole processor until the part is used up, and then wait for the next period. For a host with one worker.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QuotaConfig {
    /// Length of a period.
    pub period: Duration,
    /// Speed of the worker while it runs, relative to the base server.
    /// [`CpuConfig::capacity`](super::CpuConfig::capacity) is its mean speed over whole periods.
    pub processor: f64,
}

/// The rest of the period in which work was last done. Times are in nanoseconds.
#[derive(Debug)]
pub(super) struct Quota {
    /// Speed of the processor relative to the base server.
    processor: f64,
    period: u64,
    /// Processor time of each period.
    most: u64,
    /// Ratio of a service's processor time to its time at the mean speed, at most 1.
    share: f64,
    /// End of the period, and the time used in it.
    ends: u64,
    used: u64,
}

impl Quota {
    /// Returns the quota for services with this mean speed. The first period ends after `phase` of its length.
    pub(super) fn new(config: QuotaConfig, speed: f64, phase: f64) -> Self {
        let period = (config.period.as_nanos() as u64).max(1);
        let ends = (phase * period as f64) as u64;
        let mut quota = Self { processor: config.processor, period, most: 1, share: 1.0, ends, used: 0 };
        quota.set_speed(speed);
        quota
    }

    /// Sets the mean speed of services that start from now on.
    pub(super) fn set_speed(&mut self, speed: f64) {
        self.share = (speed / self.processor).min(1.0);
        self.most = ((self.share * self.period as f64) as u64).max(1);
    }

    /// Starts a service of this length at the mean speed. Returns its duration with the quota.
    pub(super) fn serve(&mut self, now: Instant, length: u64) -> u64 {
        let now = now.as_nanos();
        if now >= self.ends {
            self.ends += ((now - self.ends) / self.period + 1) * self.period;
            self.used = 0;
        }
        let mut left = (length as f64 * self.share).round() as u64;
        let room = self.most.saturating_sub(self.used).min(self.ends - now);
        let mut at = now;
        if left > room {
            left -= room;
            // All following periods except the last are used up.
            let whole = (left - 1) / self.most;
            left -= whole * self.most;
            at = self.ends + whole * self.period;
            self.ends = at + self.period;
            self.used = 0;
        }
        self.used += left;
        at + left - now
    }

    /// Stalls the host and its periods for this long.
    pub(super) fn stall(&mut self, more: Duration) {
        self.ends += more.as_nanos() as u64;
    }

    /// Drops the work in progress: the current period and later ones are unused.
    pub(super) fn reset(&mut self, now: Instant) {
        let ahead = self.ends.saturating_sub(now.as_nanos());
        self.ends -= ahead / self.period * self.period;
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(1_000 * us)
    }

    /// Returns a tenth of a processor in periods of 10 ms, the first of which ends at 5 ms.
    fn quota() -> Quota {
        let config = QuotaConfig { period: Duration::from_millis(10), processor: 10.0 };
        Quota::new(config, 1.0, 0.5)
    }

    #[test]
    fn work_runs_at_full_speed_until_the_part_is_used_up() {
        let mut quota = quota();
        // 6 ms at a tenth are 0.6 ms at full speed. The next 0.6 ms find 0.4 ms left, and the period ends at 5 ms.
        assert_eq!(quota.serve(at(0), 6 * MS), 6 * MS / 10);
        assert_eq!(quota.serve(at(1_000), 6 * MS), 4 * MS + 2 * MS / 10);
        assert_eq!(quota.serve(at(6_000), 8 * MS), 8 * MS / 10);
        // Unused time does not accumulate: 25 ms are 2.5 periods, of which the first ends at 105 ms.
        assert_eq!(quota.serve(at(100_000), 25 * MS), 15 * MS + 5 * MS / 10);
    }

    #[test]
    fn a_service_goes_on_from_one_period_to_the_next() {
        let mut quota = quota();
        // 0.3 ms before the end of a period and 0.7 ms after it; a period allows 1 ms.
        assert_eq!(quota.serve(at(4_700), 10 * MS), MS);
        assert_eq!(quota.serve(at(6_000), 3 * MS), 3 * MS / 10);
        assert_eq!(quota.serve(at(7_000), MS), 8 * MS + MS / 10);
    }

    #[test]
    fn over_long_all_work_takes_the_mean_speed() {
        let (mut quota, mut now, mut work) = (quota(), 0, 0);
        for turn in 0..3_000 {
            let length = (1 + turn % 7) * MS;
            now += quota.serve(Instant::from_nanos(now), length);
            work += length;
        }
        assert!(now.abs_diff(work) < 20 * MS, "{now} {work}");
    }

    #[test]
    fn periods_stand_still_with_their_host_and_begin_anew_with_it() {
        let mut quota = quota();
        assert_eq!(quota.serve(at(0), 10 * MS), MS);
        quota.stall(Duration::from_millis(50));
        assert_eq!(quota.serve(at(51_000), 5 * MS), 4 * MS + 5 * MS / 10);
        // Hours of work are lost, and leave no trace.
        quota.serve(at(60_000), 1_000_000 * MS);
        quota.reset(at(61_000));
        assert_eq!(quota.serve(at(61_000), 10 * MS), MS);
    }
}
