//! Records in a PostgreSQL database, by way of a spool.

use super::spool::{SpoolFile, SpoolReader, oldest_left, own};
use crate::postgres::{Place, Session};
use crate::remote::{Remote, Served, Server, SettingsError};
use core::time::Duration;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How long a statement may take: a batch of some hundred rows.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Most records of a statement.
const BATCH: usize = 500;

/// The table, made where it is missing. The columns are the keys of the records.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS call_records (\
    id text NOT NULL, event text NOT NULL, revision bigint, final boolean, \
    started timestamptz, rang timestamptz, answered timestamptz, ended timestamptz, seconds double precision, \
    caller text, callee text, uri text, call_id text, caller_tag text, callee_tag text, \
    source text, peer text, route text, pool text, \
    status integer, bye_status integer, ended_by text, cause text, reason text, found_again boolean, \
    PRIMARY KEY (id, event))";

/// Whether the table is missing. It is made only then, since a user that may only write to it could not make it.
const STATE: &str = "SELECT to_regclass('call_records') IS NULL";

/// One record or more, as an array; each `id` and `event` once. A later revision takes the place of an earlier one:
/// its end counts, and what it does not know (of a call from before a restart) stays as it was.
const INSERT: &str = "INSERT INTO call_records AS old SELECT * FROM \
    json_populate_recordset(null::call_records, $1::text::json) \
    ON CONFLICT (id, event) DO UPDATE SET \
    revision = excluded.revision, final = excluded.final, ended = excluded.ended, cause = excluded.cause, \
    ended_by = excluded.ended_by, bye_status = excluded.bye_status, reason = excluded.reason, \
    started = least(old.started, excluded.started), rang = coalesce(old.rang, excluded.rang), \
    answered = coalesce(old.answered, excluded.answered), uri = coalesce(old.uri, excluded.uri), \
    source = coalesce(old.source, excluded.source), peer = coalesce(old.peer, excluded.peer), \
    route = coalesce(old.route, excluded.route), pool = coalesce(old.pool, excluded.pool), \
    found_again = excluded.found_again, \
    seconds = coalesce(excluded.seconds, extract(epoch FROM excluded.ended - old.answered)) \
    WHERE old.revision < excluded.revision";

/// How the database does.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecordDatabaseStatus {
    /// Why it cannot be written to now.
    pub trouble: Option<String>,
    /// Records that it refuses, whatever is tried; they are in the file `refused` of the spool.
    pub refused: u64,
}

/// Records in a PostgreSQL database: written to a spool at once, and to the database as soon as that takes them.
pub struct RecordDatabase {
    spool: SpoolFile,
    own: Arc<Mutex<PathBuf>>,
    refused: Arc<AtomicU64>,
    feeder: Remote<Feeder>,
}

impl RecordDatabase {
    /// Whether the URL can ever work; asks no server.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(url: &str, authorities: Option<&Path>) -> Result<(), SettingsError> {
        place(url, authorities).map(drop)
    }

    /// The database at this URL, with a spool in this directory, which is made. With TLS, those in the file `authorities`
    /// vouch for the server, or those that the system trusts.
    ///
    /// # Errors
    /// What is wrong with the URL, or what the system says of the directory.
    pub fn start(url: &str, authorities: Option<&Path>, directory: &Path) -> Result<Self, SettingsError> {
        let place = place(url, authorities)?;
        let told = |error: io::Error| SettingsError(format!("the spool {}: {error}", directory.display()));
        let spool = SpoolFile::create(directory).map_err(told)?;
        let own = Arc::new(Mutex::new(spool.path().to_owned()));
        let refused = Arc::default();
        let feeder = Feeder {
            place,
            directory: directory.to_owned(),
            own: Arc::clone(&own),
            refused: Arc::clone(&refused),
            readers: Mutex::default(),
        };
        Ok(Self { spool, own, refused, feeder: Remote::start(feeder, 1, 1)? })
    }

    /// Adds whole lines to the spool; those that are there leave `lines`.
    ///
    /// # Errors
    /// What the system says; what is left in `lines` is to be given again.
    pub fn add(&mut self, lines: &mut Vec<u8>) -> io::Result<()> {
        let before = self.spool.path().to_owned();
        self.spool.add(lines)?;
        if self.spool.path() != before {
            self.spool.path().clone_into(&mut self.own.lock().unwrap_or_else(PoisonError::into_inner));
        }
        Ok(())
    }

    /// How the database does.
    pub fn status(&self) -> RecordDatabaseStatus {
        let status = self.feeder.status();
        let trouble = if status.is_up() { None } else { status.last_error };
        RecordDatabaseStatus { trouble, refused: self.refused.load(Ordering::Relaxed) }
    }
}

