//! The registrar's stores in the shards' view: bindings, and the secrets of users.

mod report;

use crate::clock::Clock;
use crate::state;
use config::{RegistrarConfig, ServerUrl, StorePlace, UsersPlace};
use digest_auth::{Algorithm, Needs, Offer};
use location::{MemoryLimits, MemoryStore, StoreError, StoreReply, StoreRequest};
use node::{StoreAnswer, StoreQuery, UsersUnavailable};
use report::Condition;
pub use report::StoreReport;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;
use storage::{Embedded, OpenError, Redis, RedisSettings, SubscriberSettings, Subscribers, UserFile};

/// Receives a later answer; called on a thread of a store.
pub type OnAnswer = Box<dyn FnOnce(StoreAnswer) + Send + Sync>;

/// Interval of attempts to open a file that another process has open. A predecessor closes the file after the takeover.
const TRY_AGAIN: Duration = Duration::from_millis(20);
/// Limit of queries that wait for the file, which is the limit of a shard.
const WAITING_MAX: usize = 4_096;
/// Fault of a store whose file is open in another process.
const TAKEN: &str = "another process has its file open";
/// Error text after a successor has taken the file over.
const TAKEN_OVER: &str = "another process has taken over";
/// Number of attempts before the fault is logged.
const TRIES_QUIET: u32 = 250;

/// The stores. Each query of a shard is answered once, at once or later.
pub struct Stores {
    bindings: Arc<Bindings>,
    users: Arc<Users>,
}

enum Bindings {
    Memory(Mutex<MemoryStore>),
    File(Arc<FileStore>),
    Redis(Redis),
}

enum Users {
    None,
    File(RwLock<UserFile>),
    Database(Subscribers),
}

/// Returns the settings of a Redis server.
pub fn redis(server: &ServerUrl) -> RedisSettings {
    RedisSettings { authorities: server.authorities.clone(), ..RedisSettings::new(&server.url) }
}

/// Returns the settings of a database of users.
pub fn subscribers(server: &ServerUrl) -> SubscriberSettings {
    SubscriberSettings { authorities: server.authorities.clone(), ..SubscriberSettings::new(&server.url) }
}

impl Bindings {
    fn start(config: &RegistrarConfig, path: Option<&Path>) -> Result<Self, String> {
        let usual =
            || path.map_or(StorePlace::Memory, |path| StorePlace::File(state::place(path, "bindings")));
        Ok(match config.store.clone().unwrap_or_else(usual) {
            StorePlace::Memory => Self::Memory(Mutex::new(MemoryStore::new(MemoryLimits::default()))),
            StorePlace::File(path) => Self::File(FileStore::start(path)?),
            StorePlace::Redis(server) => {
                Self::Redis(Redis::start(&redis(&server)).map_err(|error| error.to_string())?)
            }
        })
    }
}

impl Users {
    fn start(config: &RegistrarConfig) -> Result<Self, String> {
        Ok(match &config.users {
            None => Self::None,
            Some(UsersPlace::File(path)) => {
                Self::File(RwLock::new(UserFile::read(path).map_err(|error| error.to_string())?))
            }
            Some(UsersPlace::Database(server)) => {
                Self::Database(Subscribers::start(&subscribers(server)).map_err(|error| error.to_string())?)
            }
        })
    }
}

/// Chooses the offered algorithms among those for which every user has a hash: the `wanted` ones. Without `wanted` it
/// is the last of `served`, which is the oldest and known by most clients. `None` if no algorithm is left.
fn choose(served: &[Algorithm], wanted: Option<&Offer>) -> Option<Offer> {
    let offered = match wanted {
        None => served.last().copied().into_iter().collect(),
        Some(wanted) => {
            wanted.algorithms().iter().copied().filter(|wanted| served.contains(wanted)).collect()
        }
    };
    Offer::new(offered).ok()
}

