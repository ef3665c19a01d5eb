//! All tests of the crate are one program, since linking several takes longer than running them.

mod attacks;
mod challenges;
mod common;
mod vectors;
