//! The configuration file: what it may hold, what it means, and what is wrong with it.

mod problem;
mod typed;

pub use problem::{Errors, Problem};
pub use typed::*;
