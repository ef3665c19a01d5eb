//! What a controller knows of its host.

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
    /// External messages waiting.
    pub queue: usize,
    /// How long a new request that arrives now would wait before its service.
    pub wait: Duration,
}
