//! The monitor of latency at work: what passes the interfaces of this host, or what comes as HEP, goes to a
//! [`monitor::Monitor`], and its reports come out. `docs/monitor.md` describes it for users.
//!
//! - [`start`] opens everything, [`Running::report`] waits for the next window, [`Running::stop`] ends it;
//! - [`view`]: the shape of the JSON,
//! - `thread`: captures and measures,
//! - `capacity`: what the server can take; [`crate::sender`] tells balancers of it.

mod capacity;
mod error;
mod thread;
pub mod view;

use crate::capture::{self, Capture};
use crate::clock::Clock;
use crate::sender::Telling;
pub use capacity::{CapacityEstimate, Estimated};
pub use error::LatencyError;
use monitor::Settings;
use sockets::{UdpSocket, Waker, cannot_listen};
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use thread::{Control, Input, Watcher};
use tokio::sync::mpsc;

/// Windows that may wait for the reader of the reports; more are not kept.
const REPORTS: usize = 1024;
/// Room for HEP packets that are not yet read, in bytes.
const HEP_BUFFER: usize = 16 << 20;

/// Where messages come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// The packets at an interface of this host, or at all.
    Interface(Option<String>),
    /// HEP packets that come to this address.
    Hep(SocketAddr),
}

/// Options of a monitor.
#[derive(Debug, Default)]
pub struct Options {
    /// Ports of next hops to which the server opens connections.
    pub next_ports: Vec<u16>,
    /// Writes all that is captured to this file.
    pub write: Option<PathBuf>,
    /// Estimates the capacity of the server with these settings.
    pub estimate: Option<elastic::estimate::Settings>,
    /// Tells balancers of it.
    pub telling: Option<Telling>,
}

/// Where a server of this host takes requests at this port.
pub fn listening(port: u16) -> io::Result<Vec<SocketAddr>> {
    capture::listening(port)
}

/// A monitor at work; ends when dropped.
pub struct Running {
    reports: mpsc::Receiver<Estimated>,
    control: Arc<Control>,
    thread: Option<JoinHandle<Result<(), LatencyError>>>,
}

/// Starts to measure, and has `each` see every window that is over, on the thread that measures.
///
/// # Errors
/// Something cannot be opened; the error names it, and the remedy.
pub fn start(
    source: Source,
    settings: Settings,
    options: Options,
    mut each: impl FnMut(&Estimated) + Send + 'static,
) -> Result<Running, LatencyError> {
    let servers = settings.servers.addresses();
    if servers.len() > capture::SERVERS_MAX {
        return Err(LatencyError::TooManyServers(servers.len()));
    }
    let input = match source {
        Source::Interface(name) => {
            let capture = Capture::open(name.as_deref(), servers, &options.next_ports);
            Input::Capture(capture.map_err(|error| cannot_capture(error, name))?)
        }
        Source::Hep(address) => Input::hep(
            UdpSocket::bind(address, false, HEP_BUFFER)
                .map_err(|error| cannot_listen(address, &error, "who has it? `ss -lunp` tells"))?,
        ),
    };
    let file = options.write.map(|path| match File::create(&path) {
        Ok(file) => Ok((path, file)),
        Err(error) => Err(LatencyError::File { path, error }),
    });
    let file = file.transpose()?;
    let telling = options.telling;
    let mut estimate = options.estimate.map(CapacityEstimate::new);
    let (to, reports) = mpsc::channel(REPORTS);
    let control = Arc::new(Control { stop: AtomicBool::new(false), waker: Waker::new()? });
    let watcher = Watcher::new(input, settings, file, Arc::clone(&control))?;
    let run = move || {
        watcher.run(Clock::since_1970, |report| {
            // The place where each window that is over goes.
            let capacity = estimate.as_mut().map(|estimate| estimate.take(report));
            let estimated = Estimated { report: *report, capacity };
            each(&estimated);
            if let (Some(capacity), Some(telling)) = (capacity, &telling) {
                telling.tell(capacity);
            }
            // Who does not read in time misses some.
            let _ = to.try_send(estimated);
        })
    };
    let thread = std::thread::Builder::new().name("latency".to_owned()).spawn(run)?;
    Ok(Running { reports, control, thread: Some(thread) })
}

fn cannot_capture(error: io::Error, interface: Option<String>) -> LatencyError {
    match (error.kind(), interface) {
        (io::ErrorKind::PermissionDenied, _) => LatencyError::NotPermitted,
        (io::ErrorKind::NotFound, Some(name)) => LatencyError::NoInterface(name),
        _ => error.into(),
    }
}

impl Running {
    /// Waits for the next window to be over. `None` when it has ended; [`stop`](Self::stop) says why.
    pub async fn report(&mut self) -> Option<Estimated> {
        self.reports.recv().await
    }

    /// Ends it; the measurements since the last window are a last window, for [`report`](Self::report).
    pub fn end(&self) {
        self.control.stop.store(true, Ordering::Release);
        self.control.waker.wake();
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// Why it ended, if it was not asked to.
    pub fn stop(mut self) -> Result<(), LatencyError> {
        self.close()
    }

    fn close(&mut self) -> Result<(), LatencyError> {
        self.end();
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(outcome)) => outcome,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.thread.is_some() && !std::thread::panicking() {
            // Nobody is left who would want to know.
            let _ = self.close();
        }
    }
}