impl Drop for RecordDatabase {
    /// The thread ends, once it has taken what has come since.
    fn drop(&mut self) {
        self.feeder.submit(FinalFeed);
    }
}

fn place(url: &str, authorities: Option<&Path>) -> Result<Place, SettingsError> {
    Place::read(url, authorities, "call records")
}

/// The thread that takes records from the spool to the database, each second.
struct Feeder {
    place: Place,
    directory: PathBuf,
    own: Arc<Mutex<PathBuf>>,
    refused: Arc<AtomicU64>,
    /// They outlive a connection.
    readers: Mutex<Readers>,
}

/// What is left in the spool at the end.
struct FinalFeed;

#[derive(Default)]
struct Readers {
    /// The file in work.
    reader: Option<SpoolReader>,
    /// The own one, while another is in work.
    own_reader: Option<SpoolReader>,
}

impl Server for Feeder {
    type Connection = Session;
    type Job = FinalFeed;

    const THREAD: &'static str = "call-records";
    const BATCH_MAX: usize = 1;

    fn patience(&self) -> Duration {
        Duration::MAX
    }

    /// It can be used when it has taken all that has waited for it.
    fn connect(&self) -> Result<Session, String> {
        let session = Session::open(&self.place, TIMEOUT)?;
        let missing =
            session.run(session.client.query_one(STATE, &[])).map_err(|failure| failure.to_string())?;
        if missing.get(0) {
            session
                .run(session.client.batch_execute(TABLE))
                .map_err(|failure| format!("{failure}; have somebody who may make tables run: {TABLE}"))?;
        }
        self.feed(&session)?;
        Ok(session)
    }

    fn check(&self, session: &mut Session) -> Result<(), String> {
        self.feed(session)
    }

    fn serve(&self, session: &mut Session, _: Vec<FinalFeed>) -> Served {
        Served { failed: 0, lost: self.feed(session).err() }
    }

    /// It stays in the spool, for the next process.
    fn refuse(_: FinalFeed, _: &str) {}
}

impl Feeder {
    /// Empties the spool, as far as there is anything.
    fn feed(&self, session: &Session) -> Result<(), String> {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let told = |error| format!("the spool: {error}");
        loop {
            let own = self.own.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let mut reader = readers.choose(&self.directory, &own).map_err(told)?;
            // Before the look at it: what it gets afterwards, it got as the own file.
            let is_own = reader.is_own && own == reader.path();
            let lines = reader.lines().map_err(told)?;
            if lines.is_empty() && is_own {
                // What others have left meanwhile.
                let left = oldest_left(&self.directory, &own);
                readers.own_reader = Some(reader);
                readers.reader = left.map_err(told)?;
                if readers.reader.is_none() {
                    return Ok(());
                }
                continue;
            }
            if lines.is_empty() {
                reader.remove().map_err(told)?;
                continue;
            }
            let all: Vec<&[u8]> = lines.split_inclusive(|&b| b == b'\n').collect();
            let mut outcome = Ok(());
            for batch in all.chunks(BATCH) {
                let records = batch.iter().map(|line| line.trim_ascii_end()).filter(|line| !line.is_empty());
                outcome = self.insert(session, &records.collect::<Vec<_>>());
                if outcome.is_err() {
                    break;
                }
                reader.taken(batch.iter().map(|line| line.len()).sum());
            }
            readers.reader = Some(reader);
            outcome?;
        }
    }

    fn insert(&self, session: &Session, batch: &[&[u8]]) -> Result<(), String> {
        let whole = format!("[{}]", String::from_utf8_lossy(&batch.join(&b","[..])));
        let Err(failure) = session.run(session.client.execute(INSERT, &[&whole])) else { return Ok(()) };
        // Class 21: two rows of the statement have the same key.
        if !failure.is_of_class("22") && !failure.is_of_class("21") {
            return Err(failure.to_string());
        }
        if batch.len() > 1 {
            // One of them is to blame, or two are of one call.
            let (first, second) = batch.split_at(batch.len() / 2);
            self.insert(session, first)?;
            return self.insert(session, second);
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.join("refused");
        let mut line = batch.concat();
        line.push(b'\n');
        OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)
            .and_then(|mut file| file.write_all(&line))
            .map_err(|error| format!("{failure}; and the file of refused records: {error}"))
    }
}

impl Readers {
    /// Takes a file to work on: what others have left comes first.
    fn choose(&mut self, directory: &Path, own_path: &Path) -> io::Result<SpoolReader> {
        if let Some(reader) = self.reader.take() {
            return Ok(reader);
        }
        match (oldest_left(directory, own_path)?, self.own_reader.take()) {
            (Some(left), kept) => {
                self.own_reader = kept;
                Ok(left)
            }
            (None, Some(kept)) => Ok(kept),
            (None, None) => own(own_path),
        }
    }
}
