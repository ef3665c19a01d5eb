//! Stores of bindings that outlive the process.
//!
//! Not pure: they have files and threads. A crate of its own, so that `server` need not know any data base.
//!
//! [`Embedded`] keeps records in one file of this process.
#![forbid(unsafe_code)]

mod embedded;

pub use embedded::{Embedded, Reply};
