//! A received request, and its progress through the pipeline.

pub(crate) mod arrival;
pub(crate) mod progress;
