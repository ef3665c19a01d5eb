//! Stores of bindings that outlive the process.
//!
//! Not pure: they have files and threads. A crate of its own, so that `server` need not know any database.
//!
//! [`Embedded`] keeps records in one file of this process.
#![forbid(unsafe_code)]

mod embedded;
mod file;
mod writer;

pub use embedded::Embedded;
pub use writer::OnReplaced;
