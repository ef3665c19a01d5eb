//! Connections to the PostgreSQL database of users.

use super::SubscriberSettings;
use super::row::{Key, Row};
use super::subscribers::Job;
use crate::postgres::{self, Place};
use crate::remote::{Served, Server, SettingsError};
use core::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, Error, Statement};

/// How to reach the database.
pub(crate) struct Database {
    place: Place,
    query: String,
    has_domain: bool,
    timeout: Duration,
}

impl Database {
    pub(crate) fn new(settings: &SubscriberSettings) -> Result<Self, SettingsError> {
        let place = Place::read(&settings.url, settings.authorities.as_deref(), "users")?;
        if settings.timeout.is_zero() {
            return Err(SettingsError("the timeout of the database of users is 0; give it a second".into()));
        }
        let columns = &settings.columns;
        let has_domain = columns.domain.is_some();
        Ok(Self { place, query: columns.query(), has_domain, timeout: settings.timeout })
    }

    /// Runs something that may take [`Database::timeout`] at most.
    fn run<T>(
        &self,
        runtime: &Runtime,
        future: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Failure> {
        let result = runtime.block_on(async { tokio::time::timeout(self.timeout, future).await });
        result.map_err(|_| Failure::Silent)?.map_err(Failure::Error)
    }

    fn text(&self, failure: &Failure) -> String {
        match failure {
            Failure::Silent => format!("no answer within {:?}", self.timeout),
            Failure::Error(error) => postgres::text(error),
        }
    }

    async fn connect(&self) -> Result<(Client, Statement), Error> {
        let client = self.place.connect(self.timeout).await?;
        let statement = client.prepare(&self.query).await?;
        Ok((client, statement))
    }

    async fn look_up(&self, connection: &Connection, key: &Key) -> Result<Option<Row>, Error> {
        let (username, domain) = (&&*key.username, &&*key.domain);
        let Connection { client, statement, .. } = connection;
        let rows = if self.has_domain {
            client.query(statement, &[username, domain]).await?
        } else {
            client.query(statement, &[username]).await?
        };
        let [row] = &rows[..] else { return Ok(None) };
        let column = |index: usize| row.try_get::<_, Option<&str>>(index);
        // The database may take other letters for the same.
        let is = |found: Option<&str>, wanted: &str| found == Some(wanted);
        if !is(column(0)?, username) || self.has_domain && !is(column(1)?, domain) {
            return Ok(None);
        }
        let text = |index: usize| column(index).map(|text| text.map(Into::into));
        Ok(Some(Row { password: text(2)?, ha1: text(3)?, ha1b: text(4)? }))
    }
}

enum Failure {
    Silent,
    Error(Error),
}

impl Failure {
    /// Whether the value is to blame that was asked for (class 22 of SQLSTATE, data exception), such as a character
    /// that the database's encoding does not have. No row has it, and the connection is as good as before.
    fn is_of_value(&self) -> bool {
        let Self::Error(error) = self else { return false };
        postgres::is_of_value(error)
    }
}

/// One connection, driven by its thread whenever that asks something.
pub(crate) struct Connection {
    runtime: Runtime,
    client: Client,
    statement: Statement,
}

impl Server for Database {
    type Connection = Connection;
    type Job = Job;

    const THREAD: &'static str = "users-postgres";
    const BATCH_MAX: usize = 1;

    fn patience(&self) -> Duration {
        self.timeout
    }

    fn connect(&self) -> Result<Connection, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("no runtime for a connection: {error}"))?;
        let connected = self.run(&runtime, self.connect());
        let (client, statement) = connected.map_err(|failure| self.text(&failure))?;
        Ok(Connection { runtime, client, statement })
    }

    fn check(&self, connection: &mut Connection) -> Result<(), String> {
        let Connection { runtime, client, .. } = connection;
        self.run(runtime, client.check_connection()).map_err(|failure| self.text(&failure))
    }

    fn serve(&self, connection: &mut Connection, jobs: Vec<Job>) -> Served {
        let mut served = Served::default();
        for job in jobs {
            if let Some(why) = &served.lost {
                served.failed += 1;
                job.failed(why);
                continue;
            }
            let found = self.run(&connection.runtime, self.look_up(connection, &job.wanted.key));
            match found {
                Ok(row) => job.found(row),
                Err(failure) if failure.is_of_value() => job.found(None),
                Err(failure) => {
                    let why = self.text(&failure);
                    served.failed += 1;
                    job.failed(&why);
                    served.lost = Some(why);
                }
            }
        }
        served
    }

    fn refuse(job: Job, why: &str) {
        job.failed(why);
    }
}
