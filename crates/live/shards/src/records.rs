//! Call detail records: their text and their destination.

use crate::clock::Clock;
use crate::state;
use base::{Instant, UnixTime};
use config::{CallsConfig, RecordsPlace};
use dialog::{CallRecord, CallStart, RecordEvent};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use storage::{RecordDatabase, RecordDatabaseStatus, RecordFile};

/// Limit in bytes of records that wait for room on the disk: an hour of 10 calls a second.
const BACKLOG_MAX: usize = 32 << 20;

/// Destination of call records, shared by all shards. Each shard writes the records of a batch before the batch's
/// messages leave.
pub struct Records {
    /// Whether records are written. Otherwise they are only counted.
    is_written: bool,
    /// Last revision number. Each record has a larger one than all earlier records of this process and its
    /// predecessors.
    revision: AtomicU64,
    inner: Mutex<Inner>,
}

struct Inner {
    sink: Sink,
    /// Lines that could not be written yet.
    backlog: Vec<u8>,
    counts: RecordCounts,
    /// Database status that was logged last.
    logged: RecordDatabaseStatus,
}

enum Sink {
    Nowhere,
    File(RecordFile),
    Database(RecordDatabase),
}

impl Sink {
    fn add(&mut self, lines: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Nowhere => {
                lines.clear();
                Ok(())
            }
            Self::File(file) => file.add(lines),
            Self::Database(database) => database.add(lines),
        }
    }
}

/// Counts of records.
#[derive(Clone, Default, Debug)]
pub struct RecordCounts {
    /// Records so far.
    pub written: u64,
    /// Records discarded because there was no room for them for too long.
    pub lost: u64,
    /// Records that the database refused.
    pub refused: u64,
    /// Bytes that wait for room on the disk.
    pub waiting: usize,
    /// Why records wait, or why the database accepts none.
    pub trouble: Option<String>,
}

impl Records {
    /// Opens the destination. `path` is the configuration's file, beside which records wait for a database. Records
    /// that wait for the previous destination (`before`) are written there.
    ///
    /// # Errors
    /// The file or URL that cannot be opened, and why.
    pub fn start(config: &CallsConfig, path: Option<&Path>, before: Option<&Self>) -> Result<Self, String> {
        let sink = match &config.records {
            None => Sink::Nowhere,
            Some(RecordsPlace::File(file)) => {
                let failed = |error| format!("[calls] records: {}: {error}", file.display());
                Sink::File(RecordFile::open(file, (config.rotate, config.keep)).map_err(failed)?)
            }
            Some(RecordsPlace::Database(server)) => {
                let path = path.ok_or(
                    "[calls] records: records for a database can wait only beside a configuration file",
                )?;
                let directory = state::place(path, "records");
                let failed = |error| format!("[calls] records: {error}");
                Sink::Database(
                    RecordDatabase::start(&server.url, server.authorities.as_deref(), &directory)
                        .map_err(failed)?,
                )
            }
        };
        let revision = before.map_or(0, |before| before.revision.load(Ordering::Relaxed));
        let (counts, logged) = (RecordCounts::default(), RecordDatabaseStatus::default());
        let mut inner = Inner { sink, backlog: Vec::new(), counts, logged };
        if let Some(before) = before {
            let mut before = before.lock();
            inner.backlog = std::mem::take(&mut before.backlog);
            inner.counts = RecordCounts { trouble: None, ..before.counts.clone() };
        }
        inner.empty();
        let (revision, inner) = (AtomicU64::new(revision), Mutex::new(inner));
        Ok(Self { is_written: config.records.is_some(), revision, inner })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes records at the time `now`. Records that cannot be written wait in memory.
    pub fn write(&self, records: &[CallRecord], now: Instant) {
        if !self.is_written {
            self.lock().counts.written += records.len() as u64;
            return;
        }
        let date = Clock::date();
        let mut lines = Vec::with_capacity(512 * records.len());
        for (record, revision) in records.iter().zip(self.revisions(records.len())) {
            line(record, revision, (now, date), &mut lines);
        }
        let mut inner = self.lock();
        inner.counts.written += records.len() as u64;
        if inner.backlog.len() + lines.len() > BACKLOG_MAX {
            inner.counts.lost += records.len() as u64;
            return;
        }
        inner.backlog.extend_from_slice(&lines);
        inner.empty();
    }

    /// Returns `count` revision numbers. They are microseconds since 1970, so that they keep rising after a restart,
    /// but at least one more than the last number. They fit the 53 bits of a number in JSON until 2255.
    fn revisions(&self, count: usize) -> impl Iterator<Item = u64> {
        let now = u64::try_from(Clock::since_1970().saturating_since(Instant::ZERO).as_micros());
        let first = |last: u64| now.unwrap_or(u64::MAX).max(last.saturating_add(1));
        let reserve = |last| Some(first(last).saturating_add(count as u64).saturating_sub(1));
        let last = self.revision.fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve);
        (first(last.unwrap_or_default())..).take(count)
    }

