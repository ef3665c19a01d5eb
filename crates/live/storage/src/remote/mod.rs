//! A server that threads of ours ask: they connect, take what waits, and connect again when the connection is lost.
//!
//! One machine for every server, so that all fail in the same way:
//!
//! - What is asked waits in a queue of bounded length for a bounded time, and is answered once, by a callback.
//! - While no connection stands, and an attempt at one has failed, all that waits and all that comes is refused at
//!   once with the reason. Nobody waits for a dead server longer than its time-out.
//! - Each thread has one connection, so there are as many of them as threads. After a failure it rests, longer each
//!   time ([`Backoff`]), and tries again until the last handle is gone.
//! - A connection that nobody uses is checked each second: the status is true without traffic, and who comes first
//!   after a restart of the server does not find a dead connection.

mod backoff;
mod shared;
mod status;

use backoff::Backoff;
use core::time::Duration;
use shared::Shared;
pub use status::{SettingsError, Status};
use std::sync::Arc;

/// What differs between servers.
pub(crate) trait Server: Send + Sync + 'static {
    /// One connection, used by one thread.
    type Connection;
    /// A question with the callback for its answer. When it is dropped without one, it has to answer with an error.
    type Job: Send + 'static;

    /// Name of the threads, at most 15 bytes.
    const THREAD: &'static str;
    /// Jobs that are taken at once.
    const BATCH_MAX: usize;

    /// How long a job may wait to be taken; it is refused then. A server that is too slow would else make everybody
    /// wait for the whole queue.
    fn patience(&self) -> Duration;

    /// Connects, and finds out whether the server can be used. Has to end within a bounded time.
    fn connect(&self) -> Result<Self::Connection, String>;

    /// Whether the connection can still be used. Has to end within a bounded time.
    fn check(&self, connection: &mut Self::Connection) -> Result<(), String>;

    /// Asks and answers. Has to end within a bounded time.
    fn serve(&self, connection: &mut Self::Connection, jobs: Vec<Self::Job>) -> Served;

    /// Answers a job that is not done.
    fn refuse(job: Self::Job, why: &str);
}

/// What became of the jobs of a batch. All have been answered.
#[derive(Default)]
pub(crate) struct Served {
    /// How many of them got an error.
    pub(crate) failed: u64,
    /// Why the connection cannot be used any more.
    pub(crate) lost: Option<String>,
}

/// A handle to the threads; they end when the last one is gone and what waits has been answered.
pub(crate) struct Remote<S: Server> {
    shared: Arc<Shared<S>>,
}

impl<S: Server> Remote<S> {
    /// Starts so many threads. Does not wait for their connections: what is asked meanwhile waits for the first one,
    /// or for the first failure.
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

    /// Has a job done, or refuses it at once, on this thread.
    pub(crate) fn submit(&self, job: S::Job) {
        if let Err((job, why)) = self.shared.push(job) {
            S::refuse(job, &why);
        }
    }

    pub(crate) fn status(&self) -> Status {
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

/// What a connected thread has to do next.
enum Next<J> {
    Serve(Vec<J>),
    /// They have waited too long.
    Refuse(Vec<J>),
    /// Nothing has come for a while.
    Check,
    /// Nobody is left who could ask.
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

    /// Serves until the connection is lost, or until nobody can ask any more.
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
                    let why = format!("it is too slow: waited {:?} to be asked", server.patience());
                    self.shared.refuse(jobs, &why);
                    // Nothing was asked, so nothing is known of the connection.
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
    /// Also when a callback panics: whoever asks later must not wait for a thread that is gone.
    fn drop(&mut self) {
        self.shared.remove_thread(self.is_connected);
    }
}

#[cfg(test)]
mod tests;
