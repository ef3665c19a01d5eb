//! Connections to PostgreSQL, whatever is kept there.

use crate::remote::SettingsError;
use core::time::Duration;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, Error, NoTls};

/// Reads the URL of the database of what `what` says.
pub(crate) fn config(url: &str, what: &str) -> Result<Config, SettingsError> {
    let config: Config = url.parse().map_err(|error| {
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
    Ok(config)
}

/// Connects, with statements that take so long at most.
pub(crate) async fn connect(config: &Config, timeout: Duration) -> Result<Client, Error> {
    let (client, connection) = config.connect(NoTls).await?;
    // Runs until the connection ends; what went wrong is told to who asks.
    tokio::spawn(async { drop(connection.await) });
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

/// Whether a value is to blame (class 22 of SQLSTATE, data exception), such as a character that the database's encoding does not
/// have. The connection is as good as before.
pub(crate) fn is_of_value(error: &Error) -> bool {
    error.code().is_some_and(|code| code.code().starts_with("22"))
}
