//! Users in a PostgreSQL database, as Kamailio's table `subscriber` has them.

use super::cache::{Answer, Cache, Lifetimes};
use super::database::Database;
use super::row::{Key, Row, Wanted};
use crate::remote::{Remote, SettingsError, Status};
use base::Instant;
use core::fmt;
use core::time::Duration;
use digest_auth::{Needs, Secret};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Look-ups that may wait: what a database answers in about a second.
const QUEUE_MAX: usize = 4 * 1024;

/// Connections, each of which answers one look-up after the other.
const CONNECTIONS: usize = 4;

/// Users that are kept; as many names again that nobody has.
const CACHE_ENTRIES: usize = 100_000;

/// For how long beyond its lifetime a user is answered for while the database cannot be asked.
const STALE_LIFETIME: Duration = Duration::from_hours(1);

/// Where the database is, and how it is used.
#[derive(Clone, PartialEq, Eq)]
pub struct SubscriberSettings {
    /// `postgres://USER:PASSWORD@HOST[:PORT]/DATABASE`, with `?sslmode=verify-full` for TLS, or `host=.. user=.. password=.. dbname=..`.
    pub url: String,
    /// File of those who are trusted to vouch for a server with TLS; `None`: those that the system trusts.
    pub authorities: Option<PathBuf>,
    /// How long to wait for a connection, in the queue, and for an answer: twice as long in all, at worst.
    pub timeout: Duration,
    /// For how long a user is answered for without asking: so long does it take until a new password is good and an
    /// old one is not.
    pub cache_lifetime: Duration,
    /// The same for a name that nobody has.
    pub absent_lifetime: Duration,
}

impl SubscriberSettings {
    /// The database at this URL: a second to wait; users are kept for a minute, unknown names for 10 seconds.
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            authorities: None,
            timeout: Duration::from_secs(1),
            cache_lifetime: Duration::from_mins(1),
            absent_lifetime: Duration::from_secs(10),
        }
    }

    /// Whether the database can be found; asks no server.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), SettingsError> {
        Database::new(self).map(drop)
    }
}

impl fmt::Debug for SubscriberSettings {
    /// Without the URL, which may have a password in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubscriberSettings").finish_non_exhaustive()
    }
}

/// Why nothing is known of a user. The text is for the operator; the client gets 503 or 500.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LookUpError(String);

impl fmt::Display for LookUpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the database of users cannot be asked: {}", self.0)
    }
}

impl core::error::Error for LookUpError {}

/// Who is told the secret, `None` when there is no such user; called on a thread of the database's, or by
/// [`Subscribers::ask`] itself, so it must neither wait nor panic.
pub type OnSecret = Box<dyn FnOnce(Result<Option<Secret>, LookUpError>) + Send>;

/// A handle to the users of a database; all clones share connections and cache. The last one that is dropped ends
/// both, once what waits has been answered.
///
/// What the database has answered is kept for a while, that a user exists as well as that nobody has this name. While
/// the database is gone, users who are kept are answered for, long-lived entries too; everybody else is answered at
/// once with an error. A look-up that was under way when it went waits for twice [`SubscriberSettings::timeout`] at
/// most. The connections are made anew until they stand.
///
/// Users are told apart to the letter, also where the database takes `alice` for `ALICE`.
#[derive(Clone)]
pub struct Subscribers {
    remote: Remote<Database>,
    cache: Arc<SharedCache>,
}

impl Subscribers {
    /// Starts the threads; does not wait for their connections. Fails when a setting can never work.
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

    /// Looks a user up, and tells `reply`: at once when the answer is kept, cannot be had, or is clear from the name.
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

    /// Forgets what is kept, so that changes in the database count at once.
    pub fn forget(&self) {
        self.cache.lock().clear();
    }

    /// How the database does.
    pub fn status(&self) -> Status {
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

/// A look-up under way; answered with an error when it is dropped, as when the thread panics.
pub(crate) struct Job {
    pub(crate) wanted: Wanted,
    cache: Arc<SharedCache>,
    reply: Option<OnSecret>,
}

impl Job {
    /// The database has answered.
    pub(crate) fn found(self, row: Option<Row>) {
        let answer = row.map_or(Answer::Absent, |row| Answer::Known(Arc::new(row)));
        let now = self.cache.now();
        self.cache.lock().insert(now, self.wanted.key.clone(), answer.clone());
        self.give(&answer);
    }

    /// The database cannot answer: whoever is still kept is answered for.
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
