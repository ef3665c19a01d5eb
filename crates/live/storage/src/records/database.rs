//! Call records in a PostgreSQL database, by way of a spool.

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

/// Time limit of a statement with a batch of some hundred rows.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of records in a statement.
const BATCH: usize = 500;

/// Statement that creates the table. Its columns are the keys of the records.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS call_records (\
    id text NOT NULL, event text NOT NULL, revision bigint, final boolean, \
    started timestamptz, rang timestamptz, answered timestamptz, ended timestamptz, seconds double precision, \
    caller text, callee text, uri text, call_id text, caller_tag text, callee_tag text, \
    source text, peer text, route text, pool text, \
    status integer, bye_status integer, ended_by text, cause text, reason text, found_again boolean, attempts integer, \
    PRIMARY KEY (id, event))";

/// Query whether the table is missing. It is created only then, since a user with only write access could not create
/// it.
const STATE: &str = "SELECT to_regclass('call_records') IS NULL";

/// Statement for an array of records, in which each pair of `id` and `event` occurs once. A later revision replaces an
/// earlier one: its end counts, and values that it lacks (for a call from before a restart) are kept.
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

/// State of the database of call records.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecordDatabaseStatus {
    /// Reason why it cannot be written to now; `None` if it can.
    pub trouble: Option<String>,
    /// Number of records that it rejects permanently; they are in the file `refused` of the spool.
    pub refused: u64,
}

/// Call records in a PostgreSQL database: written to a spool at once, and to the database when it is available.
pub struct RecordDatabase {
    spool: SpoolFile,
    own: Arc<Mutex<PathBuf>>,
    refused: Arc<AtomicU64>,
    feeder: Remote<Feeder>,
}

impl RecordDatabase {
    /// Checks the URL without a connection.
    ///
    /// # Errors
    /// If the URL is invalid.
    pub fn check(url: &str, authorities: Option<&Path>) -> Result<(), SettingsError> {
        place(url, authorities).map(drop)
    }

    /// Starts to write to the database at this URL, with a spool in this directory, which is created. With TLS, the
    /// authorities in the file `authorities` are trusted, or those of the system.
    ///
    /// # Errors
    /// If the URL is invalid, or the directory cannot be used.
    pub fn start(url: &str, authorities: Option<&Path>, directory: &Path) -> Result<Self, SettingsError> {
        let place = place(url, authorities)?;
        let failed = |error: io::Error| SettingsError(format!("the spool {}: {error}", directory.display()));
        let spool = SpoolFile::create(directory).map_err(failed)?;
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

    /// Adds whole lines to the spool; written lines are removed from `lines`.
    ///
    /// # Errors
    /// If the system fails; the lines left in `lines` must be added again.
    pub fn add(&mut self, lines: &mut Vec<u8>) -> io::Result<()> {
        let before = self.spool.path().to_owned();
        self.spool.add(lines)?;
        if self.spool.path() != before {
            self.spool.path().clone_into(&mut self.own.lock().unwrap_or_else(PoisonError::into_inner));
        }
        Ok(())
    }

    /// State of the database.
    pub fn status(&self) -> RecordDatabaseStatus {
        let status = self.feeder.status();
        let trouble = if status.is_up() { None } else { status.last_error };
        RecordDatabaseStatus { trouble, refused: self.refused.load(Ordering::Relaxed) }
    }
}

impl Drop for RecordDatabase {
    /// Lets the thread end, after it has written the last records.
    fn drop(&mut self) {
        self.feeder.submit(FinalFeed);
    }
}

fn place(url: &str, authorities: Option<&Path>) -> Result<Place, SettingsError> {
    Place::read(url, authorities, "call records")
}

/// Thread that moves records from the spool to the database each second.
struct Feeder {
    place: Place,
    directory: PathBuf,
    own: Arc<Mutex<PathBuf>>,
    refused: Arc<AtomicU64>,
    /// Readers, which outlive a connection.
    readers: Mutex<Readers>,
}

/// Job that writes the last records in the spool.
struct FinalFeed;

#[derive(Default)]
struct Readers {
    /// The current file.
    reader: Option<SpoolReader>,
    /// The own file, while another one is current.
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

    /// The connection is ready once all waiting records are written.
    fn connect(&self) -> Result<Session, String> {
        let session = Session::open(&self.place, TIMEOUT)?;
        let missing =
            session.run(session.client.query_one(STATE, &[])).map_err(|failure| failure.to_string())?;
        if missing.get(0) {
            session
                .run(session.client.batch_execute(TABLE))
                .map_err(|failure| format!("{failure}; let a user who may create tables run: {TABLE}"))?;
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

    /// The records stay in the spool for the next process.
    fn refuse(_: FinalFeed, _: &str) {}
}

impl Feeder {
    /// Writes all records in the spool to the database.
    fn feed(&self, session: &Session) -> Result<(), String> {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |error| format!("the spool: {error}");
        loop {
            let own = self.own.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let mut reader = readers.choose(&self.directory, &own).map_err(failed)?;
            // Checked before reading: lines added later were added while it was the own file.
            let is_own = reader.is_own && own == reader.path();
            let lines = reader.lines().map_err(failed)?;
            if lines.is_empty() && is_own {
                // Files left by other processes meanwhile.
                let left = oldest_left(&self.directory, &own);
                readers.own_reader = Some(reader);
                readers.reader = left.map_err(failed)?;
                if readers.reader.is_none() {
                    return Ok(());
                }
                continue;
            }
            if lines.is_empty() {
                reader.remove().map_err(failed)?;
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
            // Either one record is invalid, or two have the same key.
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
    /// Chooses a file to read; files left by other processes come first.
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
