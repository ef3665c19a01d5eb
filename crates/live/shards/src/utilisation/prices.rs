//! Prices of work and of wake-ups, estimated from the processor time that both take together.
//!
//! A process with work `w` that was woken up `s` times in a period takes the time
//!
//! ```text
//! t = sleep * s + step * w
//! ```
//!
//! Both prices differ between machines and change with time. A Kalman filter estimates them as factors of the initial
//! prices. Its largest uncertainty is the speed of the machine, which both prices share. It learns their ratio slowly,
//! from changes of the load. Close to saturation a process hardly sleeps, and the price of work is measured directly.

use super::work::ThreadWork;
use core::time::Duration;

/// Initial prices in seconds: of a sleep, and of a step, which is a message read or sent. Measured in a virtual machine
/// (docs/evidence/chain.md), where a sleep took 42 to 60 us and a step 5 to 6.4 us.
const SLEEP: f64 = 45e-6;
const STEP: f64 = 6e-6;
/// Price of a transaction in steps, from the same measurement.
const TRANSACTION: f64 = 0.75;

/// Standard deviations of the factors at the start: of their common part, and of each factor's own part.
const COMMON: f64 = 1.0;
const OWN: f64 = 0.15;
/// Drift of both parts in a second.
const COMMON_DRIFT: f64 = 0.02;
const OWN_DRIFT: f64 = 0.01;
/// Standard deviation of the measured time of a period, as part of the available time.
const NOISE: f64 = 0.05;
/// Lower limit of a price, as part of the initial price.
const LEAST: f64 = 0.02;

/// The estimates of the two prices.
#[derive(Debug)]
pub(super) struct Prices {
    sleep: f64,
    step: f64,
    /// Variances and covariance of the factors.
    sleep_variance: f64,
    step_variance: f64,
    covariance: f64,
}

impl Default for Prices {
    fn default() -> Self {
        let (common, own) = (COMMON * COMMON, OWN * OWN);
        Self {
            sleep: 1.0,
            step: 1.0,
            sleep_variance: common + own,
            step_variance: common + own,
            covariance: common,
        }
    }
}

impl Prices {
    /// Takes the work and time of a period into account. Returns the share of the processors' time that the work takes
    /// without sleeps, at the new prices.
    pub(super) fn busy(&mut self, work: ThreadWork, period: Duration, processors: f64) -> f64 {
        let period = period.as_secs_f64();
        let time = period * processors;
        if time <= 0.0 {
            return 0.0;
        }
        let steps = (work.read + work.sent) as f64 + TRANSACTION * work.transactions as f64;
        let (sleep, step) = (SLEEP * work.sleeps as f64 / time, STEP * steps / time);
        self.drift(period);
        self.learn((sleep, step), work.processor.as_secs_f64() / time);
        self.step * step
    }

    /// Adds the uncertainty of a number of seconds: the variance of a random walk grows with time.
    fn drift(&mut self, seconds: f64) {
        let (common, own) = (COMMON_DRIFT * COMMON_DRIFT * seconds, OWN_DRIFT * OWN_DRIFT * seconds);
        self.sleep_variance += common + own;
        self.step_variance += common + own;
        self.covariance += common;
    }

    /// Corrects the prices by the measured time of sleeps and steps. All values are parts of the available time.
    fn learn(&mut self, (sleep, step): (f64, f64), took: f64) {
        let sleep_gain = self.sleep_variance * sleep + self.covariance * step;
        let step_gain = self.covariance * sleep + self.step_variance * step;
        let variance = sleep * sleep_gain + step * step_gain + NOISE * NOISE;
        let error = (took - self.sleep * sleep - self.step * step) / variance;
        self.sleep = (self.sleep + sleep_gain * error).max(LEAST);
        self.step = (self.step + step_gain * error).max(LEAST);
        self.sleep_variance -= sleep_gain * sleep_gain / variance;
        self.step_variance -= step_gain * step_gain / variance;
        self.covariance -= sleep_gain * step_gain / variance;
        // An idle process learns nothing, so the uncertainty must not grow beyond its initial value.
        self.bound();
    }

