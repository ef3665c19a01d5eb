//! Load signals of a host, as input of controllers.

mod backlog;
mod utilisation;

pub use backlog::Backlog;
pub use utilisation::Utilisation;

use core::time::Duration;

/// The load of a host at one moment.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct HostLoad {
    /// Processor occupancy of the last full period, 0 to 1 (rho in the Overload paper, VI-B).
    pub utilisation: f64,
    /// Number of waiting external messages.
    pub queue: usize,
    /// Wait of a new request that arrives now.
    pub wait: Duration,
    /// Shortest wait in the last period. It is the wait that a queue causes: a pause of the processor delays only the
    /// messages that come during the pause (Nichols and Jacobson, "Controlling Queue Delay", 2012).
    pub standing: Duration,
}
