//! The running monitor of latency: passes captured packets, or HEP, to a [`monitor::Monitor`] and returns its reports.
//! `docs/monitor.md` describes it for users.
//!
//! - [`start`] opens everything, [`RunningMonitor::report`] waits for the next window, [`RunningMonitor::stop`] ends it;
//! - [`view`]: the form of the JSON,
//! - `thread`: captures and measures,
//! - `capacity`: estimates the capacity, which [`crate::sender`] reports to balancers.

mod capacity;
mod error;
mod thread;
pub mod view;

use crate::capture::{self, Capture};
use crate::clock::Clock;
use crate::sender::Telling;
pub use capacity::{CapacityEstimate, Estimated};
pub use error::LatencyError;
use monitor::MonitorSettings;
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

/// Most windows that wait for the reader of the reports; further ones are dropped.
const REPORTS: usize = 1024;
/// Buffer for HEP packets that are not read yet, in bytes.
const HEP_BUFFER: usize = 16 << 20;

/// Source of messages.
#[derive(Clone, Debug)]
pub enum Source {
    /// The packets at one interface of this host, or at all.
    Interface(Option<String>),
    /// HEP packets that arrive at this address.
    Hep(SocketAddr),
}

/// Options of a monitor.
#[derive(Debug, Default)]
pub struct MonitorOptions {
    /// Ports of next hops to which the server opens connections.
    pub next_ports: Vec<u16>,
    /// File to which all captured packets are written.
    pub write: Option<PathBuf>,
    /// Settings of the capacity estimate.
    pub estimate: Option<elastic::estimate::EstimatorSettings>,
    /// Reports of the capacity to balancers.
    pub telling: Option<Telling>,
}

/// Returns the addresses at which a server of this host takes requests at this port.
pub fn listening(port: u16) -> io::Result<Vec<SocketAddr>> {
    capture::listening(port)
}

/// A running monitor. Dropping it ends it.
pub struct RunningMonitor {
    reports: mpsc::Receiver<Estimated>,
    control: Arc<Control>,
    thread: Option<JoinHandle<Result<(), LatencyError>>>,
}

/// Starts a monitor, and calls `each` with every window that is over, on the thread that measures.
///
/// # Errors
/// Something cannot be opened; the error names it and the remedy.
pub fn start(
    source: Source,
    settings: MonitorSettings,
    options: MonitorOptions,
    mut each: impl FnMut(&Estimated) + Send + 'static,
) -> Result<RunningMonitor, LatencyError> {
    let servers = settings.servers.addresses();
    if servers.len() > capture::SERVERS_MAX {
        return Err(LatencyError::TooManyServers(servers.len()));
    }
    let input = match source {
        Source::Interface(name) => {
            let capture = Capture::open(name.as_deref(), servers, &options.next_ports);
            Input::Capture(capture.map_err(|error| cannot_capture(error, name))?)
        }
        Source::Hep(address) => {
            Input::hep(UdpSocket::bind(address, false, HEP_BUFFER).map_err(|error| {
                cannot_listen(address, &error, "`ss -lunp` shows the process that has it")
            })?)
        }
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
            // All windows that are over pass here.
            let capacity = estimate.as_mut().map(|estimate| estimate.take(report));
            let estimated = Estimated { report: *report, capacity };
            each(&estimated);
            if let (Some(capacity), Some(telling)) = (capacity, &telling) {
                telling.tell(capacity);
            }
            // If the reader is too slow, windows are dropped.
            let _ = to.try_send(estimated);
        })
    };
    let thread = std::thread::Builder::new().name("latency".to_owned()).spawn(run)?;
    Ok(RunningMonitor { reports, control, thread: Some(thread) })
}

fn cannot_capture(error: io::Error, interface: Option<String>) -> LatencyError {
    match (error.kind(), interface) {
        (io::ErrorKind::PermissionDenied, _) => LatencyError::NotPermitted,
        (io::ErrorKind::NotFound, Some(name)) => LatencyError::NoInterface(name),
        _ => error.into(),
    }
}

impl RunningMonitor {
    /// Waits for the end of the next window. Returns `None` after the end of the monitor; [`stop`](Self::stop) returns
    /// the reason.
    pub async fn report(&mut self) -> Option<Estimated> {
        self.reports.recv().await
    }

    /// Ends the monitor. Measurements since the last window become a last window for [`report`](Self::report).
    pub fn end(&self) {
        self.control.stop.store(true, Ordering::Release);
        self.control.waker.wake();
    }

    /// Waits until the monitor has ended.
    ///
    /// # Errors
    /// The reason of its end, unless it was requested.
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

impl Drop for RunningMonitor {
    fn drop(&mut self) {
        if self.thread.is_some() && !std::thread::panicking() {
            // There is no receiver for the error.
            let _ = self.close();
        }
    }
}
