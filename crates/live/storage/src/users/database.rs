//! Connections to the PostgreSQL database of users.

use super::SubscriberSettings;
use super::row::{Key, QUERY, Row};
use super::subscribers::Job;
use crate::postgres::{Place, Session};
use crate::remote::{Served, Server, SettingsError};
use core::time::Duration;
use tokio_postgres::{Error, Statement};

/// Address of the database.
pub(crate) struct Database {
    place: Place,
    timeout: Duration,
}

impl Database {
    pub(crate) fn new(settings: &SubscriberSettings) -> Result<Self, SettingsError> {
        let place = Place::read(&settings.url, settings.authorities.as_deref(), "users")?;
        Ok(Self { place, timeout: settings.timeout })
    }
}

/// One connection.
pub(crate) struct Connection {
    session: Session,
    statement: Statement,
}

impl Connection {
    async fn look_up(&self, key: &Key) -> Result<Option<Row>, Error> {
        let (username, domain) = (&&*key.username, &&*key.domain);
        let rows = self.session.client.query(&self.statement, &[username, domain]).await?;
        let [row] = &rows[..] else { return Ok(None) };
        let column = |index: usize| row.try_get::<_, Option<&str>>(index);
        // The collation of the database may treat different letters as equal.
        let is = |found: Option<&str>, wanted: &str| found == Some(wanted);
        if !is(column(0)?, username) || !is(column(1)?, domain) {
            return Ok(None);
        }
        let text = |index: usize| column(index).map(|text| text.map(Into::into));
        Ok(Some(Row { password: text(2)?, ha1: text(3)?, ha1b: text(4)? }))
    }
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
        let session = Session::open(&self.place, self.timeout)?;
        let statement = session.run(session.client.prepare(QUERY)).map_err(|failure| failure.to_string())?;
        Ok(Connection { session, statement })
    }

    fn check(&self, connection: &mut Connection) -> Result<(), String> {
        connection.session.check()
    }

    fn serve(&self, connection: &mut Connection, jobs: Vec<Job>) -> Served {
        let mut served = Served::default();
        for job in jobs {
            if let Some(why) = &served.lost {
                served.failed += 1;
                job.failed(why);
                continue;
            }
            match connection.session.run(connection.look_up(&job.wanted.key)) {
                Ok(row) => job.found(row),
                // No row can have such a name.
                Err(failure) if failure.is_of_class("22") => job.found(None),
                Err(failure) => {
                    let why = failure.to_string();
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
