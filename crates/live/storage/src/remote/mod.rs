//! Client of a remote server: threads that connect, take waiting jobs, and reconnect after a loss.
//!
//! All servers use this one machine, so that all fail in the same way:
//!
//! - A job waits in a bounded queue for a bounded time, and is answered once, by a callback.
//! - Without a connection, and after a failed attempt, all waiting and new jobs are refused at once with the reason. No
//!   job waits for a dead server longer than its time-out.
//! - Each thread has one connection. After a failure it pauses, longer each time ([`Backoff`]), and tries again until
//!   the last handle is dropped.
//! - An unused connection is checked each second. So the status is right without traffic, and the first job after a
//!   restart of the server finds no dead connection.

mod backoff;
mod shared;
mod status;

use backoff::Backoff;
use core::time::Duration;
use shared::Shared;
pub use status::{SettingsError, StoreStatus};
use std::sync::Arc;

/// Operations that differ between servers.
pub(crate) trait Server: Send + Sync + 'static {
    /// One connection, used by one thread.
    type Connection;
    /// A request with the callback for its answer. If it is dropped without an answer, it must answer with an error.
    type Job: Send + 'static;

    /// Name of the threads, at most 15 bytes.
    const THREAD: &'static str;
    /// Maximum number of jobs taken at once.
    const BATCH_MAX: usize;

    /// Longest time that a job may wait in the queue; then it is refused. Otherwise every job would wait for the whole
    /// queue of a slow server.
    fn patience(&self) -> Duration;

    /// Connects, and checks whether the server is usable. Must end within a bounded time.
    fn connect(&self) -> Result<Self::Connection, String>;

    /// Whether the connection can still be used. Must end within a bounded time.
    fn check(&self, connection: &mut Self::Connection) -> Result<(), String>;

    /// Sends the requests and answers the jobs. Must end within a bounded time.
    fn serve(&self, connection: &mut Self::Connection, jobs: Vec<Self::Job>) -> Served;

    /// Answers a job that is not executed.
    fn refuse(job: Self::Job, why: &str);
}

/// Result of a batch, all of whose jobs were answered.
#[derive(Default)]
pub(crate) struct Served {
    /// Number of jobs that got an error.
    pub(crate) failed: u64,
    /// Reason why the connection can no longer be used.
    pub(crate) lost: Option<String>,
}

/// Handle to the threads; they end after the last handle is dropped and the waiting jobs are answered.
pub(crate) struct Remote<S: Server> {
    shared: Arc<Shared<S>>,
}

impl<S: Server> Remote<S> {
    /// Starts that many threads. Does not wait for their connections: jobs wait for the first connection, or for the
    /// first failure.
    pub(crate) fn start(server: S, threads: usize, queue_max: usize) -> Result<Self, SettingsError> {
        let remote = Self { shared: Arc::new(Shared::new(server, queue_max)) };
        for _ in 0..threads {
            let thread = Thread::begin(Arc::clone(&remote.shared));
            std::thread::Builder::new()
                .name(S::THREAD.to_owned())
                .spawn(move || thread.run())
                .map_err(|error| SettingsError(format!("thread {}: {error}", S::THREAD)))?;
        }
        Ok(remote)
    }

    /// Queues a job, or refuses it at once on this thread.
    pub(crate) fn submit(&self, job: S::Job) {
        if let Err((job, why)) = self.shared.push(job) {
            S::refuse(job, &why);
        }
    }

    pub(crate) fn status(&self) -> StoreStatus {
        self.shared.status()
    }
}

impl<S: Server> Clone for Remote<S> {
    fn clone(&self) -> Self {
        self.shared.add_handle();
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<S: Server> Drop for Remote<S> {
    fn drop(&mut self) {
        self.shared.remove_handle();
    }
}

/// Next action of a connected thread.
enum Next<J> {
    Serve(Vec<J>),
    /// Refuse these, which have waited too long.
    Refuse(Vec<J>),
    /// Check the connection after a while without jobs.
    Check,
    /// End, as there is no handle left.
    End,
}

/// One thread with its connection.
struct Thread<S: Server> {
    shared: Arc<Shared<S>>,
    is_connected: bool,
}

impl<S: Server> Thread<S> {
    fn begin(shared: Arc<Shared<S>>) -> Self {
        shared.add_thread();
        Self { shared, is_connected: false }
    }

    fn run(mut self) {
        let mut backoff = Backoff::default();
        loop {
            let why = match self.shared.server.connect() {
                Ok(connection) => {
                    self.is_connected = true;
                    self.shared.connected();
                    let Err(why) = self.use_up(connection, &mut backoff) else { return };
                    why
                }
                Err(why) => why,
            };
            self.shared.lost(std::mem::take(&mut self.is_connected), &why);
            if !self.shared.rest(backoff.next()) {
                return;
            }
        }
    }

    /// Serves until the connection is lost, or no handle is left.
    fn use_up(&self, mut connection: S::Connection, backoff: &mut Backoff) -> Result<(), String> {
        let server = &self.shared.server;
        loop {
            match self.shared.take() {
                Next::Serve(jobs) => {
                    let served = server.serve(&mut connection, jobs);
                    self.shared.count_failed(served.failed);
                    served.lost.map_or(Ok(()), Err)?;
                }
                Next::Refuse(jobs) => {
                    let why =
                        format!("it is too slow: a request waited {:?} in the queue", server.patience());
                    self.shared.refuse(jobs, &why);
                    // No request was sent, so the state of the connection is unknown.
                    continue;
                }
                Next::Check => server.check(&mut connection)?,
                Next::End => return Ok(()),
            }
            backoff.reset();
        }
    }
}

impl<S: Server> Drop for Thread<S> {
    /// Also after a panic of a callback, as later jobs must not wait for an ended thread.
    fn drop(&mut self) {
        self.shared.remove_thread(self.is_connected);
    }
}

#[cfg(test)]
mod tests;
