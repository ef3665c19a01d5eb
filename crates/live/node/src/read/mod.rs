//! A request as it arrived, and what it has gained since.

pub(crate) mod arrival;
pub(crate) mod progress;
