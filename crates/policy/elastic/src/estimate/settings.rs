//! The constants of the laws.

use core::time::Duration;

/// A law by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Law {
    /// The Cloud paper's, sections IV-B and VI-C.
    Smace,
    /// Ours: a capacity that the server has carried within the threshold is announced again; an untried capacity is
    /// not.
    #[default]
    Proven,
}

/// Settings of an estimator. Rates are calls a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Which law.
    pub law: Law,
    /// Bound of the 95th percentile of latency: 1 ms in the paper (figure 6). Set by the operator (section V-A).
    pub threshold: Duration,
    /// Never more than this, from a stress test of the server (section V-A): 500, the paper's peak load.
    pub maximum: f64,
    /// Never less, so that a server is tried again: 1. Ours; the paper's law falls towards zero where load is not the
    /// cause.
    pub minimum: f64,
    /// The first capacity, as part of `maximum`: 0.5. Ours, the paper says nothing.
    pub start: f64,
    /// After so long without windows earlier measurements are out of date, and the capacity is at most the initial
    /// one: 30 s.
    pub silence: Duration,
    /// Constants of [`Law::Smace`].
    pub smace: SmaceSettings,
    /// Constants of [`Law::Proven`].
    pub proven: ProvenSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            law: Law::default(),
            threshold: Duration::from_millis(1),
            maximum: 500.0,
            minimum: 1.0,
            start: 0.5,
            silence: Duration::from_secs(30),
            smace: SmaceSettings::default(),
            proven: ProvenSettings::default(),
        }
    }
}

/// Constants of the paper's law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SmaceSettings {
    /// Factor of the goodput when latency is above the threshold: 0.9 (sections IV-B and VI-C).
    pub reduced: f64,
    /// Whether goodput counts there up to the capacity alone: yes. Ours. The paper takes it as it is, and where a
    /// server carries more than its capacity, of calls that come past the queue, 90 % of that would be a rise.
    pub goodput_bounded: bool,
    /// The least time between two changes: 10 s (section VI-C).
    pub hold: Duration,
    /// Growth in the conservative mode: 10 calls/s a minute (section IV-B).
    pub conservative_per_minute: f64,
    /// So many changes in a row above the threshold, with less than the maximum, are the period "where latency is
    /// high even when the load is below the maximum" that begins the conservative mode: 2. Ours, the paper gives no
    /// number.
    pub conservative_after: u32,
    /// So long without latency above the threshold ends it: 60 s. Ours.
    pub calm: Duration,
}

impl Default for SmaceSettings {
    fn default() -> Self {
        Self {
            reduced: 0.9,
            goodput_bounded: true,
            hold: Duration::from_secs(10),
            conservative_per_minute: 10.0,
            conservative_after: 2,
            calm: Duration::from_mins(1),
        }
    }
}

/// Constants of our law. All were chosen in the model of `crates/policy/elastic/tests/estimate`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProvenSettings {
    /// Windows of fewer calls are put together: 10. The percentile of so few is their largest value.
    pub calls_min: f64,
    /// Windows in a row above the threshold before capacity is cut: 2. One alone is a spike.
    pub confirm: u32,
    /// The least time between two cuts: 2 s, so that the first one shows in a window before the second.
    pub gap: Duration,
    /// The least that a cut leaves: 0.7.
    pub cut_most: f64,
    /// The most that a cut leaves: 0.95.
    pub cut_least: f64,
    /// Cuts do not go below this part of what has been proven: 0.2. Latency that stays high there has another cause
    /// than load.
    pub floor: f64,
    /// Capacity grows as long as latency is below this part of the threshold: 0.9, so that noise stays below it, too.
    pub goal: f64,
    /// The capacity counts as tried when goodput is at least this part of it: 0.8.
    pub used: f64,
    /// With less than this part of it, the way back to what has been proven takes longer in proportion: 0.3. A server
    /// that others help gets no more than its share of the calls, and would never show that it is well again.
    pub used_again: f64,
    /// Part of the way back to the proven rate in a second: 0.3.
    pub recover: f64,
    /// Growth beyond it in a second with all of the threshold to spare: 0.05.
    pub probe: f64,
    /// Growth that ends in a cut sooner than this after the last cut is half as fast from then on: 30 s. So long
    /// without one, and it is as fast as ever.
    pub calm: Duration,
    /// How often growth is made half as fast at most: 4 times.
    pub failures_max: u32,
}

impl Default for ProvenSettings {
    fn default() -> Self {
        Self {
            calls_min: 10.0,
            confirm: 2,
            gap: Duration::from_secs(2),
            cut_most: 0.7,
            cut_least: 0.95,
            floor: 0.2,
            goal: 0.9,
            used: 0.8,
            used_again: 0.3,
            recover: 0.3,
            probe: 0.05,
            calm: Duration::from_secs(30),
            failures_max: 4,
        }
    }
}
