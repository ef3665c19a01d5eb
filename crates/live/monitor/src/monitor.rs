//! The monitor: from what was captured to a report for each window.

use crate::captured::{Captured, Servers};
use crate::counts::Counts;
use crate::hep::{self, HepError};
use crate::packet::{Decoder, Link};
use crate::pair::{Pairing, Pairs};
use crate::window::{Latencies, Window};
use base::Instant;
use core::time::Duration;
use wire::{begins_message, scan};

/// Empty windows that are reported one after the other where nothing was captured for long, as in a file of two days.
const EMPTY_MAX: u64 = 60;

/// A clock that has gone back by more than this was set.
const SET_BACK: Duration = Duration::from_secs(10);

/// How long after its end a window is ended by the clock: what was captured in it can be read by then.
const GRACE: Duration = Duration::from_millis(20);

/// A window is late if more than this part of its messages was lost before it came here: 1/100.
const LOST_PARTS: u64 = 100;
/// A window that is ended so long after its end is late.
const LATE: Duration = Duration::from_millis(100);

/// A window that has so much unread behind its end is ended all the same where packets do not end it: a flood leaves
/// some for ever.
const BEHIND: Duration = Duration::from_secs(1);

/// How far the clock of a sender of HEP may be off.
const CLOCKS_DIFFER: Duration = Duration::from_mins(1);

/// What is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The addresses of the server.
    pub servers: Servers,
    /// From which message to which.
    pub pairing: Pairing,
    /// How long a window lasts.
    pub window: Duration,
    /// How long a request waits for what it is paired with, and is remembered.
    pub timeout: Duration,
    /// Requests that are remembered at a time.
    pub table: usize,
    /// The secret of the table's hash: any numbers that strangers do not know.
    pub key: [u64; 2],
}

impl Settings {
    /// Requests that are remembered unless told otherwise: 20,000 new ones a second for 32 s. They take 40 MB then.
    pub const TABLE: usize = 640_000;

    /// Windows of a second, and what suits the pairing.
    pub fn new(servers: Servers, pairing: Pairing) -> Self {
        let timeout = pairing.timeout();
        Self { servers, pairing, window: Duration::from_secs(1), timeout, table: Self::TABLE, key: [0, 0] }
    }
}

/// A window that is over.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Report {
    /// Its latencies.
    pub window: Window,
    /// What happened in it.
    pub counts: Counts,
    /// What has happened since the start.
    pub totals: Counts,
    /// Requests that wait at its end.
    pub waiting: usize,
    /// The age of the oldest request newer than every answered one; `None` with fewer than two such requests, of which
    /// one alone may be lost. A server that stands still lets all wait, also where a window had no request.
    pub oldest: Option<Duration>,
    /// Whether this process was late: the window was ended long after its end, or while not all was read that had
    /// come, or its clock was set back, or it stood still in a part of the window, or more than a hundredth of the packets
    /// were lost. So it may have what belongs to others, or lack some.
    pub is_late: bool,
}

/// Takes what was captured and measures.
///
/// - Input, in about the order of time: [`packet`](Self::packet), [`hep`](Self::hep) or [`message`](Self::message);
///   [`dropped`](Self::dropped) for what the kernel lost.
/// - Output: [`advance`](Self::advance) before each input with its time; at the end [`finish`](Self::finish).
/// - Of what passes now: [`set_clock`](Self::set_clock) before what has come is read, [`tick`](Self::tick) after it,
///   at [`wake_at`](Self::wake_at) at the latest.
#[derive(Debug)]
pub struct Monitor {
    decoder: Decoder,
    measuring: Measuring,
    /// When windows are due; `None` before the first input.
    end: Option<Instant>,
    window: Duration,
    /// Totals at the beginning of the window.
    before: Counts,
    /// The time of this host, before what is read now was read; `None` of a file.
    clock: Option<Instant>,
    /// Whether windows end by the clock alone: input is HEP, whose times are strangers'.
    is_by_clock: bool,
    /// Whether the open window is late already.
    is_late: bool,
    /// What came before this time was read late: this process stood still.
    stalled_until: Instant,
}

/// All but what makes messages of packets, which hands them on while it is borrowed.
#[derive(Debug)]
struct Measuring {
    servers: Servers,
    pairs: Pairs,
    latencies: Latencies,
    totals: Counts,
}

impl Monitor {
    /// Without anything captured so far.
    pub fn new(settings: Settings) -> Self {
        let Settings { servers, pairing, window, timeout, table, key } = settings;
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
    pub fn packet(&mut self, at: Instant, link: Link, bytes: &[u8]) {
        let Self { decoder, measuring, .. } = self;
        // The decoder has the counts meanwhile.
        let mut totals = measuring.totals;
        decoder.packet(at, link, bytes, &mut totals, &mut |captured, totals| {
            measuring.message(captured, totals);
        });
        measuring.totals = totals;
    }

    /// Takes a HEP packet, whose message has the time that its sender gave it. If that is far from `now`, the clocks
    /// differ, and nothing could be paired or would ever be forgotten.
    ///
    /// # Errors
    /// It is none with SIP in it.
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

    /// So many packets more were lost before they came here.
    pub fn dropped(&mut self, packets: u64) {
        self.measuring.totals.dropped += packets;
    }

    /// When the window ends that is open now.
    pub fn deadline(&self) -> Option<Instant> {
        self.end
    }

    /// When [`tick`](Self::tick) may end a window.
    pub fn wake_at(&self) -> Option<Instant> {
        self.end.map(|end| end + GRACE)
    }

    /// The clock of this host shows `now`, and what has come is about to be read.
    pub fn set_clock(&mut self, now: Instant) {
        self.clock = Some(now);
    }

    /// What had come when the clock was set was read, all of it or not. Ends the windows that are over by then. While
    /// something is unread, packets end their windows by their own times: the clock is ahead of them. Where they do
    /// not, the window is late, and so is the next one, if this one has to end.
    pub fn tick(&mut self, is_all_read: bool, report: impl FnMut(&Report)) {
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

    /// Ends the windows that are over by `now`, and reports each. Windows begin at multiples of their length. Time
    /// that goes backwards ends none; a clock that was set back begins anew. A packet alone that is older than the
    /// clock is none.
    pub fn advance(&mut self, now: Instant, mut report: impl FnMut(&Report)) {
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

    /// Ends the last window, at `now` or where it would have ended; what waits still has no answer.
    pub fn finish(&mut self, now: Instant, mut report: impl FnMut(&Report)) {
        self.advance(now, &mut report);
        if let Some(end) = self.end.take() {
            report(&self.end_window(end));
        }
    }

    /// Where the window begins that `now` is in.
    fn start(&self, now: Instant) -> Instant {
        let window = u64::try_from(self.window.as_nanos()).unwrap_or(u64::MAX).max(1);
        Instant::from_nanos(now.as_nanos() / window * window)
    }

    fn end_window(&mut self, end: Instant) -> Report {
        let Measuring { pairs, latencies, totals, .. } = &mut self.measuring;
        pairs.expire(end, totals);
        let counts = totals.since(&self.before);
        self.before = *totals;
        let overlaps = self.stalled_until + self.window > end;
        let is_late = self.clock.is_some_and(|clock| clock >= end + LATE)
            || overlaps
            || counts.dropped * LOST_PARTS > counts.messages;
        Report {
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
        // RFC 3261 §7.5, RFC 5626 §4.4.1: empty lines before a message, or alone, as keep-alives.
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
        // Two messages without one would be of the same call.
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
