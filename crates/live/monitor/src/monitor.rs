//! The monitor: a report for each window of captured messages.

use crate::captured::{Captured, Servers};
use crate::counts::Counts;
use crate::hep::{self, HepError};
use crate::packet::{Decoder, LinkLayer};
use crate::pair::{Pairing, Pairs};
use crate::window::{Latencies, Window};
use base::Instant;
use core::time::Duration;
use wire::{begins_message, scan};

/// Empty windows that are reported in a row after a gap in the capture, as in a file of two days.
const EMPTY_MAX: u64 = 60;

/// A clock that goes back by more than this was set.
const SET_BACK: Duration = Duration::from_secs(10);

/// Time between the end of a window and its end by the clock: its packets can be read by then.
const GRACE: Duration = Duration::from_millis(20);

/// A window is late if more than 1/100 of its messages were lost before they were read.
const LOST_PARTS: u64 = 100;
/// A window that is ended this long after its end is late.
const LATE: Duration = Duration::from_millis(100);

/// Time after which a window is ended although packets are unread and none ends it: in a flood some are always unread.
const BEHIND: Duration = Duration::from_secs(1);

/// Largest difference between the clocks of this host and a sender of HEP.
const CLOCKS_DIFFER: Duration = Duration::from_mins(1);

/// Settings of a measurement.
#[derive(Clone, Debug)]
pub struct MonitorSettings {
    /// The addresses of the server.
    pub servers: Servers,
    /// The pairs of messages between which time is measured.
    pub pairing: Pairing,
    /// Length of a window.
    pub window: Duration,
    /// Time for which a request is remembered and may be paired.
    pub timeout: Duration,
    /// Largest number of requests that are remembered at a time.
    pub table: usize,
    /// Key of the table's hash: any numbers that senders do not know.
    pub key: [u64; 2],
}

impl MonitorSettings {
    /// Default of `table`: 20,000 new requests a second for 32 s. They take 40 MB.
    pub const TABLE: usize = 640_000;

    /// Windows of a second, and the default timeout of the pairing.
    pub fn new(servers: Servers, pairing: Pairing) -> Self {
        let timeout = pairing.timeout();
        Self { servers, pairing, window: Duration::from_secs(1), timeout, table: Self::TABLE, key: [0, 0] }
    }
}

/// A window that is over.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct WindowReport {
    /// Latencies in the window.
    pub window: Window,
    /// Counts of the window.
    pub counts: Counts,
    /// Counts since the start.
    pub totals: Counts,
    /// Requests that are unanswered at its end.
    pub waiting: usize,
    /// Age of the oldest request that is newer than every answered one; `None` with fewer than two such requests, since
    /// a single one may be lost. If a server stops answering, all requests wait, even in a window without a new
    /// request.
    pub oldest: Option<Duration>,
    /// Whether this process was late, so that the window may contain messages of other windows, or lack some. It was
    /// late if it ended the window long after its end, or with packets unread. It was also late if its clock was set
    /// back, or if it stood still during a part of the window. The same holds if more than a hundredth of the packets
    /// were lost.
    pub is_late: bool,
}

/// Measures captured messages.
///
/// - Input, approximately in order of time: [`packet`](Self::packet), [`hep`](Self::hep) or [`message`](Self::message);
///   [`dropped`](Self::dropped) for packets that the kernel lost.
/// - Output: [`advance`](Self::advance) before each input, with its time; [`finish`](Self::finish) at the end.
/// - Live capture: [`set_clock`](Self::set_clock) before waiting packets are read, and [`tick`](Self::tick) after, at
///   [`wake_at`](Self::wake_at) at the latest.
#[derive(Debug)]
pub struct Monitor {
    decoder: Decoder,
    measuring: Measuring,
    /// End of the open window; `None` before the first input.
    end: Option<Instant>,
    window: Duration,
    /// Totals at the start of the window.
    before: Counts,
    /// Time of this host before the last packets were read; `None` for a file.
    clock: Option<Instant>,
    /// Whether windows end by the clock only: the times in HEP are those of other hosts.
    is_by_clock: bool,
    /// Whether the open window is late already.
    is_late: bool,
    /// Packets with earlier times were read late, because this process stood still.
    stalled_until: Instant,
}

