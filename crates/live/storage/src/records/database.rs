//! Records in a PostgreSQL database, by way of a spool.

use super::spool::{SpoolFile, SpoolReader, oldest_left, own};
use crate::postgres::{self, Place};
use crate::remote::SettingsError;
use core::time::Duration;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, Error};

/// How long a statement may take: a batch of some hundred rows.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How often the spool is looked at.
const PERIOD: Duration = Duration::from_millis(500);

/// How long to rest after a failure.
const REST: Duration = Duration::from_secs(2);

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

/// What a table of an earlier version lacks. Records of that version have neither, and are older than any that has.
const UPGRADE: &str = "ALTER TABLE call_records ADD COLUMN IF NOT EXISTS revision bigint, \
    ADD COLUMN IF NOT EXISTS final boolean";

/// Whether the table is missing, and whether it is there without the column `revision`.
const STATE: &str = "SELECT to_regclass('call_records') IS NULL, NOT EXISTS (SELECT FROM pg_attribute \
    WHERE attrelid = to_regclass('call_records') AND attname = 'revision' AND NOT attisdropped)";

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
    WHERE coalesce(old.revision, 0) < coalesce(excluded.revision, 0)";

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
    status: Arc<Mutex<RecordDatabaseStatus>>,
    /// The thread ends when this is dropped.
    _alive: Sender<()>,
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
        let status: Arc<Mutex<RecordDatabaseStatus>> = Arc::default();
        let (alive, ended) = channel();
        let feeder = Feeder {
            place,
            directory: directory.to_owned(),
            own: Arc::clone(&own),
            status: Arc::clone(&status),
            reader: None,
            own_reader: None,
        };
        std::thread::Builder::new()
            .name("call-records".to_owned())
            .spawn(move || feeder.run(&ended))
            .map_err(told)?;
        Ok(Self { spool, own, status, _alive: alive })
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
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn place(url: &str, authorities: Option<&Path>) -> Result<Place, SettingsError> {
    Place::read(url, authorities, "call records")
}

/// The thread that takes records from the spool to the database.
struct Feeder {
    place: Place,
    directory: PathBuf,
    own: Arc<Mutex<PathBuf>>,
    status: Arc<Mutex<RecordDatabaseStatus>>,
    /// The file in work.
    reader: Option<SpoolReader>,
    /// The own one, while another is in work.
    own_reader: Option<SpoolReader>,
}

impl Feeder {
    fn run(mut self, ended: &Receiver<()>) {
        let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
        let mut client = None;
        loop {
            let outcome = self.feed(&runtime, &mut client);
            let rest = if outcome.is_ok() { PERIOD } else { REST };
            self.tell(|status| status.trouble = outcome.err());
            match ended.recv_timeout(rest) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                    // What has come since.
                    let _ = self.feed(&runtime, &mut client);
                    return;
                }
            }
        }
    }

    fn tell(&self, change: impl FnOnce(&mut RecordDatabaseStatus)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Empties the spool, as far as there is anything.
    fn feed(&mut self, runtime: &Runtime, client: &mut Option<Client>) -> Result<(), String> {
        if client.as_ref().is_none_or(Client::is_closed) {
            *client = None;
            let connected = within(runtime, async {
                let client = self.place.connect(TIMEOUT).await?;
                // Who may only write to a table that is there could not make it, even if it need not be made.
                let state = client.query_one(STATE, &[]).await?;
                let outcome = match (state.get(0), state.get(1)) {
                    (true, _) => client.batch_execute(TABLE).await.map_err(|error| (TABLE, error)),
                    (_, true) => client.batch_execute(UPGRADE).await.map_err(|error| (UPGRADE, error)),
                    (false, false) => Ok(()),
                };
                Ok((client, outcome))
            });
            let (connected, outcome) = connected.map_err(|failure| failure.0)?;
            outcome.map_err(|(statement, error)| {
                format!("{}; have the owner of the table run: {statement}", postgres::text(&error))
            })?;
            *client = Some(connected);
        }
        let Some(open) = client.as_ref() else { return Ok(()) };
        loop {
            self.choose().map_err(|error| format!("the spool: {error}"))?;
            let Some(mut reader) = self.reader.take() else { return Ok(()) };
            // Before the look at it: what it gets afterwards, it got as the own file.
            let is_own =
                reader.is_own && *self.own.lock().unwrap_or_else(PoisonError::into_inner) == reader.path();
            let lines = reader.lines().map_err(|error| format!("the spool: {error}"))?;
            if lines.is_empty() {
                if is_own {
                    // What others have left meanwhile.
                    let left = oldest_left(&self.directory, reader.path());
                    self.own_reader = Some(reader);
                    self.reader = left.map_err(|error| format!("the spool: {error}"))?;
                    if self.reader.is_none() {
                        return Ok(());
                    }
                    continue;
                }
                reader.remove().map_err(|error| format!("the spool: {error}"))?;
                continue;
            }
            let all: Vec<&[u8]> = lines.split_inclusive(|&b| b == b'\n').collect();
            let mut outcome = Ok(());
            for batch in all.chunks(BATCH) {
                let records = batch.iter().map(|line| line.trim_ascii_end()).filter(|line| !line.is_empty());
                outcome = self.insert(runtime, open, &records.collect::<Vec<_>>());
                if outcome.is_err() {
                    break;
                }
                reader.taken(batch.iter().map(|line| line.len()).sum());
            }
            self.reader = Some(reader);
            outcome?;
        }
    }

    /// Has a file in work: what others have left comes first.
    fn choose(&mut self) -> io::Result<()> {
        if self.reader.is_none() {
            let path = self.own.lock().unwrap_or_else(PoisonError::into_inner).clone();
            self.reader = match (oldest_left(&self.directory, &path)?, self.own_reader.take()) {
                (Some(left), kept) => {
                    self.own_reader = kept;
                    Some(left)
                }
                (None, Some(kept)) => Some(kept),
                (None, None) => Some(own(&path)?),
            };
        }
        Ok(())
    }

    fn insert(&self, runtime: &Runtime, client: &Client, batch: &[&[u8]]) -> Result<(), String> {
        let whole = format!("[{}]", String::from_utf8_lossy(&batch.join(&b","[..])));
        match within(runtime, client.execute(INSERT, &[&whole])) {
            Ok(_) => Ok(()),
            // One of them is to blame, or two are of one call.
            Err(Failure(_, true)) if batch.len() > 1 => {
                let (first, second) = batch.split_at(batch.len() / 2);
                self.insert(runtime, client, first)?;
                self.insert(runtime, client, second)
            }
            Err(Failure(why, true)) => {
                self.tell(|status| status.refused += 1);
                let path = self.directory.join("refused");
                let mut line = batch.concat();
                line.push(b'\n');
                OpenOptions::new()
                    .create(true)
                    .append(true)
                    .mode(0o600)
                    .open(path)
                    .and_then(|mut file| file.write_all(&line))
                    .map_err(|error| format!("{why}; and the file of refused records: {error}"))
            }
            Err(Failure(why, false)) => Err(why),
        }
    }
}

/// Why a statement has failed, and whether its rows are to blame.
struct Failure(String, bool);

fn within<T>(runtime: &Runtime, future: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
    match runtime.block_on(async { tokio::time::timeout(TIMEOUT, future).await }) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => {
            // Class 21: two rows of the statement have the same key.
            let is_of_rows = postgres::is_of_value(&error) || postgres::is_of_class(&error, "21");
            Err(Failure(postgres::text(&error), is_of_rows))
        }
        Err(_) => Err(Failure(format!("no answer within {TIMEOUT:?}"), false)),
    }
}
