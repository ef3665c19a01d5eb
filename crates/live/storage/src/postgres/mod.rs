//! Connections to PostgreSQL, whatever is kept there.

mod guard;

use crate::remote::SettingsError;
use core::time::Duration;
use guard::Guard;
use tokio_postgres::config::{Host, SslMode, SslNegotiation};
use tokio_postgres::{Client, Config, Error, NoTls};

/// Reads the URL of the database of what `what` says.
pub(crate) fn config(url: &str, what: &str) -> Result<Config, SettingsError> {
    let (url, clear_text) = without_require_auth(url);
    let mut config: Config = url.parse().map_err(|error| {
        // The parser names the part that it cannot read, and not its value.
        let why = text(&error);
        SettingsError(format!(
            "the URL of the database of {what}: {why}; it has to be like postgres://user:password@host:5432/name"
        ))
    })?;
    if config.get_hosts().is_empty() {
        return Err(SettingsError(format!("the URL of the database of {what} names no host")));
    }
    if config.get_ssl_mode() == SslMode::Require {
        return Err(SettingsError(format!(
            "the URL of the database of {what} wants TLS, which this program does not speak to databases: use a Unix \
             socket, a private network or a tunnel, and leave sslmode out"
        )));
    }
    let is_unix = |host: &Host| matches!(host, Host::Unix(_));
    let sockets = config.get_hosts().iter().filter(|host| is_unix(host)).count();
    if sockets != 0 && sockets != config.get_hosts().len() {
        return Err(SettingsError(format!(
            "the URL of the database of {what} names both hosts and Unix sockets: name the ones or the others"
        )));
    }
    // Nobody is in between who could read along on a Unix socket.
    if sockets == 0 && !clear_text {
        config.ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct);
    }
    Ok(config)
}

/// The URL without `require_auth=password`, and whether it was there: libpq's parameter, which the parser does not
/// know.
fn without_require_auth(url: &str) -> (String, bool) {
    const ALLOWED: &str = "require_auth=password";
    let Some((head, query)) = url.split_once('?') else { return (url.to_owned(), false) };
    let others: Vec<_> = query.split('&').filter(|parameter| *parameter != ALLOWED).collect();
    let url = if others.is_empty() { head.to_owned() } else { format!("{head}?{}", others.join("&")) };
    (url, query.split('&').any(|parameter| parameter == ALLOWED))
}

/// Connects, with statements that take so long at most.
pub(crate) async fn connect(config: &Config, timeout: Duration) -> Result<Client, Error> {
    // A connection runs until it ends; what went wrong is told to who asks.
    let client = if config.get_ssl_mode() == SslMode::Require {
        let (client, connection) = config.connect(Guard).await?;
        tokio::spawn(async { drop(connection.await) });
        client
    } else {
        let (client, connection) = config.connect(NoTls).await?;
        tokio::spawn(async { drop(connection.await) });
        client
    };
    // Else what is given up here, as behind a locked table, would go on there and keep its connection.
    let milliseconds = timeout.as_millis().max(1);
    client.batch_execute(&format!("SET statement_timeout = {milliseconds}")).await?;
    Ok(client)
}

/// A text with its cause, which the client's errors keep apart.
pub(crate) fn text(error: &Error) -> String {
    use core::error::Error as _;
    match error.as_db_error() {
        Some(error) => format!("{} (SQLSTATE {})", error.message(), error.code().code()),
        None => error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}")),
    }
}

/// Whether a value is to blame (class 22 of SQLSTATE, data exception), such as a character that the database's
/// encoding does not have. The connection is as good as before.
pub(crate) fn is_of_value(error: &Error) -> bool {
    is_of_class(error, "22")
}

/// Whether the error is of this class of SQLSTATE, its first two characters.
pub(crate) fn is_of_class(error: &Error, class: &str) -> bool {
    error.code().is_some_and(|code| code.code().starts_with(class))
}