/// All state except the decoder, which passes messages on while it is borrowed.
#[derive(Debug)]
struct Measuring {
    servers: Servers,
    pairs: Pairs,
    latencies: Latencies,
    totals: Counts,
}

impl Monitor {
    /// A monitor without input.
    pub fn new(settings: MonitorSettings) -> Self {
        let MonitorSettings { servers, pairing, window, timeout, table, key } = settings;
        let measuring = Measuring {
            servers,
            pairs: Pairs::new(pairing, timeout, table, key),
            latencies: Latencies::new(Instant::ZERO),
            totals: Counts::default(),
        };
        let window = window.max(Duration::from_millis(1));
        Self {
            decoder: Decoder::new(),
            measuring,
            end: None,
            window,
            before: Counts::default(),
            clock: None,
            is_by_clock: false,
            is_late: false,
            stalled_until: Instant::ZERO,
        }
    }

    /// Takes a packet.
    pub fn packet(&mut self, at: Instant, link: LinkLayer, bytes: &[u8]) {
        let Self { decoder, measuring, .. } = self;
        // The decoder changes the counts meanwhile.
        let mut totals = measuring.totals;
        decoder.packet(at, link, bytes, &mut totals, &mut |captured, totals| {
            measuring.message(captured, totals);
        });
        measuring.totals = totals;
    }

    /// Takes a HEP packet. Its message has the time that its sender gave it. If that is far from `now`, the clocks
    /// differ, and the message is dropped: it could not be paired and would never expire.
    ///
    /// # Errors
    /// It is not HEP with SIP.
    pub fn hep(&mut self, now: Instant, packet: &[u8]) -> Result<(), HepError> {
        self.is_by_clock = true;
        let captured = hep::read(packet).inspect_err(|_| self.measuring.totals.not_hep += 1)?;
        let off = now.saturating_since(captured.at).max(captured.at.saturating_since(now));
        if off > CLOCKS_DIFFER {
            self.measuring.totals.wrong_time += 1;
        } else {
            self.measuring.pairs.expect_copies();
            self.message(&captured);
        }
        Ok(())
    }

    /// Takes a message.
    pub fn message(&mut self, captured: &Captured<'_>) {
        let mut totals = self.measuring.totals;
        self.measuring.message(captured, &mut totals);
        self.measuring.totals = totals;
    }

    /// Adds packets that were lost before they were read.
    pub fn dropped(&mut self, packets: u64) {
        self.measuring.totals.dropped += packets;
    }

    /// Returns the end of the open window.
    pub fn deadline(&self) -> Option<Instant> {
        self.end
    }

    /// Returns the time at which [`tick`](Self::tick) may end a window.
    pub fn wake_at(&self) -> Option<Instant> {
        self.end.map(|end| end + GRACE)
    }

    /// Sets the clock of this host, before waiting packets are read.
    pub fn set_clock(&mut self, now: Instant) {
        self.clock = Some(now);
    }

    /// Ends the windows that are over, after packets that had arrived at [`set_clock`](Self::set_clock) were read, all
    /// or some. If some are unread, packets end their windows by their own times, since the clock is ahead of them. If
    /// they do not end one in time, it is ended here, and this window and the next one are late.
    pub fn tick(&mut self, is_all_read: bool, report: impl FnMut(&WindowReport)) {
        let (Some(now), Some(end)) = (self.clock, self.end) else { return };
        if !is_all_read && !self.is_by_clock {
            return;
        }
        let wait = if is_all_read { GRACE } else { BEHIND };
        let until = Instant::from_nanos(now.as_nanos().saturating_sub(wait.as_nanos() as u64));
        self.is_late |= !is_all_read;
        if end <= until || end.saturating_since(until) > self.window + SET_BACK {
            self.advance(until, report);
            self.is_late |= !is_all_read;
        }
    }

