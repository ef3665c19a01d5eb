//! Estimates of the calls a second that a server can take, from its latency.
//!
//! An [`Estimator`] gets each window ([`Estimator::on_window`]) and returns the capacity to announce. There is one file
//! per law; [`CapacityLaw`] names them. Each law's constants are there, with value, unit and source; [`EstimatorSettings`] has the
//! values that users set. In front, an [`Announced`] holds the last announcement of a server.

mod announced;
mod estimator;
mod proven;
mod settings;
mod smace;

pub use announced::{Announced, VALIDITY};
pub use estimator::{Estimator, ServerWindow};
pub use settings::{CapacityLaw, EstimatorSettings};
