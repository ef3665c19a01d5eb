//! SIP text for tests: requests, the responses to them, requests within the dialog that both have begun, and the
//! header fields of what comes back.
//!
//! A test says what matters to it (a branch, a tag, a route) and gets the rest from here. Nothing of the product is
//! used: no test writes or reads a message with the code that it tests. Texts that are themselves the subject of a
//! test, such as faulty ones for the scanner, stand in the test.
//!
//! [`circles`] finds files of a crate that need each other, [`strays`] methods that stand apart from their types, and
//! [`parameters`] tuples and truth values among parameters. [`rules`] compares the pages of `docs/rfc/` with the marks in
//! code and tests.
#![forbid(unsafe_code)]

mod calls;
pub mod circles;
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