    /// Ends the windows that are over by `now`, and reports each. Windows start at multiples of their length. Time that
    /// goes backwards ends none, but a clock that was set back starts anew. A single packet that is older than the
    /// clock does not mean that the clock was set back.
    pub fn advance(&mut self, now: Instant, mut report: impl FnMut(&WindowReport)) {
        if let Some(clock) = self.clock.filter(|clock| clock.saturating_since(now) > LATE) {
            self.stalled_until = clock;
        }
        let Some(mut end) = self.end else {
            let start = self.start(now);
            self.measuring.latencies.end(start);
            self.end = Some(start + self.window);
            return;
        };
        let is_back = |at: Instant| end.saturating_since(at) > self.window + SET_BACK;
        if is_back(now) && self.clock.is_none_or(is_back) {
            end = self.start(now) + self.window;
            (self.is_late, self.stalled_until) = (true, Instant::ZERO);
        }
        for _ in 0..EMPTY_MAX {
            // At the end of time there is no next window.
            if end > now || end.as_nanos() == u64::MAX {
                self.end = Some(end);
                return;
            }
            report(&self.end_window(end));
            end += self.window;
        }
        if end <= now {
            let start = self.start(now);
            self.measuring.latencies.end(start);
            end = start + self.window;
        }
        self.end = Some(end);
    }

    /// Ends the last window, at `now` or at its regular end; waiting requests stay unanswered.
    pub fn finish(&mut self, now: Instant, mut report: impl FnMut(&WindowReport)) {
        self.advance(now, &mut report);
        if let Some(end) = self.end.take() {
            report(&self.end_window(end));
        }
    }

    /// Start of the window that contains `now`.
    fn start(&self, now: Instant) -> Instant {
        let window = u64::try_from(self.window.as_nanos()).unwrap_or(u64::MAX).max(1);
        Instant::from_nanos(now.as_nanos() / window * window)
    }

    fn end_window(&mut self, end: Instant) -> WindowReport {
        let Measuring { pairs, latencies, totals, .. } = &mut self.measuring;
        pairs.expire(end, totals);
        let counts = totals.since(&self.before);
        self.before = *totals;
        let overlaps = self.stalled_until + self.window > end;
        let is_late = self.clock.is_some_and(|clock| clock >= end + LATE)
            || overlaps
            || counts.dropped * LOST_PARTS > counts.messages;
        WindowReport {
            window: latencies.end(end),
            counts,
            totals: *totals,
            waiting: pairs.waiting(),
            oldest: pairs.oldest(end),
            is_late: core::mem::take(&mut self.is_late) || is_late,
        }
    }
}

impl Measuring {
    fn message(&mut self, captured: &Captured<'_>, totals: &mut Counts) {
        let Self { servers, pairs, latencies, .. } = self;
        // RFC 3261 §7.5, RFC 5626 §4.4.1: empty lines come before messages, or alone as keep-alives.
        let start = captured.bytes.iter().position(|b| !matches!(b, b'\r' | b'\n'));
        let Some(start) = start else { return };
        let captured = &Captured { bytes: &captured.bytes[start..], ..*captured };
        if !begins_message(captured.bytes) {
            totals.not_sip += 1;
            return;
        }
        totals.messages += 1;
        if !pairs.wants(captured, servers) {
            return;
        }
        let Ok(message) = scan(captured.bytes) else {
            totals.malformed += 1;
            return;
        };
        // Two messages without a Call-ID would seem to be of the same call.
        if message.call_id().is_empty() {
            totals.malformed += 1;
            return;
        }
        let mut measured = 0;
        pairs.message(captured, &message, servers, totals, |latency| {
            latencies.note(latency);
            measured += 1;
        });
        totals.measured += measured;
    }
}

#[cfg(test)]
mod tests;
