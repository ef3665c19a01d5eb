//! The thread that captures and measures.

use super::error::LatencyError;
use crate::capture::Capture;
use base::Instant;
use monitor::{Link, Monitor, Report, Settings, file, ip_packet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sockets::{ReceiveBatch, UdpSocket, Waker};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Batches that are read before the clock is looked at again: some thousand packets, a few milliseconds.
const BATCHES: usize = 64;
/// How long packets gather before they are read: to wake up costs more than a packet does, and when it came is the
/// kernel's stamp.
const GATHER: Duration = Duration::from_millis(5);
/// After as many batches at once they come fast enough without.
const FEW: usize = 16;
/// Batches that are read after the end at most: more than buffers hold, and not all that a flood goes on to bring.
const LAST: usize = 4096;

/// Where messages come from.
pub(super) enum Input {
    Capture(Capture),
    Hep { socket: UdpSocket, batch: Box<ReceiveBatch>, lost: u32 },
}

impl Input {
    pub(super) fn hep(socket: UdpSocket) -> Self {
        Self::Hep { socket, batch: Box::default(), lost: 0 }
    }

    /// Packets that the kernel has thrown away since this was asked last.
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

/// A capture file that is written.
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

/// All that the thread has.
pub(super) struct Watcher {
    input: Input,
    monitor: Monitor,
    copy: Option<Copy>,
    control: Arc<Control>,
}

impl Watcher {
    pub(super) fn new(
        input: Input,
        settings: Settings,
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

    /// Works until it is stopped; `clock` gives the time since 1970.
    pub(super) fn run(
        mut self,
        clock: impl Fn() -> Instant,
        mut report: impl FnMut(&Report),
    ) -> Result<(), LatencyError> {
        self.monitor.advance(clock(), &mut report);
        let mut batches = 0;
        while !self.control.stop.load(Ordering::Acquire) {
            self.wait(clock());
            if batches < FEW {
                self.sleep(&[], GATHER);
            }
            // The clock comes first: what has come by then is read before any window ends by it.
            batches = self.drain(BATCHES, clock(), &mut report)?;
            self.tick(batches < BATCHES, &mut report)?;
        }
        // What has passed already still counts.
        let now = clock();
        self.drain(LAST, now, &mut report)?;
        self.monitor.dropped(self.input.lost()?);
        self.monitor.finish(now, &mut report);
        self.flush()
    }

    /// Sleeps until something has come or a window is over.
    fn wait(&self, now: Instant) {
        let due = self.monitor.wake_at().unwrap_or(now);
        self.sleep(&[PollFd::new(&self.input, PollFlags::IN)], due.saturating_since(now));
    }

    /// Sleeps until there is something on one of these, the time is over, or it is to stop.
    fn sleep<'a>(&'a self, on: &[PollFd<'a>], timeout: Duration) {
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        let waker = &self.control.waker;
        waker.going_to_sleep();
        if !self.control.stop.load(Ordering::Acquire) {
            let mut fds = [on, &[PollFd::new(waker, PollFlags::IN)]].concat();
            // Interrupted by a signal: nothing is ready, look again.
            let _ = poll(&mut fds, Some(&timeout));
        }
        waker.awake();
    }

    /// Reads at most so many batches; returns how many there were.
    fn drain(
        &mut self,
        most: usize,
        now: Instant,
        report: &mut impl FnMut(&Report),
    ) -> Result<usize, LatencyError> {
        let mut batches = 0;
        self.monitor.set_clock(now);
        while batches < most && self.read(now, report)? {
            batches += 1;
        }
        Ok(batches)
    }

    /// Takes a batch; says whether there may be more.
    fn read(&mut self, now: Instant, report: &mut impl FnMut(&Report)) -> Result<bool, LatencyError> {
        let Self { input, monitor, copy, .. } = self;
        match input {
            Input::Capture(capture) => {
                let mut written = Ok(());
                let more = capture.read(|packet| {
                    let Some(bytes) = ip_packet(packet.kind, packet.bytes) else { return };
                    monitor.advance(packet.at, &mut *report);
                    monitor.packet(packet.at, Link::Ip, bytes);
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
                    // Windows go by the clock of this host: a stranger's stamp ends none. What is no HEP is counted.
                    let _ = monitor.hep(now, packet);
                }
                Ok(count > 0)
            }
        }
    }

    /// Ends windows that are over.
    fn tick(&mut self, is_all_read: bool, report: &mut impl FnMut(&Report)) -> Result<(), LatencyError> {
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
