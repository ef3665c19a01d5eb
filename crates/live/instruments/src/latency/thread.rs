//! The thread that captures and measures.

use super::error::LatencyError;
use crate::capture::Capture;
use base::Instant;
use monitor::{LinkLayer, Monitor, MonitorSettings, WindowReport, file, ip_packet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sockets::{ReceiveBatch, UdpSocket, Waker};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Batches that are read between two looks at the clock: some thousand packets, a few milliseconds.
const BATCHES: usize = 64;
/// Time for which packets gather before they are read. A wake-up costs more than a packet, and the kernel has stamped
/// the time of arrival.
const GATHER: Duration = Duration::from_millis(5);
/// With this many batches at once, packets arrive fast enough without waiting.
const FEW: usize = 16;
/// Most batches that are read after the end: more than the buffers hold. Without this limit a flood would keep it
/// running.
const LAST: usize = 4096;

/// Source of messages.
pub(super) enum Input {
    Capture(Capture),
    Hep { socket: UdpSocket, batch: Box<ReceiveBatch>, lost: u32 },
}

impl Input {
    pub(super) fn hep(socket: UdpSocket) -> Self {
        Self::Hep { socket, batch: Box::default(), lost: 0 }
    }

    /// Returns the number of packets that the kernel dropped since the last call.
    fn lost(&mut self) -> io::Result<u64> {
        match self {
            Self::Capture(capture) => capture.lost(),
            Self::Hep { socket, lost, .. } => {
                let now = socket.lost_datagrams()?;
                Ok(now.wrapping_sub(std::mem::replace(lost, now)).into())
            }
        }
    }
}

impl AsFd for Input {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Capture(capture) => capture.as_fd(),
            Self::Hep { socket, .. } => socket.as_fd(),
        }
    }
}

/// A capture file that is being written.
struct Copy {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Copy {
    fn packet(&mut self, at: Instant, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(&file::record(at, bytes.len()))?;
        self.file.write_all(bytes)
    }
}

/// State shared between the thread and its owner.
pub(super) struct Control {
    pub(super) stop: AtomicBool,
    pub(super) waker: Waker,
}

/// State of the thread.
pub(super) struct Watcher {
    input: Input,
    monitor: Monitor,
    copy: Option<Copy>,
    control: Arc<Control>,
}

impl Watcher {
    pub(super) fn new(
        input: Input,
        settings: MonitorSettings,
        file: Option<(PathBuf, File)>,
        control: Arc<Control>,
    ) -> Result<Self, LatencyError> {
        let copy = file.map(|(path, file)| {
            let mut file = BufWriter::with_capacity(1 << 20, file);
            match file.write_all(&file::header()) {
                Ok(()) => Ok(Copy { path, file }),
                Err(error) => Err(LatencyError::File { path, error }),
            }
        });
        Ok(Self { input, monitor: Monitor::new(settings), copy: copy.transpose()?, control })
    }

    /// Runs until it is stopped; `clock` returns the time since 1970.
    pub(super) fn run(
        mut self,
        clock: impl Fn() -> Instant,
        mut report: impl FnMut(&WindowReport),
    ) -> Result<(), LatencyError> {
        self.monitor.advance(clock(), &mut report);
        let mut batches = 0;
        while !self.control.stop.load(Ordering::Acquire) {
            self.wait(clock());
            if batches < FEW {
                self.sleep(&[], GATHER);
            }
            // The clock is read first, so that packets that have arrived by then are read before a window ends by it.
            batches = self.drain(BATCHES, clock(), &mut report)?;
            self.tick(batches < BATCHES, &mut report)?;
        }
        // Packets that have arrived already still count.
        let now = clock();
        self.drain(LAST, now, &mut report)?;
        self.monitor.dropped(self.input.lost()?);
        self.monitor.finish(now, &mut report);
        self.flush()
    }

    /// Sleeps until there is input, or a window is over.
    fn wait(&self, now: Instant) {
        let due = self.monitor.wake_at().unwrap_or(now);
        self.sleep(&[PollFd::new(&self.input, PollFlags::IN)], due.saturating_since(now));
    }

    /// Sleeps until one of these is ready, the timeout is over, or the thread should stop.
    fn sleep<'a>(&'a self, on: &[PollFd<'a>], timeout: Duration) {
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        let waker = &self.control.waker;
        waker.going_to_sleep();
        if !self.control.stop.load(Ordering::Acquire) {
            let mut fds = [on, &[PollFd::new(waker, PollFlags::IN)]].concat();
            // After an interruption by a signal nothing is ready, and the loop goes on.
            let _ = poll(&mut fds, Some(&timeout));
        }
        waker.awake();
    }

    /// Reads at most this many batches, and returns their number.
    fn drain(
        &mut self,
        most: usize,
        now: Instant,
        report: &mut impl FnMut(&WindowReport),
    ) -> Result<usize, LatencyError> {
        let mut batches = 0;
        self.monitor.set_clock(now);
        while batches < most && self.read(now, report)? {
            batches += 1;
        }
        Ok(batches)
    }

    /// Reads a batch. Returns whether there may be more.
    fn read(&mut self, now: Instant, report: &mut impl FnMut(&WindowReport)) -> Result<bool, LatencyError> {
        let Self { input, monitor, copy, .. } = self;
        match input {
            Input::Capture(capture) => {
                let mut written = Ok(());
                let more = capture.read(|packet| {
                    let Some(bytes) = ip_packet(packet.kind, packet.bytes) else { return };
                    monitor.advance(packet.at, &mut *report);
                    monitor.packet(packet.at, LinkLayer::Ip, bytes);
                    if let (Some(copy), true) = (copy.as_mut(), written.is_ok()) {
                        written = copy.packet(packet.at, bytes);
                    }
                })?;
                match (written, copy) {
                    (Err(error), Some(copy)) => Err(LatencyError::File { path: copy.path.clone(), error }),
                    _ => Ok(more),
                }
            }
            Input::Hep { socket, batch, .. } => {
                let count = batch.receive(socket)?;
                for (packet, _) in batch.iter() {
                    // Windows end by the clock of this host, not by times of other hosts. Packets that are not HEP are
                    // counted.
                    let _ = monitor.hep(now, packet);
                }
                Ok(count > 0)
            }
        }
    }

    /// Ends windows that are over.
    fn tick(
        &mut self,
        is_all_read: bool,
        report: &mut impl FnMut(&WindowReport),
    ) -> Result<(), LatencyError> {
        self.monitor.dropped(self.input.lost()?);
        let before = self.monitor.deadline();
        self.monitor.tick(is_all_read, report);
        if self.monitor.deadline() == before { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), LatencyError> {
        match &mut self.copy {
            None => Ok(()),
            Some(Copy { path, file }) => {
                file.flush().map_err(|error| LatencyError::File { path: path.clone(), error })
            }
        }
    }
}
