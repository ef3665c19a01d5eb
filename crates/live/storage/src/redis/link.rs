//! Connection to the Redis server: requests as commands, and replies.

use super::wire::Connection;
use super::{OnReply, RedisSettings};
use crate::remote::{Served, Server, SettingsError};
use ::redis::{ConnectionInfo, IntoConnectionInfo, Pipeline, RedisError, RedisResult, Value, cmd, pipe};
use core::time::Duration;
use location::{Aor, BindingsRecord, Replaced, StoreError, StoreReply, StoreRequest};
use rustls::ClientConfig;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use streams::tls::client_of;

/// Requests sent at once. They share the round trip; more would delay the first ones until the last.
const BATCH_MAX: usize = 128;

/// Prefix of the address-of-record in each key.
const PREFIX: &[u8] = b"sarabande:aor:";

/// Time that a record stays beyond its last binding. The server's clock deletes it, but the proxies' clocks decide when
/// it expires, and the clocks may differ by this much. Readers skip expired bindings, so the only cost is memory.
const CLOCKS_DIFFER_MAX: Duration = Duration::from_hours(1);

/// Compare and set. The server runs a script atomically. A record is never empty, so the empty text stands for no
/// record.
///
/// `KEYS[1]`: the key; `ARGV[1]`: the expected record; `ARGV[2]`: the new record; `ARGV[3]`: time at which the server
/// deletes it, in milliseconds since 1970. Returns 1 if the record was set, 0 if another record is present.
const REPLACE: &str = "\
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
if ARGV[2] ~= '' then redis.call('SET', KEYS[1], ARGV[2], 'PXAT', ARGV[3])
elseif ARGV[1] ~= '' then redis.call('DEL', KEYS[1]) end
return 1";

/// A request in progress; answered with an error if it is dropped, for example by a panic of the thread.
pub(crate) struct Job {
    ask: StoreRequest,
    reply: Option<OnReply>,
}

impl Job {
    pub(super) fn new(ask: StoreRequest, reply: OnReply) -> Self {
        Self { ask, reply: Some(reply) }
    }

    fn answer(mut self, reply: StoreReply) {
        if let Some(callback) = self.reply.take() {
            callback(reply);
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(callback) = self.reply.take() {
            callback(self.ask.failed(StoreError::Unavailable("its thread has ended".to_owned())));
        }
    }
}

/// Address of the server.
pub(crate) struct Link {
    info: ConnectionInfo,
    /// Whether TLS is used.
    is_secure: bool,
    /// File of authorities for the server.
    authorities: Option<PathBuf>,
    timeout: Duration,
}

impl Link {
    pub(super) fn new(settings: &RedisSettings) -> Result<Self, SettingsError> {
        // The error text must not contain the URL, which may hold a password.
        let (url, is_secure) = without_tls(&settings.url);
        let info = url.as_str().into_connection_info().map_err(|error| {
            SettingsError(format!(
                "the URL of the Redis server: {error}; expected a URL like redis://user:password@host:6379/0"
            ))
        })?;
        if settings.timeout.is_zero() {
            return Err(SettingsError(
                "the timeout of the Redis server is 0; set it to some hundred ms".into(),
            ));
        }
        let (authorities, timeout) = (settings.authorities.clone(), settings.timeout);
        let link = Self { info, is_secure, authorities, timeout };
        link.tls().map_err(SettingsError)?;
        Ok(link)
    }

    /// Settings of TLS. The file is read again for each connection, as it may have been replaced.
    fn tls(&self) -> Result<Option<Arc<ClientConfig>>, String> {
        if !self.is_secure {
            return Ok(None);
        }
        let tls =
            client_of(self.authorities.as_deref()).map_err(|error| format!("[tls] authorities: {error}"))?;
        Ok(Some(Arc::new(tls)))
    }

    fn key(aor: &Aor) -> Vec<u8> {
        [PREFIX, aor.key()].concat()
    }

    fn add(ask: &StoreRequest, pipeline: &mut Pipeline) {
        match ask {
            StoreRequest::Read(aor) => {
                pipeline.cmd("GET").arg(Self::key(aor));
            }
            StoreRequest::Replace { aor, expected, new } => {
                let bytes = |record: &Option<BindingsRecord>| {
                    record.as_ref().map(|record| record.as_bytes().to_vec()).unwrap_or_default()
                };
                let dropped = new.as_ref().map(|new| new.expires_at() + CLOCKS_DIFFER_MAX);
                // The server accepts no time before 1970, and none beyond 63 bits.
                let dropped = dropped.unwrap_or_default().as_millis().clamp(1, i64::MAX as u64);
                let script = pipeline.cmd("EVAL").arg(REPLACE).arg(1).arg(Self::key(aor));
                script.arg(bytes(expected)).arg(bytes(new)).arg(dropped);
            }
        }
    }

    /// Text of an error, with the address of the server.
    fn text(&self, error: &RedisError) -> String {
        if error.is_timeout() {
            // The library's text would be "Resource temporarily unavailable".
            return self.silence();
        }
        format!("Redis at {}: {error}", self.info.addr())
    }

    fn silence(&self) -> String {
        format!("Redis at {}: no answer within {:?}", self.info.addr(), self.timeout)
    }