impl Stores {
    /// Opens the stores. `path` is the configuration's file, beside which bindings are kept by default. A store whose
    /// place has not changed since the previous configuration (`before`) is kept open.
    ///
    /// # Errors
    /// The store that cannot be opened or read, and why.
    pub fn start(
        config: &RegistrarConfig,
        path: Option<&Path>,
        before: Option<(&Self, &RegistrarConfig)>,
    ) -> Result<Self, String> {
        let same_users = before.filter(|(_, before)| before.users == config.users);
        let users = match same_users {
            Some((stores, _)) => Arc::clone(&stores.users),
            None => Arc::new(Users::start(config)?),
        };
        let same_store = before.filter(|(_, before)| before.store == config.store);
        let bindings = match same_store {
            Some((stores, _)) => Arc::clone(&stores.bindings),
            None => Arc::new(Bindings::start(config, path)?),
        };
        Ok(Self { bindings, users })
    }

    /// Reads the users again.
    ///
    /// # Errors
    /// The fault of the file. The previous users stay.
    pub fn reload(&self, config: &RegistrarConfig) -> Result<(), String> {
        match (&*self.users, &config.users) {
            (Users::File(users), Some(UsersPlace::File(path))) => {
                let read = UserFile::read(path).map_err(|error| error.to_string())?;
                *users.write().unwrap_or_else(PoisonError::into_inner) = read;
            }
            (Users::Database(subscribers), _) => subscribers.forget(),
            _ => {}
        }
        Ok(())
    }

    /// Returns the algorithms to offer among the `wanted` ones: those for which every user of the realm has a hash.
    /// Without `wanted` it is the one that most clients know, since many clients fail at a challenge with two.
    pub fn offer(&self, realm: &[u8], wanted: Option<&Offer>) -> Offer {
        let named = || wanted.cloned().unwrap_or_else(|| Offer::of(Algorithm::Md5));
        let Users::File(users) = &*self.users else { return named() };
        let served = users.read().unwrap_or_else(PoisonError::into_inner).algorithms(realm);
        choose(&served, wanted).unwrap_or_else(|| {
            let realm = String::from_utf8_lossy(realm);
            if served.is_empty() {
                tracing::warn!("[registrar] users: no user of the realm {realm} is in the file, or they have no algorithm in common: \
                    some or all users cannot log in");
            } else {
                let served: Vec<_> = served.iter().map(|algorithm| algorithm.name()).collect();
                let served = served.join(", ");
                tracing::warn!("[registrar] users: the users of {realm} have hashes of {served}, and `algorithms` has none of these: \
                    no user can log in");
            }
            named()
        })
    }

    /// Answers a query at once, or later through the receiver that `later` creates.
    pub fn ask(&self, about: StoreQuery, later: impl FnOnce() -> OnAnswer) -> Option<StoreAnswer> {
        match (about, &*self.bindings, &*self.users) {
            (StoreQuery::Location(ask), Bindings::Memory(store), _) => {
                let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
                let date = Clock::date();
                Some(StoreAnswer::Location(ask.send_to(&mut *store, date), date))
            }
            (StoreQuery::Location(ask), Bindings::File(file), _) => file.ask(ask, later),
            (StoreQuery::Location(ask), Bindings::Redis(redis), _) => {
                let answer = later();
                redis.submit(ask, Box::new(move |reply| answer(StoreAnswer::Location(reply, Clock::date()))));
                None
            }
            (StoreQuery::User { .. }, _, Users::None) => Some(StoreAnswer::User(Ok(None))),
            (StoreQuery::User { name, realm, algorithm }, _, Users::File(users)) => {
                let users = users.read().unwrap_or_else(PoisonError::into_inner);
                Some(StoreAnswer::User(Ok(users.secret(Needs { user: &name, realm: &realm, algorithm }))))
            }
            (StoreQuery::User { name, realm, algorithm }, _, Users::Database(subscribers)) => {
                let answer = later();
                let reply = move |secret: Result<_, _>| {
                    answer(StoreAnswer::User(secret.map_err(|_| UsersUnavailable)));
                };
                subscribers.ask(Needs { user: &name, realm: &realm, algorithm }, Box::new(reply));
                None
            }
        }
    }

    /// Returns the state of the stores: first of bindings, then of users if there is a store of users.
    pub fn reports(&self) -> Vec<StoreReport> {
        let bindings = match &*self.bindings {
            Bindings::Memory(_) => StoreReport::sound(StoreReport::BINDINGS, "memory"),
            Bindings::File(file) => file.report(),
            Bindings::Redis(redis) => StoreReport::remote(StoreReport::BINDINGS, "redis", redis.status()),
        };
        let users = match &*self.users {
            Users::None => None,
            Users::File(_) => Some(StoreReport::sound(StoreReport::USERS, "file")),
            Users::Database(users) => {
                Some(StoreReport::remote(StoreReport::USERS, "postgresql", users.status()))
            }
        };
        core::iter::once(bindings).chain(users).collect()
    }

