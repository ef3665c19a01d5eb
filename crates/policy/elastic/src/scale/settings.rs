//! Settings of a scaler.

use super::ForecastSettings;
use core::time::Duration;

/// Starting servers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StartSettings {
    /// How long a start takes before one was seen: 90 s, "1 to 2 minutes on average" (section IV-D).
    pub time: Duration,
    /// A server that is not up after so long is given up: 5 min.
    pub time_max: Duration,
    /// No start for so long after one that failed: 10 s, and twice as long after each further one.
    pub back_off: Duration,
    /// At most: 5 min.
    pub back_off_max: Duration,
}

impl Default for StartSettings {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(90),
            time_max: Duration::from_mins(5),
            back_off: Duration::from_secs(10),
            back_off_max: Duration::from_mins(5),
        }
    }
}

/// Criteria for latency of the whole cluster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClusterSettings {
    /// A server has fallen when its capacity is below this part of its usual capacity: 0.7.
    pub fallen: f64,
    /// The whole cluster has when this part of the ready servers has, but two at least: 0.5.
    pub share: f64,
    /// What a server usually has is the largest capacity of late: after so long half of it is forgotten, 30 min.
    pub half_life: Duration,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self { fallen: 0.7, share: 0.5, half_life: Duration::from_mins(30) }
    }
}

/// Settings of a scaler. Rates are calls a second.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleSettings {
    /// Never fewer servers: 1.
    pub least: usize,
    /// Never more that start, are ready or drain: 10. One that is being stopped does not count any more.
    pub most: usize,
    /// So many servers there are to choose from, and they are not the same: one that did not come up is tried again
    /// when the others were. `None`, the default: the first free number is always as good as any.
    pub choices: Option<u32>,
    /// Servers ready beyond those that are needed: 1, the paper's n + 1.
    pub spare: usize,
    /// Capacity of a server that has not announced any.
    pub capacity: f64,
    /// Servers are added when arrivals by total capacity pass this: 0.8 (section IV-D).
    pub high: f64,
    /// One is removed when the others would stay below this: 0.7. Ours, so that noise does not add it again.
    pub low: f64,
    /// Arrivals are smoothed over this: 10 s.
    pub smoothing: Duration,
    /// A rise is followed as far ahead as a server takes to start, up to so many times the rate: 1.3; 1 for not at
    /// all.
    pub trend_most: f64,
    /// The others must have been enough for so long: 5 min.
    pub calm: Duration,
    /// Time between two servers that are drained: 1 min.
    pub drain_gap: Duration,
    /// A drained server is stopped when it had no calls for so long: 3 min; "a timeout of few minutes when all
    /// transaction states within the server expires".
    pub idle: Duration,
    /// A stop that is not confirmed is asked for again after so long: 1 min.
    pub stop_again: Duration,
    /// At most so many servers are started, resumed and drained in a step: 4.
    pub changes_most: usize,
    /// Starts.
    pub start: StartSettings,
    /// Latency of the whole cluster.
    pub cluster: ClusterSettings,
    /// Arrivals of past days: off.
    pub forecast: Option<ForecastSettings>,
}

impl Default for ScaleSettings {
    fn default() -> Self {
        Self {
            least: 1,
            most: 10,
            choices: None,
            spare: 1,
            capacity: 500.0,
            high: 0.8,
            low: 0.7,
            smoothing: Duration::from_secs(10),
            trend_most: 1.3,
            calm: Duration::from_mins(5),
            drain_gap: Duration::from_mins(1),
            idle: Duration::from_mins(3),
            stop_again: Duration::from_mins(1),
            changes_most: 4,
            start: StartSettings::default(),
            cluster: ClusterSettings::default(),
            forecast: None,
        }
    }
}