    /// Error of one request.
    fn failure(&self, aor: &Aor, error: &RedisError) -> StoreError {
        if has_code(error, "OOM") {
            StoreError::Full
        } else if has_code(error, "WRONGTYPE") {
            StoreError::Corrupt(format!("key {}: {error}", Self::key(aor).escape_ascii()))
        } else {
            StoreError::Unavailable(self.text(error))
        }
    }

    fn read(&self, aor: &Aor, result: RedisResult<Value>) -> Result<Option<BindingsRecord>, StoreError> {
        let corrupt =
            |fault: &str| Err(StoreError::Corrupt(format!("key {}: {fault}", Self::key(aor).escape_ascii())));
        match result {
            Ok(Value::Nil) => Ok(None),
            Ok(Value::BulkString(bytes)) => match BindingsRecord::from_bytes(&bytes) {
                Some(record) => Ok(Some(record)),
                None => corrupt("a string that is not a record of bindings"),
            },
            Ok(other) => corrupt(&format!("the server answers {other:?}")),
            Err(error) => Err(self.failure(aor, &error)),
        }
    }

    fn replaced(&self, aor: &Aor, result: RedisResult<Value>) -> Result<Replaced, StoreError> {
        match result {
            Ok(Value::Int(1)) => Ok(Replaced::Done),
            Ok(Value::Int(0)) => Ok(Replaced::Conflict),
            Ok(other) => Err(StoreError::Unavailable(format!("the server answers {other:?}"))),
            Err(error) => Err(self.failure(aor, &error)),
        }
    }

    /// Reply to a request.
    fn reply(&self, ask: &StoreRequest, result: RedisResult<Value>) -> StoreReply {
        match ask {
            StoreRequest::Read(aor) => StoreReply::Read(self.read(aor, result)),
            StoreRequest::Replace { aor, .. } => StoreReply::Replaced(self.replaced(aor, result)),
        }
    }
}

/// Returns the URL without TLS, for the client library, and whether it requests TLS.
fn without_tls(url: &str) -> (String, bool) {
    match url.split_once("://") {
        Some((scheme, rest))
            if scheme.eq_ignore_ascii_case("rediss") || scheme.eq_ignore_ascii_case("valkeys") =>
        {
            (format!("redis://{rest}"), true)
        }
        _ => (url.to_owned(), false),
    }
}

/// Whether the error shows that this server cannot serve now: it has become a replica, or loads its data. A new
/// connection may lead to another server, with the same name.
fn is_elsewhere(error: &RedisError) -> bool {
    ["READONLY", "LOADING", "MASTERDOWN"].iter().any(|code| has_code(error, code))
}

/// Whether the server answers with this code. Before version 7, errors of a script have it within the text.
fn has_code(error: &RedisError, code: &str) -> bool {
    error.code() == Some(code) || error.detail().is_some_and(|detail| detail.contains(&format!("-{code} ")))
}

impl Server for Link {
    type Connection = Connection;
    type Job = Job;

    const THREAD: &'static str = "bindings-redis";
    const BATCH_MAX: usize = BATCH_MAX;

    fn patience(&self) -> Duration {
        self.timeout
    }

    fn connect(&self) -> Result<Connection, String> {
        let opened = Connection::open(&self.info, self.tls()?, self.timeout);
        let mut connection = opened.map_err(|error| self.text(&error))?;
        self.check(&mut connection)?;
        Ok(connection)
    }

    /// Replaces no record by none, at a key that no address-of-record has. So a loading server, or a user who may not
    /// run scripts, is found here and not by a registration.
    fn check(&self, connection: &mut Connection) -> Result<(), String> {
        let mut script = cmd("EVAL");
        script.arg(REPLACE).arg(1).arg(PREFIX).arg("").arg("").arg(1);
        let answer = connection.ask(&script, Instant::now() + self.timeout);
        answer.map(drop).map_err(|error| self.text(&error))
    }

    fn serve(&self, connection: &mut Connection, jobs: Vec<Job>) -> Served {
        let mut pipeline = pipe();
        for job in &jobs {
            Self::add(&job.ask, &mut pipeline);
        }
        // Time limit of the batch: the last jobs wait no longer than the first.
        let until = Instant::now() + self.timeout;
        let sent = connection.send(&pipeline.get_packed_pipeline(), until);
        // Reason why reading ends; late replies must not be taken for those to the next batch.
        let mut silent = sent.err().map(|error| self.text(&error));
        let mut served = Served::default();
        for job in jobs {
            if let Some(why) = &silent {
                served.failed += 1;
                Self::refuse(job, why);
                continue;
            }
            let response = connection.receive(until);
            if let Err(error) = &response {
                silent = Some(self.text(error));
            }
            let result = response.and_then(Value::extract_error);
            if let Err(error) = &result {
                served.failed += 1;
                served.lost = is_elsewhere(error).then(|| self.text(error)).or(served.lost);
            }
            let reply = self.reply(&job.ask, result);
            job.answer(reply);
        }
        served.lost = silent.or(served.lost);
        served
    }

    fn refuse(job: Job, why: &str) {
        let reply = job.ask.failed(StoreError::Unavailable(why.to_owned()));
        job.answer(reply);
    }
}
