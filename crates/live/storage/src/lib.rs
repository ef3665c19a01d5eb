//! Stores of bindings, of users and of call records that outlive the process.
//!
//! Not pure: they have files, threads and connections. A crate of its own, so that `server` is independent of any
//! database.
//!
//! - [`Embedded`] keeps records of bindings in one file of this process.
//! - [`Redis`] keeps them in a Redis or Valkey server that several proxies share.
//! - [`RecordFile`] and [`RecordDatabase`] write call detail records.
//! - [`UserFile`] and [`Subscribers`] read the secrets of users, from a file or from a PostgreSQL database.
//!
//! # Threads
//! A caller does not wait. A request goes with a callback into a bounded queue. The callback is called once,
//! on a thread of the store, or at once if no wait is needed. It must neither wait nor panic. A store need not be
//! stopped: its threads end when its last handle is dropped, after they have answered the waiting requests. While a
//! server is unreachable, requests are refused at once, and [`StoreStatus`] says so; the threads reconnect by themselves.
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
pub use remote::{SettingsError, StoreStatus};
pub use users::{
    LookUpError, OnSecret, SubscriberSettings, Subscribers, UserFile, UserFileError, UserHashes, change_users,
};
pub use writer::OnReplaced;
