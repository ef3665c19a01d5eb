//! Users in a PostgreSQL database, in Kamailio's table `subscriber`.

use super::cache::{Answer, Cache, Lifetimes};
use super::database::Database;
use super::row::{Key, Row, Wanted};
use crate::remote::{Remote, SettingsError, StoreStatus};
use base::Instant;
use core::fmt;
use core::time::Duration;
use digest_auth::{Needs, Secret};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Longest queue of look-ups: as many as a database answers in about a second.
const QUEUE_MAX: usize = 4 * 1024;

/// Number of connections, each of which handles one look-up at a time.
const CONNECTIONS: usize = 4;

/// Maximum number of cached users, and of cached unknown names.
const CACHE_ENTRIES: usize = 100_000;

/// Additional lifetime of a cached user while the database is unreachable.
const STALE_LIFETIME: Duration = Duration::from_hours(1);

/// Address and use of the database.
#[derive(Clone, PartialEq, Eq)]
pub struct SubscriberSettings {
    /// `postgres://USER:PASSWORD@HOST[:PORT]/DATABASE`, with `?sslmode=verify-full` for TLS, or `host=.. user=.. password=.. dbname=..`.
    pub url: String,
    /// File of authorities for a server with TLS; `None`: those of the system.
    pub authorities: Option<PathBuf>,
    /// Longest wait for a connection, in the queue, and for an answer: twice as long in all, at worst.
    pub timeout: Duration,
    /// Lifetime of a cached user: the time until a new password is valid and an old one is not.
    pub cache_lifetime: Duration,
    /// Lifetime of a cached unknown name.
    pub absent_lifetime: Duration,
}

impl SubscriberSettings {
    /// The database at this URL, with a timeout of a second; users are cached for a minute, unknown names for 10
    /// seconds.
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            authorities: None,
            timeout: Duration::from_secs(1),
            cache_lifetime: Duration::from_mins(1),
            absent_lifetime: Duration::from_secs(10),
        }
    }

    /// Checks the settings without a connection.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn check(&self) -> Result<(), SettingsError> {
        Database::new(self).map(drop)
    }
}

impl fmt::Debug for SubscriberSettings {
    /// Without the URL, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubscriberSettings").finish_non_exhaustive()
    }
}

/// Error of a look-up. The text is for the operator; the client gets 503 or 500.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LookUpError(String);

impl fmt::Display for LookUpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the database of users cannot be queried: {}", self.0)
    }
}

impl core::error::Error for LookUpError {}

/// Callback for the secret, `None` for an unknown user. It is called on a thread of the database, or by
/// [`Subscribers::ask`] itself, so it must neither wait nor panic.
pub type OnSecret = Box<dyn FnOnce(Result<Option<Secret>, LookUpError>) + Send>;

/// Handle to the users of a database; all clones share connections and cache. They end after the last clone is
/// dropped and the waiting look-ups are answered.
///
/// Answers of the database are cached for a while, for users and for unknown names. While the database is unreachable,
/// cached users are answered from the cache, for an additional time. Other look-ups fail at once. A look-up that was in
/// progress waits for at most twice [`SubscriberSettings::timeout`]. The connections are retried until they succeed.
///
/// User names are compared exactly, even if the database treats `alice` and `ALICE` as equal.
#[derive(Clone)]
pub struct Subscribers {
    remote: Remote<Database>,
    cache: Arc<SharedCache>,
}

impl Subscribers {
    /// Starts the threads; does not wait for their connections. Fails if a setting is invalid.
    pub fn start(settings: &SubscriberSettings) -> Result<Self, SettingsError> {
        let database = Database::new(settings)?;
        let lifetimes = Lifetimes {
            entries: CACHE_ENTRIES,
            known: settings.cache_lifetime,
            absent: settings.absent_lifetime,
            stale: STALE_LIFETIME,
        };
        Ok(Self {
            remote: Remote::start(database, CONNECTIONS, QUEUE_MAX)?,
            cache: Arc::new(SharedCache::new(lifetimes)),
        })
    }

    /// Looks a user up, and calls `reply`: at once if the answer is cached, unavailable, or clear from the name.
    pub fn ask(&self, needs: Needs<'_>, reply: OnSecret) {
        let Some(wanted) = Wanted::of(needs) else { return reply(Ok(None)) };
        let kept = self.cache.fresh(&wanted.key);
        let cache = Arc::clone(&self.cache);
        let job = Job { wanted, cache, reply: Some(reply) };
        match kept {
            Some(answer) => job.give(&answer),
            None => self.remote.submit(job),
        }
    }

    /// Clears the cache, so that changes in the database take effect at once.
    pub fn forget(&self) {
        self.cache.lock().clear();
    }

    /// State of the connections to the database.
    pub fn status(&self) -> StoreStatus {
        self.remote.status()
    }
}

/// The cache with its clock.
struct SharedCache {
    start: std::time::Instant,
    cache: Mutex<Cache<Key, Arc<Row>>>,
}

impl SharedCache {
    fn new(lifetimes: Lifetimes) -> Self {
        Self { start: std::time::Instant::now(), cache: Mutex::new(Cache::new(lifetimes)) }
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Cache<Key, Arc<Row>>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fresh(&self, key: &Key) -> Option<Answer<Arc<Row>>> {
        self.lock().fresh(self.now(), key)
    }
}

/// A look-up in progress; answered with an error if it is dropped, for example by a panic of the thread.
pub(crate) struct Job {
    pub(crate) wanted: Wanted,
    cache: Arc<SharedCache>,
    reply: Option<OnSecret>,
}

impl Job {
    /// Handles an answer of the database.
    pub(crate) fn found(self, row: Option<Row>) {
        let answer = row.map_or(Answer::Absent, |row| Answer::Known(Arc::new(row)));
        let now = self.cache.now();
        self.cache.lock().insert(now, self.wanted.key.clone(), answer.clone());
        self.give(&answer);
    }

    /// Handles a failure of the database: a cached user is still answered.
    pub(crate) fn failed(self, why: &str) {
        let now = self.cache.now();
        let kept = self.cache.lock().stale(now, &self.wanted.key);
        match kept {
            Some(row) => self.give(&Answer::Known(row)),
            None => self.tell(Err(LookUpError(why.to_owned()))),
        }
    }

    fn give(self, answer: &Answer<Arc<Row>>) {
        let secret = match answer {
            Answer::Known(row) => row.secret(&self.wanted),
            Answer::Absent => None,
        };
        self.tell(Ok(secret));
    }

    fn tell(mut self, result: Result<Option<Secret>, LookUpError>) {
        if let Some(reply) = self.reply.take() {
            reply(result);
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            reply(Err(LookUpError("its thread has ended".to_owned())));
        }
    }
}