    /// Writes waiting records if possible, and logs changes of the database's state.
    pub fn retry(&self) {
        let mut inner = self.lock();
        inner.empty();
        let Sink::Database(database) = &inner.sink else { return };
        let status = database.status();
        let before = std::mem::replace(&mut inner.logged, status.clone());
        match (&before.trouble, &status.trouble) {
            (None, Some(why)) => {
                tracing::warn!("[calls] records: the database accepts none, and they wait: {why}");
            }
            (Some(_), None) => tracing::info!("[calls] records: the database accepts records again"),
            _ => {}
        }
        if status.refused > before.refused {
            let refused = status.refused - before.refused;
            tracing::error!(
                refused,
                "[calls] records: refused by the database; they are in the file `refused` of the spool: correct the \
                 table, then \
                 rename the file there to refused.jsonl"
            );
        }
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> RecordCounts {
        let inner = self.lock();
        let mut counts = RecordCounts { waiting: inner.backlog.len(), ..inner.counts.clone() };
        if let Sink::Database(database) = &inner.sink {
            let status = database.status();
            counts.refused = status.refused;
            counts.trouble = counts.trouble.or(status.trouble);
        }
        counts
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.empty();
        if !self.backlog.is_empty() {
            let lost = self.backlog.split(|&b| b == b'\n').count() - 1;
            tracing::error!(lost, "[calls] records: lost, since there was no room for them until the end");
        }
    }
}

impl Inner {
    fn empty(&mut self) {
        if self.backlog.is_empty() {
            return;
        }
        match self.sink.add(&mut self.backlog) {
            Ok(()) => {
                self.backlog.shrink_to(1 << 16);
                if self.counts.trouble.take().is_some() {
                    tracing::info!("[calls] records: the waiting records are written");
                }
            }
            Err(error) => {
                if self.counts.trouble.is_none() {
                    let bytes = self.backlog.len();
                    tracing::error!(%error, bytes, "[calls] records: cannot be written, and wait in memory");
                }
                self.counts.trouble = Some(error.to_string());
            }
        }
    }
}

fn named(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// A record in the file. The names are also the columns of the database.
#[derive(Serialize)]
struct Line<'a> {
    /// Independent of the writer, so that the database takes a record once.
    id: String,
    event: &'a str,
    /// Of several records with the same `id` and `event`, the one with the largest revision is the latest.
    revision: u64,
    #[serde(rename = "final")]
    is_final: bool,
    started: String,
    rang: Option<String>,
    answered: Option<String>,
    ended: Option<String>,
    /// Time from the answer to the end.
    seconds: Option<f64>,
    caller: &'a str,
    callee: &'a str,
    uri: Option<&'a str>,
    call_id: &'a str,
    caller_tag: &'a str,
    callee_tag: Option<&'a str>,
    source: Option<String>,
    peer: Option<String>,
    attempts: Option<u16>,
    route: Option<&'a str>,
    pool: Option<&'a str>,
    status: u16,
    bye_status: Option<u16>,
    ended_by: Option<&'a str>,
    cause: Option<&'a str>,
    reason: Option<&'a str>,
    found_again: bool,
}

/// Appends the line of a record. `now` in both clocks converts its times to dates.
fn line(record: &CallRecord, revision: u64, (now, date): (Instant, UnixTime), out: &mut Vec<u8>) {
    let unix = |then: Instant| {
        UnixTime::from_millis(date.as_millis().saturating_sub(millis(now.saturating_since(then))))
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}");
    let about = &record.about;
    let texts =
        [about.from(), about.to(), about.uri(), about.call_id(), about.tag(), about.rule(), about.pool()];
    let [caller, callee, uri, call_id, tag, rule, pool] = texts.map(text);
    let reason = text(&record.reason);
    let callee_tag = record.accepted.as_ref().map(|accepted| text(&accepted.tag));
    let answered = record.accepted.as_ref().and_then(|accepted| accepted.at);
    let started = match record.began {
        CallStart::Seen(then) => unix(then),
        CallStart::Token(secs) => UnixTime::from_secs(secs.into()),
    };
    let is_end = record.event == RecordEvent::Ended;
    let seconds = answered.map(|then| millis(record.ended.saturating_since(then)) as f64 / 1000.0);
    let line = Line {
        id: id(record, started),
        event: match record.event {
            RecordEvent::Answered => "answered",
            RecordEvent::Ended => "ended",
        },
        revision,
        is_final: record.is_final,
        started: started.rfc3339(),
        rang: record.rang.map(|then| unix(then).rfc3339()),
        answered: answered.map(|then| unix(then).rfc3339()),
        ended: is_end.then(|| unix(record.ended).rfc3339()),
        seconds: seconds.filter(|_| is_end),
        caller: &caller,
        callee: &callee,
        uri: named(&uri),
        call_id: &call_id,
        caller_tag: &tag,
        callee_tag: callee_tag.as_deref(),
        source: about.source.map(|source| source.to_string()),
        peer: record.peer.map(|peer| peer.to_string()),
        attempts: (record.attempts > 0).then_some(record.attempts),
        route: named(&rule),
        pool: named(&pool),
        status: record.status,
        bye_status: (record.bye_status > 0).then_some(record.bye_status),
        ended_by: record.by.map(dialog::DialogSide::name),
        cause: record.cause.map(dialog::Cause::name),
        reason: named(&reason),
        found_again: record.is_found_again(),
    };
    if serde_json::to_writer(&mut *out, &line).is_ok() {
        out.push(b'\n');
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the ID of a record. For a dialog it is made from Call-ID, tags and the second in which it began, since both
/// sides may reuse Call-ID and tags. For a call without a dialog it uses the millisecond.
fn id(record: &CallRecord, started: UnixTime) -> String {
    let about = &record.about;
    let mut hash = Sha256::new();
    for part in [about.call_id(), about.tag()] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.update(record.began_unix.to_be_bytes());
    match &record.accepted {
        Some(accepted) => hash.update(&accepted.tag),
        None => hash.update(started.as_millis().to_be_bytes()),
    }
    hash.finalize()[..16].iter().fold(String::with_capacity(32), |mut id, byte| {
        let _ = write!(id, "{byte:02x}");
        id
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dialog::{Accepted, CallDescription, Cause, DialogSide};
    use node::DialogSettings;

    fn record() -> CallRecord {
        let source = Some(([192, 0, 2, 1], 5060).into());
        CallRecord {
            event: RecordEvent::Ended,
            about: CallDescription::new(
                [b"c\xff\0", b"a", b"sip:a@x", b"sip:b@x", b"sip:b@x", b"", b"phones"],
                source,
            ),
            began: CallStart::Seen(Instant::from_millis(1_000)),
            began_unix: 1_289_690_930,
            rang: Some(Instant::from_millis(2_000)),
            accepted: Some(Accepted { at: Some(Instant::from_millis(3_500)), tag: b"b"[..].into() }),
            peer: Some(([192, 0, 2, 2], 5060).into()),
            ended: Instant::from_millis(10_000),
            status: 200,
            attempts: 2,
            bye_status: 200,
            by: Some(DialogSide::Callee),
            cause: Some(Cause::Bye),
            reason: b"Q.850;cause=16"[..].into(),
            is_final: true,
        }
    }

    fn text(record: &CallRecord) -> String {
        let mut out = Vec::new();
        line(record, 7, (Instant::from_millis(11_000), UnixTime::from_secs(1_289_690_940)), &mut out);
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    #[test]
    fn a_record_is_a_line_of_json() {
        let line = text(&record());
        assert!(line.ends_with("}\n") && line.matches('\n').count() == 1);
        let read: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        for (key, value) in [
            ("started", "2010-11-13T23:28:50.000Z"),
            ("rang", "2010-11-13T23:28:51.000Z"),
            ("answered", "2010-11-13T23:28:52.500Z"),
            ("ended", "2010-11-13T23:28:59.000Z"),
            ("call_id", "c\u{fffd}\u{fffd}"),
            ("pool", "phones"),
            ("ended_by", "callee"),
            ("cause", "bye"),
            ("peer", "192.0.2.2:5060"),
        ] {
            assert_eq!(read[key], value, "{key}");
        }
        assert_eq!((read["seconds"].as_f64(), read["route"].is_null()), (Some(6.5), true));
        assert_eq!((read["revision"].as_u64(), read["final"].as_bool()), (Some(7), Some(true)));
    }

    /// Revisions rise, whichever thread writes and whatever the clock shows.
    #[test]
    fn revisions_rise() {
        for before in [0, u64::MAX >> 12] {
            let config =
                CallsConfig { dialogs: DialogSettings::default(), records: None, rotate: 1, keep: 1 };
            let records = Records::start(&config, None, None).expect("without a place nothing is opened");
            records.revision.store(before, Ordering::Relaxed);
            let all: Vec<_> = [3, 1, 2]
                .into_iter()
                .flat_map(|count| records.revisions(count).collect::<Vec<_>>())
                .collect();
            assert!(
                all.len() == 6 && all[0] > before && all.is_sorted_by(|one, other| one < other),
                "{all:?}"
            );
            // Between the year 2010 and the year 2255.
            assert!(before > 0 || (1_263_000_000_000_000..1 << 53).contains(&all[0]));
        }
    }

    #[test]
    fn a_dialog_has_one_id_at_every_writer() {
        let id = |record: &CallRecord| {
            let read: serde_json::Value = serde_json::from_str(&text(record)).expect("JSON");
            read["id"].as_str().expect("a text").to_owned()
        };
        let first = record();
        let again = CallRecord { began: CallStart::Token(1_289_690_900), ..first.clone() };
        assert_eq!(id(&first), id(&again));
        let other = Accepted { at: None, tag: b"c"[..].into() };
        assert_ne!(id(&first), id(&CallRecord { accepted: Some(other), ..first.clone() }));
        assert_ne!(
            id(&first),
            id(&CallRecord { began_unix: 1_289_690_931, ..first.clone() }),
            "Call-ID and tags are used again"
        );
        let refused = CallRecord { accepted: None, ..first };
        let later = CallRecord { began: CallStart::Seen(Instant::from_millis(1_500)), ..refused.clone() };
        assert_ne!(id(&refused), id(&later), "a repeated call has another ID");
    }
}
