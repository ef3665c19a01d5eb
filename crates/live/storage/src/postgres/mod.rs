//! Connections to PostgreSQL, for users and for call records.

mod guard;
mod secure;

use crate::remote::SettingsError;
use core::fmt;
use core::time::Duration;
use guard::Guard;
use secure::Secure;
use std::path::{Path, PathBuf};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::config::{Host, SslMode, SslNegotiation};
use tokio_postgres::{Client, Config, Connection, Error, NoTls};

/// Address of a database.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    config: Config,
    way: Way,
}

/// Protection of the connection to the server.
#[derive(Clone, Debug)]
enum Way {
    /// None: a Unix socket, or a user who allows clear text.
    Plain,
    /// No TLS: the password must not be sent in clear text.
    Guarded,
    /// TLS, with the authorities of the server. The user may then allow clear text.
    Tls { authorities: Option<PathBuf>, clear_text: bool },
}

impl Place {
    /// Reads the URL of the database of these `contents`. With TLS, the authorities in the file are trusted, or those
    /// of the system.
    pub(crate) fn read(url: &str, authorities: Option<&Path>, contents: &str) -> Result<Self, SettingsError> {
        let (url, allowed) = without_own(url);
        let mut config: Config = url.parse().map_err(|error| {
            // The parser names the part that it cannot read, but not its value.
            let why = text(&error);
            SettingsError(format!(
                "the URL of the database of {contents}: {why}; expected a URL like \
                 postgres://user:password@host:5432/name"
            ))
        })?;
        if config.get_hosts().is_empty() {
            return Err(SettingsError(format!("the URL of the database of {contents} names no host")));
        }
        let is_unix = |host: &Host| matches!(host, Host::Unix(_));
        let sockets = config.get_hosts().iter().filter(|host| is_unix(host)).count();
        if sockets != 0 && sockets != config.get_hosts().len() {
            return Err(SettingsError(format!(
                "the URL of the database of {contents} names both hosts and Unix sockets: name only one kind"
            )));
        }
        let is_secure = allowed.verify_full || config.get_ssl_mode() == SslMode::Require;
        if is_secure && sockets != 0 {
            return Err(SettingsError(format!(
                "the URL of the database of {contents} requires TLS on a Unix socket, which has none; omit sslmode"
            )));
        }
        let way = if is_secure {
            config.ssl_mode(SslMode::Require);
            secure::settings(authorities).map_err(SettingsError)?;
            Way::Tls { authorities: authorities.map(Path::to_owned), clear_text: allowed.clear_text }
        } else if sockets == 0 && !allowed.clear_text {
            // The library treats the guard as TLS that was agreed on before.
            config.ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct);
            Way::Guarded
        } else {
            config.ssl_mode(SslMode::Disable);
            Way::Plain
        };
        Ok(Self { config, way })
    }

    /// Connects, with this time limit for statements.
    pub(crate) async fn connect(&self, timeout: Duration) -> Result<Client, Error> {
        let client = match &self.way {
            Way::Plain => connected(self.config.connect(NoTls).await?),
            Way::Guarded => connected(self.config.connect(Guard).await?),
            Way::Tls { authorities, clear_text } => {
                let tls = Secure { authorities: authorities.clone(), clear_text: *clear_text };
                connected(self.config.connect(tls).await?)
            }
        };
        // Otherwise the server would continue a statement that timed out here, for example behind a locked table, and
        // keep its connection.
        let milliseconds = timeout.as_millis().max(1);
        client.batch_execute(&format!("SET statement_timeout = {milliseconds}")).await?;
        Ok(client)
    }
}

/// Runs a connection until it ends; the client reports its errors.
fn connected<S, T>((client, connection): (Client, Connection<S, T>)) -> Client
where
    Connection<S, T>: Future<Output = Result<(), Error>> + Send + 'static,
{
    tokio::spawn(async { drop(connection.await) });
    client
}

/// Parameters of libpq in the URL that the client library does not support.
struct Own {
    clear_text: bool,
    verify_full: bool,
}

/// Returns the URL without `require_auth=password` and `sslmode=verify-full`, and whether it had these.
fn without_own(url: &str) -> (String, Own) {
    let mut own = Own { clear_text: false, verify_full: false };
    let Some((head, query)) = url.split_once('?') else { return (url.to_owned(), own) };
    let mut others = Vec::new();
    for parameter in query.split('&') {
        match parameter {
            "require_auth=password" => own.clear_text = true,
            "sslmode=verify-full" => own.verify_full = true,
            other => others.push(other),
        }
    }
    let url = if others.is_empty() { head.to_owned() } else { format!("{head}?{}", others.join("&")) };
    (url, own)
}

/// A connection, driven by its thread during each request.
pub(crate) struct Session {
    runtime: Runtime,
    pub(crate) client: Client,
    /// Time limit of a request.
    timeout: Duration,
}

impl Session {
    /// Connects, with this time limit for statements.
    pub(crate) fn open(place: &Place, timeout: Duration) -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("no runtime for a connection: {error}"))?;
        let client = run(&runtime, timeout, place.connect(timeout)).map_err(|failure| failure.to_string())?;
        Ok(Self { runtime, client, timeout })
    }

    /// Runs a request.
    pub(crate) fn run<T>(&self, future: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
        run(&self.runtime, self.timeout, future)
    }

    /// Whether the connection can still be used.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.run(self.client.check_connection()).map_err(|failure| failure.to_string())
    }
}

fn run<T>(
    runtime: &Runtime,
    timeout: Duration,
    future: impl Future<Output = Result<T, Error>>,
) -> Result<T, Failure> {
    let result = runtime.block_on(async { tokio::time::timeout(timeout, future).await });
    result.map_err(|_| Failure::Silent(timeout))?.map_err(Failure::Error)
}

/// Reason why there is no answer.
pub(crate) enum Failure {
    /// The server has not answered for this time.
    Silent(Duration),
    Error(Error),
}

impl Failure {
    /// Whether the error has this class of SQLSTATE, its first two characters. Class 22, data exception, concerns a
    /// value, such as a character that the database's encoding lacks: the connection is still usable.
    pub(crate) fn is_of_class(&self, class: &str) -> bool {
        let Self::Error(error) = self else { return false };
        error.code().is_some_and(|code| code.code().starts_with(class))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent(timeout) => write!(f, "no answer within {timeout:?}"),
            Self::Error(error) => f.write_str(&text(error)),
        }
    }
}

/// Text of an error with its cause, which the client's errors store apart.
fn text(error: &Error) -> String {
    use core::error::Error as _;
    match error.as_db_error() {
        Some(error) => format!("{} (SQLSTATE {})", error.message(), error.code().code()),
        None => error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}")),
    }
}
