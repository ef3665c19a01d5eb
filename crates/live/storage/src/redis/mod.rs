//! The shared store: records in a Redis or Valkey server, for several proxies.

mod link;
mod wire;

use crate::remote::{Remote, SettingsError, Status};
use base::UnixTime;
use core::time::Duration;
use link::{Job, Link};
use location::{Aor, Ask, Record, Replaced, Reply, Store, StoreError};
use std::path::PathBuf;
use std::sync::mpsc::channel;

/// Asks that may wait: what a server answers in some tenths of a second.
const QUEUE_MAX: usize = 8 * 1024;

/// Where the server is, and how it is used.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisSettings {
    /// `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, `rediss://...` with TLS, or `redis+unix:///PATH[?db=DATABASE&user=..&pass=..]`.
    pub url: String,
    /// File of those who are trusted to vouch for a server with TLS; `None`: those that the system trusts.
    pub authorities: Option<PathBuf>,
    /// How long to wait for a connection, in the queue, and for an answer: twice as long in all, at worst.
    pub timeout: Duration,
}

impl RedisSettings {
    /// The server at this URL, and half a second, after which SIP clients repeat a request over UDP.
    pub fn new(url: &str) -> Self {
        Self { url: url.to_owned(), authorities: None, timeout: Duration::from_millis(500) }
    }

    /// Whether they can ever work; asks no server.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), SettingsError> {
        Link::new(self).map(drop)
    }
}

impl core::fmt::Debug for RedisSettings {
    /// Without the URL, which may have a password in it.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RedisSettings").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// Who is told the answer; called on the store's own thread, or by [`Redis::submit`] itself, so it must neither wait
/// nor panic.
pub type OnReply = Box<dyn FnOnce(Reply) + Send>;

/// A handle to the store; all clones share one connection. The last one that is dropped ends it, once what waits has
/// been answered.
///
/// Each record is the string of one key, and each ask one round trip: reads as `GET`, replacements as a script that
/// compares and sets. Nothing is kept here, so a proxy sees at once what another has stored. Asks are sent in the
/// order in which they come, many at once.
///
/// While the server is gone, each ask is answered at once with [`StoreError::Unavailable`]. An ask that was under way
/// when it went waits for twice [`RedisSettings::timeout`] at most. Nothing is known of such a replacement: it is not
/// repeated, since one that was done would then be in conflict with itself. The connection is made anew until it
/// stands.
///
/// What was acknowledged is as durable as the server keeps it (`appendfsync`), and as its replicas have it when one
/// of them takes over: `docs/registrar.md`.
#[derive(Clone)]
pub struct Redis {
    remote: Remote<Link>,
}

impl Redis {
    /// Starts the store's thread; does not wait for its connection. Fails when the URL is none.
    pub fn start(settings: &RedisSettings) -> Result<Self, SettingsError> {
        let link = Link::new(settings)?;
        Ok(Self { remote: Remote::start(link, 1, QUEUE_MAX)? })
    }

    /// Asks, and tells `reply` the answer; at once when the server cannot be reached or too many wait.
    pub fn submit(&self, ask: Ask, reply: OnReply) {
        self.remote.submit(Job::new(ask, reply));
    }

    /// How the server does.
    pub fn status(&self) -> Status {
        self.remote.status()
    }

    fn wait(&self, ask: Ask) -> Reply {
        let (sender, reply) = channel();
        let unavailable = ask.failed(StoreError::Unavailable("no answer was given".to_owned()));
        self.submit(ask, Box::new(move |reply| drop(sender.send(reply))));
        reply.recv().unwrap_or(unavailable)
    }
}

/// For threads that may wait.
impl Store for Redis {
    fn read(&mut self, aor: &Aor) -> Result<Option<Record>, StoreError> {
        match self.wait(Ask::Read(aor.clone())) {
            Reply::Read(result) => result,
            Reply::Replaced(_) => unreachable!("each ask has a reply of its kind"),
        }
    }

    fn replace(
        &mut self,
        _now: UnixTime,
        aor: &Aor,
        expected: Option<&Record>,
        new: Option<&Record>,
    ) -> Result<Replaced, StoreError> {
        let (expected, new) = (expected.cloned(), new.cloned());
        match self.wait(Ask::Replace { aor: aor.clone(), expected, new }) {
            Reply::Replaced(result) => result,
            Reply::Read(_) => unreachable!("each ask has a reply of its kind"),
        }
    }
}
