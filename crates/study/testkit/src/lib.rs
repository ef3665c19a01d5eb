//! SIP text for tests: requests, responses, requests within the resulting dialog, and the header fields of received
//! messages.
//!
//! A test sets only the fields that matter to it (a branch, a tag, a route). This crate uses no code of the product, so
//! no test reads or writes a message with the code under test. Texts that are themselves the subject of a test, such as
//! faulty input for the scanner, are written in that test.
//!
//! [`circles`] finds circular dependencies among the files of a crate. [`strays`] finds methods outside the file and
//! folder of their type. [`parameters`] finds tuples and booleans among parameters. [`names`] finds types that share a
//! name. [`rules`] compares the pages of `docs/evidence/rfc/` with the marks in code and tests.
#![forbid(unsafe_code)]

mod calls;
pub mod circles;
pub mod names;
pub mod parameters;
mod read;
mod request;
mod response;
pub mod rules;
mod source;
pub mod strays;

pub use read::{body, head, header, record_routes, replaced, route_set, status, tag, text, value};
pub use request::TestRequest;
pub use response::TestResponse;
