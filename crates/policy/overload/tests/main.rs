//! All tests of the crate are one program, since linking many takes longer than running them.

mod guard;
mod harness;
mod hop;
mod laws;
mod member;
mod table;
