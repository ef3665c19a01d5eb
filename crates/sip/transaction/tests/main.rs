//! All tests of the crate are one program, since linking many takes longer than running them.

mod layer;
mod matching;