    /// Closes the file, since a successor takes the new requests and needs it.
    pub fn release(&self) {
        if let Bindings::File(file) = &*self.bindings {
            file.close(TAKEN_OVER);
        }
    }

    /// Opens the file again, since new requests come to this process again.
    pub fn resume(&self) {
        if let Bindings::File(file) = &*self.bindings {
            file.open_when_free();
        }
    }
}

/// A file of bindings. Only one process at a time can have it open.
struct FileStore {
    path: PathBuf,
    state: RwLock<State>,
}

enum State {
    Open(Embedded, Condition),
    /// Another process has the file open. Queries wait.
    Waiting(Vec<(StoreRequest, OnAnswer)>, Condition),
    Closed(Condition),
}

impl FileStore {
    fn start(path: PathBuf) -> Result<Arc<Self>, String> {
        let opened = Embedded::open(&path, MemoryLimits::default(), Clock::date());
        let state = match opened {
            Ok(store) => State::Open(store, Condition::new(None)),
            Err(OpenError::Taken) => State::Closed(Condition::new(Some(TAKEN))),
            Err(OpenError::Failed(error)) => return Err(error.to_string()),
        };
        let is_taken = matches!(state, State::Closed(_));
        let store = Arc::new(Self { path, state: RwLock::new(state) });
        if is_taken {
            store.open_when_free();
        }
        Ok(store)
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, ask: StoreRequest, later: impl FnOnce() -> OnAnswer) -> Option<StoreAnswer> {
        if let State::Open(store, condition) = &*self.read() {
            if let StoreRequest::Read(aor) = ask {
                return Some(StoreAnswer::Location(StoreReply::Read(Ok(store.get(&aor))), Clock::date()));
            }
            put((store, condition), ask, later());
            return None;
        }
        match &mut *self.write() {
            State::Open(store, condition) => put((store, condition), ask, later()),
            State::Waiting(asked, _) if asked.len() < WAITING_MAX => asked.push((ask, later())),
            State::Waiting(..) => {
                return Some(StoreAnswer::Location(
                    refused(&ask, "too many requests wait for its file"),
                    Clock::date(),
                ));
            }
            State::Closed(condition) => {
                let why = condition.trouble().unwrap_or_default();
                return Some(StoreAnswer::Location(refused(&ask, &why), Clock::date()));
            }
        }
        None
    }

    /// Closes the file, with this reason for later queries. Waiting queries are answered first.
    fn close(&self, why: &str) {
        let closed = State::Closed(Condition::new(Some(why)));
        let former = core::mem::replace(&mut *self.write(), closed);
        if let State::Waiting(asked, _) = former {
            for (ask, answer) in asked {
                answer(StoreAnswer::Location(refused(&ask, why), Clock::date()));
            }
        }
    }

