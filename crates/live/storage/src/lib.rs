//! Stores of bindings, of users and of call records that outlive the process.
//!
//! Not pure: they have files, threads and connections. A crate of its own, so that `server` need not know any
//! database.
//!
//! - [`Embedded`] keeps records of bindings in one file of this process.
//! - [`Redis`] keeps them in a Redis or Valkey server that several proxies share.
//! - [`RecordFile`] and [`RecordDatabase`] take call detail records.
//! - [`UserFile`] and [`Subscribers`] know the secrets of users: from a file, and from a PostgreSQL database.
//!
//! # Threads
//! Whoever asks does not wait: a question goes with a callback into a queue of bounded length, and the callback is
//! called once, on a thread of the store, or at once where there is nothing to wait for. It must neither wait nor
//! panic. There is nothing to stop: the threads of a store end when its last handle is dropped, after they have
//! answered what waits. A server that is gone is refused for at once, and [`Status`] says so; the threads connect
//! again by themselves.
#![forbid(unsafe_code)]

mod embedded;
mod file;
mod postgres;
mod records;
mod redis;
mod remote;
mod users;
mod writer;

pub use crate::redis::{OnReply, Redis, RedisSettings};
pub use embedded::{Embedded, OpenError};
pub use records::{RecordDatabase, RecordDatabaseStatus, RecordFile};
pub use remote::{SettingsError, Status};
pub use users::{LookUpError, OnSecret, SubscriberSettings, Subscribers, UserFile, UserFileError};
pub use writer::OnReplaced;
