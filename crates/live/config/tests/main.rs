//! All tests of the crate in one program, because linking many takes longer than running them.

mod change;
mod keys;
mod members;
mod reference;
mod right;
mod scenarios;
mod topologies;
mod wrong;
