//! All tests of the crate are one program, since linking many takes longer than running them.

mod network;
mod notices;
