//! Sources of users' secrets: a file, or a table of a database.
//!
//! Both compare user names exactly, as [`digest_auth::Secret`] requires.

mod cache;
mod change;
mod database;
mod file;
mod row;
mod subscribers;

pub use change::{UserHashes, change_users};
pub use file::{UserFile, UserFileError};
pub use subscribers::{LookUpError, OnSecret, SubscriberSettings, Subscribers};
