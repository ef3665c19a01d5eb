//! Estimates of the calls a second that a server can take, from its latency.
//!
//! An [`Estimator`] gets each window ([`Estimator::on_window`]) and returns the capacity to announce. [`CapacityLaw`]
//! names the laws; there is one file per law. Each file has the law's constants, with value, unit and source;
//! [`EstimatorSettings`] has the values that users set. In front of the servers, an [`Announced`] holds the last
//! announcement of a server.

mod announced;
mod estimator;
mod proven;
mod settings;
mod smace;

pub use announced::{Announced, VALIDITY};
pub use estimator::{Estimator, ServerWindow};
pub use settings::{CapacityLaw, EstimatorSettings};