    /// Starts a thread that opens the file as soon as no other process has it open.
    fn open_when_free(self: &Arc<Self>) {
        // Queries wait meanwhile. It is a fault of the store only if that lasts.
        *self.write() = State::Waiting(Vec::new(), Condition::new(None));
        let store = Arc::downgrade(self);
        let run = move || {
            for tries in 0_u32.. {
                // The store was dropped or closed again, so the file is no longer needed.
                let Some(store) = store.upgrade() else { return };
                if !matches!(&*store.read(), State::Waiting(..)) || store.try_open(tries) {
                    return;
                }
                drop(store);
                std::thread::sleep(TRY_AGAIN);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("bindings-open".to_owned()).spawn(run) {
            tracing::error!(%error, "the thread that opens the file of bindings does not start");
            self.close(&error.to_string());
        }
    }

    /// Tries to open the file. Returns whether the attempts are over: the file is open, or never will be.
    fn try_open(&self, tries: u32) -> bool {
        let file = self.path.display();
        let opened = match Embedded::open(&self.path, MemoryLimits::default(), Clock::date()) {
            Ok(opened) => opened,
            Err(OpenError::Taken) => {
                if tries == TRIES_QUIET {
                    tracing::warn!(%file, "another process has the bindings open, and registrations wait until it \
                        ends. If it is to continue, \
                        set another `store` for this process");
                    if let State::Waiting(_, condition) = &mut *self.write() {
                        *condition = Condition::new(Some(TAKEN));
                    }
                }
                return false;
            }
            Err(OpenError::Failed(error)) => {
                tracing::error!(%file, %error, "the bindings cannot be opened: registrations and calls to users get 503");
                self.close(&error.to_string());
                return true;
            }
        };
        let mut state = self.write();
        let State::Waiting(asked, _) = &mut *state else {
            // The store was closed meanwhile, so the file is closed again.
            return true;
        };
        let condition = Condition::new(None);
        for (ask, answer) in core::mem::take(asked) {
            put((&opened, &condition), ask, answer);
        }
        *state = State::Open(opened, condition);
        true
    }

    fn report(&self) -> StoreReport {
        match &*self.read() {
            State::Open(_, condition) => condition.report(true, 0),
            State::Waiting(asked, condition) => condition.report(condition.trouble().is_none(), asked.len()),
            State::Closed(condition) => condition.report(false, 0),
        }
    }
}

/// Sends a query to an open file. Reads are answered from memory, changes once they are on the disk.
fn put((store, condition): (&Embedded, &Condition), ask: StoreRequest, answer: OnAnswer) {
    let date = Clock::date();
    match ask {
        StoreRequest::Read(aor) => answer(StoreAnswer::Location(StoreReply::Read(Ok(store.get(&aor))), date)),
        StoreRequest::Replace { aor, expected, new } => {
            let condition = condition.clone();
            let reply = move |replaced: Result<_, StoreError>| {
                condition.answered(replaced.as_ref().err().map(ToString::to_string));
                answer(StoreAnswer::Location(StoreReply::Replaced(replaced), Clock::date()));
            };
            store.submit(date, aor, expected, new, Box::new(reply));
        }
    }
}

/// Returns the answer to a query without a file.
fn refused(ask: &StoreRequest, why: &str) -> StoreReply {
    let error = StoreError::Unavailable(why.to_owned());
    match ask {
        StoreRequest::Read(_) => StoreReply::Read(Err(error)),
        StoreRequest::Replace { .. } => StoreReply::Replaced(Err(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Algorithm::{Md5, Sha256};

    /// Restart: the predecessor has the file open for another moment, and queries wait.
    #[test]
    fn a_file_that_another_process_closes_soon_is_no_fault() {
        let path = std::env::temp_dir().join(format!("sarabande-store-test-{}.bindings", std::process::id()));
        let before = FileStore::start(path.clone()).unwrap();
        let after = FileStore::start(path.clone()).unwrap();
        assert_eq!((after.report().trouble, after.report().answers), (None, true));
        for tries in 0..=TRIES_QUIET {
            assert!(!after.try_open(tries));
        }
        assert_eq!(after.report().trouble.as_deref(), Some(TAKEN));
        before.close(TAKEN_OVER);
        std::fs::remove_file(&path).unwrap();
    }

    /// RFC 8760: a stock telephone fails at a second challenge. So there is one challenge unless the operator names
    /// more algorithms.
    #[test]
    fn one_algorithm_is_offered_unless_more_are_named() {
        let both = [Sha256, Md5];
        let offered = |served: &[Algorithm], wanted: Option<&[Algorithm]>| {
            let wanted = wanted.map(|wanted| Offer::new(wanted.to_vec()).expect("no algorithm is repeated"));
            choose(served, wanted.as_ref()).map(|offer| offer.algorithms().to_vec())
        };
        assert_eq!(offered(&both, None), Some(vec![Md5]));
        assert_eq!(offered(&[Sha256], None), Some(vec![Sha256]), "not every user has a hash by MD5");
        assert_eq!(offered(&[], None), None);
        assert_eq!(offered(&both, Some(&both)), Some(both.to_vec()));
        assert_eq!(offered(&both, Some(&[Md5, Sha256])), Some(vec![Md5, Sha256]), "in the configured order");
        assert_eq!(offered(&[Md5], Some(&both)), Some(vec![Md5]));
        assert_eq!(offered(&[Md5], Some(&[Sha256])), None);
    }
}
