//! All tests of the crate are one program, since linking several takes longer than running them.

mod build;
mod edit;
mod overload;
mod properties;
mod scan;
mod torture;
