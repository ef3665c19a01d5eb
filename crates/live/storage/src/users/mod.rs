//! Where users' secrets come from: a file, or a table of a database.
//!
//! Both answer for the user name to the letter, as [`digest_auth::Secret`] wants it.

mod cache;
mod database;
mod file;
mod row;
mod subscribers;

pub use file::{UserFile, UserFileError};
pub use subscribers::{LookUpError, OnSecret, SubscriberSettings, Subscribers};
