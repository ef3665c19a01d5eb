//! Running load agents: start, results, stop.

use super::Agent;
use super::link::AgentLink;
use super::snapshot::Snapshot;
use super::thread::{Driver, Shared};
use crate::clock::Clock;
use base::Rng;
use load::{Answerer, AnswererConfig, AnswererResults, CallResults, Caller, CallerConfig};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

/// An agent on a thread of its own. Dropping it stops it.
pub struct RunningAgent<R> {
    shared: Arc<Shared<R>>,
    thread: Option<JoinHandle<io::Result<()>>>,
    address: SocketAddr,
}

/// Starts a caller. The schedule of `config` begins now.
///
/// # Errors
/// The machine has no more threads or descriptors.
pub fn start_caller(
    link: impl Into<AgentLink>,
    config: CallerConfig,
    rng: Rng,
) -> io::Result<RunningAgent<CallResults>> {
    start(link.into(), move |clock| Caller::new(config, clock.now(), rng))
}

/// Starts an answerer.
///
/// # Errors
/// The machine has no more threads or descriptors.
pub fn start_answerer(
    link: impl Into<AgentLink>,
    config: AnswererConfig,
    rng: Rng,
) -> io::Result<RunningAgent<AnswererResults>> {
    start(link.into(), move |_| Answerer::new(config, rng))
}

fn start<A: Agent>(
    link: AgentLink,
    make: impl FnOnce(&Clock) -> A + Send + 'static,
) -> io::Result<RunningAgent<A::Results>> {
    let address = link.local_addr()?;
    let shared = Arc::new(Shared::new()?);
    let of_thread = Arc::clone(&shared);
    let thread = std::thread::Builder::new().name(format!("agent-{}", address.port())).spawn(move || {
        // The schedule starts with the thread, so that the start of the thread does not delay the first calls.
        let clock = Clock::start();
        let agent = make(&clock);
        Driver::new(clock, link, agent, of_thread).run()
    })?;
    Ok(RunningAgent { shared, thread: Some(thread), address })
}

impl<R: Clone + Default> RunningAgent<R> {
    /// Returns the address of its socket.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns recent results.
    pub fn snapshot(&self) -> Snapshot<R> {
        self.shared.snapshot()
    }

    /// Whether it has ended: a caller ends with its last call, any agent if its socket fails.
    pub fn is_finished(&self) -> bool {
        self.shared.finished.load(Ordering::Acquire)
    }

    /// Makes a caller start no more calls and end those in progress, by BYE or CANCEL. After that it has finished.
    pub fn wind_down(&self) {
        self.shared.wind_down.store(true, Ordering::Release);
        self.shared.waker.wake();
    }

    /// Stops it at once, and closes its socket. Calls in progress get no BYE.
    pub fn stop(mut self) -> io::Result<Snapshot<R>> {
        self.end()?;
        Ok(self.snapshot())
    }
}

impl<R> RunningAgent<R> {
    fn end(&mut self) -> io::Result<()> {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.waker.wake();
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(outcome)) => outcome,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

impl<R> Drop for RunningAgent<R> {
    fn drop(&mut self) {
        if self.thread.is_some() && !std::thread::panicking() {
            // There is no receiver for the error.
            let _ = self.end();
        }
    }
}
