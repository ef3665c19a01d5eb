//! How many calls a second a server can take, found from its latency.
//!
//! An [`Estimator`] is told of each window ([`Estimator::on_window`]) and answers with the capacity to announce. The
//! laws are one file each; [`Law`] names them. Their constants stand there, with value, unit and source
//! at each; [`Settings`] has what users set.
//! In front, an [`Announced`] holds the last announcement of a server.

mod announced;
mod estimator;
mod proven;
mod settings;
mod smace;

pub use announced::{Announced, VALIDITY};
pub use estimator::{Estimator, Window};
pub use settings::{Law, Settings};
