//! All tests of the crate are one program, since linking many takes longer than running them.

mod estimate;
mod queue;
mod scale;
mod update;
