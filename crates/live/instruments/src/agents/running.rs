//! Load agents that run: started, asked for results, stopped.

use super::Agent;
use super::link::Link;
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

/// An agent at work on a thread of its own; dropping it stops it.
pub struct Running<R> {
    shared: Arc<Shared<R>>,
    thread: Option<JoinHandle<io::Result<()>>>,
    address: SocketAddr,
}

/// Starts to make calls, by the schedule of `config`, which begins now.
///
/// # Errors
/// When the machine is out of threads or descriptors.
pub fn start_caller(
    link: impl Into<Link>,
    config: CallerConfig,
    rng: Rng,
) -> io::Result<Running<CallResults>> {
    start(link.into(), move |clock| Caller::new(config, clock.now(), rng))
}

/// Starts to take calls.
///
/// # Errors
/// When the machine is out of threads or descriptors.
pub fn start_answerer(
    link: impl Into<Link>,
    config: AnswererConfig,
    rng: Rng,
) -> io::Result<Running<AnswererResults>> {
    start(link.into(), move |_| Answerer::new(config, rng))
}

fn start<A: Agent>(
    link: Link,
    make: impl FnOnce(&Clock) -> A + Send + 'static,
) -> io::Result<Running<A::Results>> {
    let address = link.local_addr()?;
    let shared = Arc::new(Shared::new()?);
    let of_thread = Arc::clone(&shared);
    let thread = std::thread::Builder::new().name(format!("agent-{}", address.port())).spawn(move || {
        // The schedule starts when the thread does, lest its start counts as a delay of the first calls.
        let clock = Clock::start();
        let agent = make(&clock);
        Driver::new(clock, link, agent, of_thread).run()
    })?;
    Ok(Running { shared, thread: Some(thread), address })
}

impl<R: Clone + Default> Running<R> {
    /// Address of its socket.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its results until now, or a moment ago.
    pub fn snapshot(&self) -> Snapshot<R> {
        self.shared.snapshot()
    }

    /// Whether it has ended: a caller does when all its calls have, any agent when its socket fails.
    pub fn is_finished(&self) -> bool {
        self.shared.finished.load(Ordering::Acquire)
    }

    /// Has a caller begin no more calls and end those in progress, by BYE or CANCEL; it has finished after that.
    pub fn wind_down(&self) {
        self.shared.wind_down.store(true, Ordering::Release);
        self.shared.waker.wake();
    }

    /// Ends it at once, and closes its socket. Calls in progress stay as they are, without a BYE.
    pub fn stop(mut self) -> io::Result<Snapshot<R>> {
        self.end()?;
        Ok(self.snapshot())
    }
}

impl<R> Running<R> {
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

impl<R> Drop for Running<R> {
    fn drop(&mut self) {
        if self.thread.is_some() && !std::thread::panicking() {
            // Nobody is left who would want to know.
            let _ = self.end();
        }
    }
}
