//! How the members of a balancer are started and stopped, and what whoever does it is like.

use base::Instant;
use core::time::Duration;
use elastic::scale::ScaleSettings;
use load::RandomTime;

/// How the members of a balancer are started and stopped.
#[derive(Clone, PartialEq, Debug)]
pub struct ScalePlan {
    /// What the scaler decides by.
    pub settings: ScaleSettings,
    /// So many of the members, the first ones, run to begin with.
    pub running: usize,
    /// Who starts and stops them.
    pub driver: DriverPlan,
}

/// Who starts and stops servers, and what goes wrong with that.
#[derive(Clone, PartialEq, Debug)]
pub struct DriverPlan {
    /// A server answers so long after it was told to start.
    pub start: RandomTime,
    /// It runs on for so long after it was told to stop.
    pub stop: RandomTime,
    /// The driver answers after this.
    pub answer: RandomTime,
    /// Whether it can say what runs.
    pub lists: bool,
    /// Whether it then says as well what ends.
    pub lists_ending: bool,
    /// What it lists is so old.
    pub list_age: Duration,
    /// Whether the machine of a server that does not run says that nobody listens there (ICMP).
    pub refuses: bool,
    /// Until then it fails, as often as this says.
    pub until: Instant,
    /// Of starts, stops and lists, so many fail.
    pub fails: f64,
    /// To so many there is no answer, whether they are done or not.
    pub forgets: f64,
    /// Of the servers that it starts, so many do not come up.
    pub in_vain: f64,
    /// Of the servers that run, a list leaves out so many.
    pub gaps: f64,
}
