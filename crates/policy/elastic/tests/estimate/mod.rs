//! A server with neighbours, and the laws that estimate its capacity: compared, and checked against their rules for any
//! input.

mod laws;
mod model;
mod random;
