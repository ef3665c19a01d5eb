//! Scaling of a balancer's members, and the behaviour of the driver that starts and stops them.

use base::Instant;
use core::time::Duration;
use elastic::scale::ScaleSettings;
use load::RandomTime;

/// Scaling of a balancer's members.
#[derive(Clone, PartialEq, Debug)]
pub struct ScalePlan {
    /// Settings of the scaler.
    pub settings: ScaleSettings,
    /// Number of members that run at the start: the first ones of the list.
    pub running: usize,
    /// The driver.
    pub driver: DriverPlan,
}

/// The driver that starts and stops servers, and its faults.
#[derive(Clone, PartialEq, Debug)]
pub struct DriverPlan {
    /// Time from the order to start until the server answers.
    pub start: RandomTime,
    /// Time from the order to stop until the server ends.
    pub stop: RandomTime,
    /// Response time of the driver.
    pub answer: RandomTime,
    /// Whether it can list the running servers.
    pub lists: bool,
    /// Whether the list includes servers that are stopping.
    pub lists_ending: bool,
    /// Age of the list.
    pub list_age: Duration,
    /// Whether the machine of a stopped server sends ICMP port unreachable.
    pub refuses: bool,
    /// End of the faults below.
    pub until: Instant,
    /// Fraction of starts, stops and lists that fail.
    pub fails: f64,
    /// Fraction of orders that get no answer, whether done or not.
    pub forgets: f64,
    /// Fraction of started servers that never come up.
    pub in_vain: f64,
    /// Fraction of running servers that a list omits.
    pub gaps: f64,
}
