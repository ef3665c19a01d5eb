//! All tests of the crate are one program, because linking many programs takes longer than running them.

mod report;
mod survey;
mod vary;
