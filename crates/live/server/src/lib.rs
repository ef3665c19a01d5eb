//! The running process: sockets, shards, clock, DNS, admin HTTP. Decisions about SIP are made by [`node`].
//!
//! [`Server::start`] opens everything that a configuration names. [`Server::run`] serves traffic until a stop is
//! requested. A [`Handle`] queries and commands the server from other tasks.
#![forbid(unsafe_code)]

pub mod admin;
mod ask;
pub mod capacity;
mod check;
mod control;
mod descriptors;
pub mod figures;
mod handle;
mod key;
pub mod log;
mod opened;
mod registrations;
mod run;
mod scale;
mod start_error;
mod takeover;

pub use check::{Findings, check, check_users};
pub use handle::{FailureFilter, Handle, RestartReply};
pub use registrations::{ContactsError, UserContacts};
pub use run::Server;
pub use shards::{Clock, ModelProcessor};
pub use start_error::StartError;
