//! All tests of the crate are one program, since linking several takes longer than running them.

mod layer;
mod matching;
