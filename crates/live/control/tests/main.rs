//! All tests of the crate in one program, since linking several takes longer than running them.

mod common;
mod health;
mod membership;
mod probes;
mod reloads;
mod sequences;
