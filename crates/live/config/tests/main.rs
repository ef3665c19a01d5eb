//! All tests of the crate are one program, since linking many takes longer than running them.

mod change;
mod keys;
mod reference;
mod right;
mod scenarios;
mod topologies;
mod wrong;
