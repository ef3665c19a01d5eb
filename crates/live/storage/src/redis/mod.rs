//! Shared store: records in a Redis or Valkey server, for several proxies.

mod link;
mod wire;

use crate::remote::{Remote, SettingsError, StoreStatus};
use base::UnixTime;
use core::time::Duration;
use link::{Job, Link};
use location::{Aor, BindingsRecord, Replaced, Store, StoreError, StoreReply, StoreRequest};
use std::path::PathBuf;
use std::sync::mpsc::channel;

/// Longest queue of requests: as many as a server answers in some tenths of a second.
const QUEUE_MAX: usize = 8 * 1024;

/// Address and use of the server.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisSettings {
    /// `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, `rediss://...` with TLS, or `redis+unix:///PATH[?db=DATABASE&user=..&pass=..]`.
    pub url: String,
    /// File of certificate authorities for a server with TLS; `None`: the authorities of the system.
    pub authorities: Option<PathBuf>,
    /// Longest wait for a connection, longest wait in the queue, and longest wait for an answer. A request waits for at
    /// most twice this time in all.
    pub timeout: Duration,
}

impl RedisSettings {
    /// Returns the settings for the server at this URL, with a timeout of half a second: after this time SIP clients
    /// retransmit a request over UDP.
    pub fn new(url: &str) -> Self {
        Self { url: url.to_owned(), authorities: None, timeout: Duration::from_millis(500) }
    }

    /// Checks the settings without a connection.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn check(&self) -> Result<(), SettingsError> {
        Link::new(self).map(drop)
    }
}

impl core::fmt::Debug for RedisSettings {
    /// Without the URL, which may contain a password.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RedisSettings").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// Callback for a reply. It is called on the store's own thread, or by [`Redis::submit`] itself, so it must neither
/// wait nor panic.
pub type OnReply = Box<dyn FnOnce(StoreReply) + Send>;

/// Handle to the store; all clones share one connection. The connection ends after the last clone is dropped and
/// the waiting requests are answered.
///
/// Each record is the string of one key, and each request takes one round trip. A read uses `GET`; a replacement uses a
/// script that compares and sets. Nothing is cached here, so a proxy at once sees records that another proxy wrote.
/// Requests are sent in order, many at once.
///
/// While the server is unreachable, each request is answered at once with [`StoreError::Unavailable`]. A request that
/// was in progress waits for at most twice [`RedisSettings::timeout`]. The result of such a replacement is unknown. It
/// is not repeated, since a replacement that had succeeded would then conflict with itself. The connection is retried
/// until it succeeds, or the last clone is dropped.
///
/// The durability of an acknowledged record depends on the server (`appendfsync`), and after a failover on its
/// replicas: see `docs/registrar.md`.
#[derive(Clone)]
pub struct Redis {
    remote: Remote<Link>,
}

impl Redis {
    /// Starts the store's thread; does not wait for its connection. Fails if the URL is invalid.
    pub fn start(settings: &RedisSettings) -> Result<Self, SettingsError> {
        let link = Link::new(settings)?;
        Ok(Self { remote: Remote::start(link, 1, QUEUE_MAX)? })
    }

    /// Sends a request, and calls `reply` with the answer; at once if the server is unreachable or the queue is full.
    pub fn submit(&self, ask: StoreRequest, reply: OnReply) {
        self.remote.submit(Job::new(ask, reply));
    }

    /// State of the connection to the server.
    pub fn status(&self) -> StoreStatus {
        self.remote.status()
    }

    fn wait(&self, ask: StoreRequest) -> StoreReply {
        let (sender, reply) = channel();
        let unavailable = ask.failed(StoreError::Unavailable("no answer was given".to_owned()));
        self.submit(ask, Box::new(move |reply| drop(sender.send(reply))));
        reply.recv().unwrap_or(unavailable)
    }
}

/// Blocking access, for threads that may wait.
impl Store for Redis {
    fn read(&mut self, aor: &Aor) -> Result<Option<BindingsRecord>, StoreError> {
        match self.wait(StoreRequest::Read(aor.clone())) {
            StoreReply::Read(result) => result,
            StoreReply::Replaced(_) => unreachable!("each request has a reply of its kind"),
        }
    }

    fn replace(
        &mut self,
        _now: UnixTime,
        aor: &Aor,
        expected: Option<&BindingsRecord>,
        new: Option<&BindingsRecord>,
    ) -> Result<Replaced, StoreError> {
        let (expected, new) = (expected.cloned(), new.cloned());
        match self.wait(StoreRequest::Replace { aor: aor.clone(), expected, new }) {
            StoreReply::Replaced(result) => result,
            StoreReply::Read(_) => unreachable!("each request has a reply of its kind"),
        }
    }
}
