//! File of the embedded store: reading, writing, and reopening after an error.

use base::UnixTime;
use location::{Aor, BindingsRecord, MemoryLimits, MemoryStore, StoreError};
use redb::{Database, DatabaseError, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");

/// Table of records, as a snapshot.
type Table = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// Changes of records; `None` removes one.
pub(crate) type Changes = BTreeMap<Aor, Option<BindingsRecord>>;

/// Opens the existing file.
pub(crate) type Open = Box<dyn Fn() -> Result<Database, DatabaseError> + Send>;

pub(crate) fn unavailable(part: &str, error: &dyn core::fmt::Display) -> StoreError {
    StoreError::Unavailable(format!("{part}: {error}"))
}

/// A file of records.
///
/// After a disk error `redb` fails every operation with this error (`StorageError::PreviousIo`) until the file is
/// reopened. So a failed commit closes the file, and [`File::reopen`] opens it before the next one.
pub(crate) struct File {
    name: String,
    open: Open,
    /// `None` after an error.
    database: Option<Database>,
    /// Keys of the failed commit, which may or may not be in the file.
    doubtful: BTreeSet<Aor>,
}

impl File {
    /// Makes the value for a file that was just opened. `name` is for error texts.
    pub(crate) fn new(name: String, database: Database, open: Open) -> Self {
        Self { name, open, database: Some(database), doubtful: BTreeSet::new() }
    }

    /// Loads the records that are live at `now`, and the keys of the others. Limits do not apply to records that were
    /// acknowledged before.
    pub(crate) fn load(
        &self,
        limits: MemoryLimits,
        now: UnixTime,
    ) -> Result<(MemoryStore, Vec<Aor>), StoreError> {
        let (mut memory, mut expired) = (MemoryStore::new(limits), Vec::new());
        let Some(database) = &self.database else { return Err(self.closed()) };
        let Some(table) = self.table(database)? else { return Ok((memory, expired)) };
        for entry in table.iter().map_err(|error| self.failed(&error))? {
            let (key, value) = entry.map_err(|error| self.failed(&error))?;
            let aor = Aor::from_key(key.value());
            let record = self.record(&aor, value.value())?;
            if record.is_live(now) {
                memory.set(&aor, Some(record));
            } else {
                expired.push(aor);
            }
        }
        Ok((memory, expired))
    }

    /// Reopens the file if an error has closed it. Returns the present records of the keys in the failed commit, as the
    /// copy in memory may differ.
    pub(crate) fn reopen(&mut self) -> Result<Changes, StoreError> {
        if self.database.is_some() {
            return Ok(Changes::new());
        }
        let database = (self.open)().map_err(|error| self.failed(&error))?;
        let table = self.table(&database)?;
        let mut found = Changes::new();
        for aor in &self.doubtful {
            let value = table.as_ref().map(|table| table.get(aor.key())).transpose();
            let value = value.map_err(|error| self.failed(&error))?.flatten();
            let record = value.map(|value| self.record(aor, value.value())).transpose()?;
            found.insert(aor.clone(), record);
        }
        self.doubtful.clear();
        self.database = Some(database);
        Ok(found)
    }

    /// Writes all changes, or none; they are on disk when it returns. After an error, it is unknown which.
    pub(crate) fn commit(&mut self, changes: &Changes) -> Result<(), StoreError> {
        let Some(database) = &self.database else { return Err(self.closed()) };
        let Err(error) = write(database, changes) else { return Ok(()) };
        self.database = None;
        self.doubtful = changes.keys().cloned().collect();
        Err(self.failed(&error))
    }

    /// Opens the table; a new file has none.
    fn table(&self, database: &Database) -> Result<Option<Table>, StoreError> {
        let transaction = database.begin_read().map_err(|error| self.failed(&error))?;
        match transaction.open_table(RECORDS) {
            Ok(table) => Ok(Some(table)),
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn record(&self, aor: &Aor, bytes: &[u8]) -> Result<BindingsRecord, StoreError> {
        let corrupt = || StoreError::Corrupt(format!("{}, key {}", self.name, aor.key().escape_ascii()));
        BindingsRecord::from_bytes(bytes).ok_or_else(corrupt)
    }

    fn failed(&self, error: &dyn core::fmt::Display) -> StoreError {
        unavailable(&self.name, error)
    }

    fn closed(&self) -> StoreError {
        self.failed(&"closed after an error")
    }
}

fn write(database: &Database, changes: &Changes) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(RECORDS)?;
        for (aor, record) in changes {
            match record {
                Some(record) => table.insert(aor.key(), record.as_bytes())?,
                None => table.remove(aor.key())?,
            };
        }
    }
    transaction.commit()?;
    Ok(())
}
