//! Scenarios of the simulator: what they may hold, and what is wrong with one.

mod typed;

pub use typed::*;
