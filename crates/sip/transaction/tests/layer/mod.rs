//! The layer on virtual time.

mod client;
mod random;
mod run;
mod server;
