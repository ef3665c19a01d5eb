//! All tests of the crate are one program, since linking many takes longer than running them.

mod common;
mod memory;
mod registrar;
mod stores;
