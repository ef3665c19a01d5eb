//! All tests of the crate are one program, since linking several takes longer than running them.

mod calls;
mod common;
mod forking;
mod forking_random;
mod race;
mod tables;
