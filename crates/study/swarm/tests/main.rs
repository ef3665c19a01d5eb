//! All tests of the crate are one program, since linking many takes longer than running them.

mod model_and_wire;
mod plans;
mod program;
mod random;
