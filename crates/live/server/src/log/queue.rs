//! Queue of log lines between the logging threads and the writing thread.

use super::limit::Limit;
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};
use tracing_subscriber::fmt::MakeWriter;

/// Limit of lines that wait for a slow disk or reader. Lines beyond it are lost.
const WAITING: usize = 1_024;
/// Limit of a line in bytes. Text from a peer must not fill the memory through the log.
const LONGEST: usize = 8 << 10;
/// Interval of checks for lines to report as lost or suppressed.
const LOOK: Duration = Duration::from_secs(1);

enum Message {
    Line(Box<[u8]>),
    /// Answered when all earlier messages are written.
    Flush(SyncSender<()>),
}

/// Accepts lines without blocking.
#[derive(Clone)]
pub(super) struct Queue {
    messages: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

impl Queue {
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn push(&self, line: &[u8]) {
        let line = match line.get(..LONGEST) {
            Some(cut) if line.len() > LONGEST => [cut, b"... (cut)\n"].concat().into(),
            _ => line.into(),
        };
        if self.messages.try_send(Message::Line(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all lines pushed so far are written, at most for `patience`.
    pub(super) fn flush(&self, patience: Duration) {
        let end = Instant::now() + patience;
        let (done, is_done) = sync_channel(1);
        let mut message = Message::Flush(done);
        while let Err(TrySendError::Full(back)) = self.messages.try_send(message) {
            if Instant::now() >= end {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
            message = back;
        }
        let _ = is_done.recv_timeout(end.saturating_duration_since(Instant::now()));
    }
}

/// One line on its way into the queue. The library writes each line in one call.
pub(super) struct Line<'a>(&'a Queue);

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Queue {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

/// Standard error without the lock of [`std::io::stderr`]: a thread that blocks there must not block others.
pub(super) struct StandardError(File);

pub(super) fn standard_error() -> io::Result<StandardError> {
    Ok(StandardError(io::stderr().as_fd().try_clone_to_owned()?.into()))
}

impl Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                // Another process with the same pipe or terminal has made it non-blocking.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let _ = poll(&mut [PollFd::new(&self.0, PollFlags::OUT)], None);
                }
                outcome => return outcome,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts the thread that writes to `out`.
pub(super) fn start(out: impl Write + Send + 'static, limit: Limit) -> io::Result<Queue> {
    let (messages, receiver) = sync_channel(WAITING);
    let queue = Queue { messages, lost: Arc::default() };
    let lost = Arc::clone(&queue.lost);
    let writer = LogWriter { out, torn: false, works: true, lost, reported: 0 };
    std::thread::Builder::new().name("log".to_owned()).spawn(move || writer.run(&receiver, &limit))?;
    Ok(queue)
}

/// Writes the lines, and counts the lines that it could not write.
struct LogWriter<W> {
    out: W,
    /// Whether the last write ended within a line.
    torn: bool,
    /// Whether the last line could be written.
    works: bool,
    lost: Arc<AtomicU64>,
    /// Number of lost lines that were reported.
    reported: u64,
}

impl<W: Write> LogWriter<W> {
    fn run(mut self, messages: &Receiver<Message>, limit: &Limit) {
        loop {
            let first = match messages.recv_timeout(LOOK) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            for message in first.into_iter().chain(messages.try_iter()) {
                self.take(message);
            }
            // Both reports go through the queue like every line.
            self.tell();
            limit.tell(Instant::now());
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Line(line) => {
                self.works = self.write(&line).is_ok();
                self.lost.fetch_add(u64::from(!self.works), Ordering::Relaxed);
            }
            // The caller of `flush` may have stopped waiting.
            Message::Flush(done) => drop(done.try_send(())),
        }
    }

    /// Reports the number of lost lines once writing works again.
    fn tell(&mut self) {
        let lost = self.lost.load(Ordering::Relaxed);
        if self.works && lost > self.reported {
            let lines = lost - self.reported;
            tracing::warn!(lines, since_start = lost, "log lines were lost: they could not be written");
            self.reported = lost;
        }
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.torn {
            self.write_all(b"\n")?;
        }
        self.write_all(line)
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.out.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    bytes = &bytes[count..];
                    self.torn = !bytes.is_empty();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A disk with room for a number of bytes.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(usize, Vec<u8>)>>);

    impl Disk {
        fn with_room(room: usize) -> Self {
            Self(Arc::new(Mutex::new((room, Vec::new()))))
        }

        fn make_room(&self) {
            self.0.lock().unwrap().0 = usize::MAX;
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().1.clone()).unwrap()
        }
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (room, written) = &mut *self.0.lock().unwrap();
            let count = bytes.len().min(*room);
            *room -= count;
            written.extend_from_slice(&bytes[..count]);
            if count == 0 { Err(ErrorKind::StorageFull.into()) } else { Ok(count) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const SOON: Duration = Duration::from_secs(30);

    #[test]
    fn lines_without_room_are_counted_and_reported() {
        let disk = Disk::with_room(12);
        let queue = start(disk.clone(), Limit::default()).unwrap();
        for line in ["first\n", "second\n", "third\n"] {
            queue.push(line.as_bytes());
        }
        queue.flush(SOON);
        assert_eq!((disk.text().as_str(), queue.lost()), ("first\nsecond", 2), "cut where the disk was full");
        disk.make_room();
        queue.push(b"fourth\n");
        queue.flush(SOON);
        assert_eq!(disk.text(), "first\nsecond\nfourth\n", "later text begins on a new line");
        assert_eq!(queue.lost(), 2);
    }

    /// A reader that blocks until it is released.
    struct Stalled(Receiver<()>, Disk);

    impl Write for Stalled {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_blocked_reader_delays_no_logging_thread() {
        let (go_on, wait) = sync_channel(0);
        let disk = Disk::with_room(usize::MAX);
        let queue = start(Stalled(wait, disk.clone()), Limit::default()).unwrap();
        let lines = WAITING * 2;
        for line in 0..lines {
            queue.push(format!("{line}\n").as_bytes());
        }
        queue.flush(Duration::ZERO);
        let lost = usize::try_from(queue.lost()).unwrap();
        // One line is being written.
        assert!((lines - WAITING - 1..=lines - WAITING).contains(&lost), "{lost} lost");
        drop(go_on);
        queue.flush(SOON);
        assert_eq!(disk.text().lines().count(), lines - lost);
    }

    #[test]
    fn long_lines_are_cut() {
        let disk = Disk::with_room(usize::MAX);
        let queue = start(disk.clone(), Limit::default()).unwrap();
        queue.push(&vec![b'x'; 100_000]);
        queue.flush(SOON);
        let text = disk.text();
        assert!(text.len() < LONGEST + 20 && text.ends_with("... (cut)\n"));
    }
}