    /// Limits the variances to their initial values.
    fn bound(&mut self) {
        let most = COMMON * COMMON + OWN * OWN;
        let wide = self.sleep_variance.max(self.step_variance);
        if wide > most {
            let part = most / wide;
            self.sleep_variance *= part;
            self.step_variance *= part;
            self.covariance *= part;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A machine with its own prices in seconds. A call has 13 messages and 4 transactions.
    struct Machine {
        sleep: f64,
        step: f64,
        /// Processors that the process may use.
        allowed: f64,
    }

    impl Machine {
        /// Returns the calls a second that the machine can carry.
        fn capacity(&self) -> f64 {
            self.allowed / (self.step * (13.0 + 4.0 * TRANSACTION))
        }

        /// Returns the work of a second with this number of offered calls. The machine sleeps for each message while it
        /// has time, and less often when less time is left.
        fn second(&self, calls: f64) -> ThreadWork {
            let calls = calls.min(self.capacity());
            let steps = calls * (13.0 + 4.0 * TRANSACTION) * self.step;
            let free = 1.0 - calls / self.capacity();
            let sleeps = (calls * 6.5 * free.sqrt()).min((self.allowed - steps) / self.sleep);
            ThreadWork {
                read: (calls * 6.0) as u64,
                sent: (calls * 7.0) as u64,
                transactions: (calls * 4.0) as u64,
                sleeps: sleeps as u64,
                processor: Duration::from_secs_f64(steps + sleeps * self.sleep),
            }
        }

        /// Returns the utilisation after some seconds at this part of the capacity.
        fn utilisation(&self, prices: &mut Prices, part: f64) -> f64 {
            let work = self.second(part * self.capacity());
            (0..20).map(|_| prices.busy(work, SECOND, self.allowed)).last().expect("there are 20 values")
        }
    }

    const MACHINES: [Machine; 4] = [
        Machine { sleep: 50e-6, step: 6e-6, allowed: 0.12 },
        Machine { sleep: 40e-6, step: 5e-6, allowed: 2.0 },
        Machine { sleep: 12e-6, step: 2e-6, allowed: 1.0 },
        Machine { sleep: 90e-6, step: 20e-6, allowed: 1.0 },
    ];

    /// After the process was busy once, the utilisation follows the load within 5 points on machines with the ratio of
    /// the initial prices. On machines whose sleep costs half as many steps, it follows within 8 points. The processor
    /// time is used up from half the capacity on.
    #[test]
    fn the_utilisation_follows_the_load() {
        for (machine, most) in MACHINES.iter().zip([0.05, 0.05, 0.08, 0.08]) {
            let mut prices = Prices::default();
            machine.utilisation(&mut prices, 1.0);
            for part in [1.2, 0.9, 0.7, 0.5, 0.3, 0.2, 0.4, 0.6, 0.8, 1.0] {
                let utilisation = machine.utilisation(&mut prices, part);
                assert!((utilisation - part.min(1.0)).abs() < most, "{utilisation} at {part}");
            }
        }
        let half = MACHINES[0].second(0.6 * MACHINES[0].capacity());
        assert!(half.processor.as_secs_f64() > 0.99 * MACHINES[0].allowed, "{half:?}");
    }

    /// Before the process was ever busy, the utilisation grows with the load.
    #[test]
    fn the_utilisation_grows_with_the_load() {
        for machine in &MACHINES {
            let mut prices = Prices::default();
            let utilisation: Vec<_> =
                (1..=10).map(|tenth| machine.utilisation(&mut prices, f64::from(tenth) / 10.0)).collect();
            assert!(utilisation.is_sorted() && utilisation[9] > 0.95, "{utilisation:?}");
        }
    }

    #[test]
    fn idle_hours_change_nothing() {
        let mut prices = Prices::default();
        let machine = &MACHINES[0];
        machine.utilisation(&mut prices, 1.0);
        for _ in 0..100_000 {
            assert!(prices.busy(ThreadWork::default(), SECOND, 0.12) == 0.0);
        }
        let utilisation = machine.utilisation(&mut prices, 0.5);
        assert!((utilisation - 0.5).abs() < 0.05, "{utilisation}");
        assert!(prices.busy(machine.second(1.0), Duration::ZERO, 1.0) == 0.0, "no time");
    }
}
