//! Statistics of runs, with their uncertainty.
//!
//! A simulated mean is meaningless without an interval. An [`Interval`] comes from independent replications, from the
//! batch means of one long run ([`batch_means`]), or from the differences of two algorithms with the same random
//! numbers ([`paired`]). It reports when it is too wide. [`Settling`] finds the length of a run's warm-up. [`sweep`]
//! runs many simulations on all cores.

mod batch;
mod delays;
mod interval;
mod moments;
mod series;
mod settling;
mod student;
pub mod sweep;

pub use batch::batch_means;
pub use delays::Delays;
pub use interval::{Confidence, Interval, paired};
pub use moments::Moments;
pub use series::Series;
pub use settling::Settling;
pub use student::student_t;
