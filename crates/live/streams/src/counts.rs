//! What became of connections.

use super::limits::LimitReached;
use base::Transport;
use wire::FramingFault;

/// Why a connection ended, or was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CloseReason {
    /// The other side has closed it.
    Peer,
    /// The network or the other side has cut it off.
    Error,
    /// Nothing was heard for the time of `idle`.
    Idle,
    /// It was not ready for messages in time: TLS, WebSocket or PROXY header did not come to an end.
    Handshake,
    /// A message was begun and not ended in time.
    SlowMessage,
    /// More waited for the other side than `send_buffer` allows, or it took nothing for too long.
    NotReading,
    /// What came does not begin like a message of SIP.
    NotSip,
    /// Its first line ends with LF alone.
    LineEnd,
    /// The header of a message did not end.
    HeaderTooLong,
    /// A message was longer than any may be.
    MessageTooLong,
    /// A message had no Content-Length.
    MissingContentLength,
    /// A message had a Content-Length that is no number.
    MalformedContentLength,
    /// A message had two Content-Lengths.
    DifferentContentLengths,
    /// TLS found something wrong.
    Tls,
    /// The WebSocket protocol was broken, or `sip` not asked for.
    WebSocket,
    /// The PROXY header is missing or wrong.
    ProxyHeader,
    /// The access list of the listener does not let its source in.
    Denied,
    /// Its source began more than `new_per_second` allows.
    NewPerSecond,
    /// All connections together held more than `memory` allows, and this one more than others.
    Memory,
    /// The member or next hop at its other end is dead.
    Dead,
    /// There were as many connections as `most` allows: it was not accepted, or made room before its first message.
    Most,
    /// There were as many from its source as `most_per_address` allows.
    MostPerAddress,
    /// This process ends, or another one has taken over.
    Stop,
}

impl CloseReason {
    /// All of them.
    pub const ALL: [Self; 23] = [
        Self::Peer,
        Self::Error,
        Self::Idle,
        Self::Handshake,
        Self::SlowMessage,
        Self::NotReading,
        Self::NotSip,
        Self::LineEnd,
        Self::HeaderTooLong,
        Self::MessageTooLong,
        Self::MissingContentLength,
        Self::MalformedContentLength,
        Self::DifferentContentLengths,
        Self::Tls,
        Self::WebSocket,
        Self::ProxyHeader,
        Self::Denied,
        Self::NewPerSecond,
        Self::Memory,
        Self::Dead,
        Self::Most,
        Self::MostPerAddress,
        Self::Stop,
    ];

    /// As metrics name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Error => "error",
            Self::Idle => "idle",
            Self::Handshake => "handshake",
            Self::SlowMessage => "slow_message",
            Self::NotReading => "not_reading",
            Self::NotSip => "not_sip",
            Self::LineEnd => "line_end",
            Self::HeaderTooLong => "header_too_long",
            Self::MessageTooLong => "message_too_long",
            Self::MissingContentLength => "missing_content_length",
            Self::MalformedContentLength => "malformed_content_length",
            Self::DifferentContentLengths => "different_content_lengths",
            Self::Tls => "tls",
            Self::WebSocket => "websocket",
            Self::ProxyHeader => "proxy_header",
            Self::Denied => "denied",
            Self::NewPerSecond => "new_per_second",
            Self::Memory => "memory",
            Self::Dead => "dead",
            Self::Most => "most",
            Self::MostPerAddress => "most_per_address",
            Self::Stop => "stop",
        }
    }
}

impl From<LimitReached> for CloseReason {
    fn from(limit: LimitReached) -> Self {
        match limit {
            LimitReached::All => Self::Most,
            LimitReached::Source => Self::MostPerAddress,
            LimitReached::Rate => Self::NewPerSecond,
        }
    }
}

impl From<FramingFault> for CloseReason {
    fn from(fault: FramingFault) -> Self {
        match fault {
            FramingFault::NotSip => Self::NotSip,
            FramingFault::LineEnd => Self::LineEnd,
            FramingFault::HeaderTooLong => Self::HeaderTooLong,
            FramingFault::MessageTooLong { .. } => Self::MessageTooLong,
            FramingFault::MissingContentLength => Self::MissingContentLength,
            FramingFault::MalformedContentLength => Self::MalformedContentLength,
            FramingFault::DifferentContentLengths => Self::DifferentContentLengths,
        }
    }
}

/// Connections of a thread, or of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamCounts {
    /// Open now, by the place of their transport in [`Transport::ALL`].
    pub open: [u64; Transport::ALL.len()],
    /// Bytes that they hold now: of unfinished messages, and of what waits for the other side.
    pub held: u64,
    /// Accepted since the start.
    pub accepted: u64,
    /// Opened by this process.
    pub opened: u64,
    /// Could not be opened.
    pub connect_failed: u64,
    /// TLS handshakes that took up a session of before.
    pub resumed: u64,
    /// TLS handshakes in full.
    pub handshakes: u64,
    /// Ended, by the place of the reason in [`CloseReason::ALL`].
    pub closed: [u64; CloseReason::ALL.len()],
}

impl StreamCounts {
    /// Counts an end.
    pub(super) fn close(&mut self, reason: CloseReason) {
        self.closed[reason as usize] += 1;
    }

    /// The counts of two threads together.
    #[must_use]
    pub fn merge(mut self, other: &Self) -> Self {
        let sum = |ours: &mut [u64], theirs: &[u64]| {
            ours.iter_mut().zip(theirs).for_each(|(ours, theirs)| *ours += theirs);
        };
        sum(&mut self.open, &other.open);
        sum(&mut self.closed, &other.closed);
        self.held += other.held;
        self.accepted += other.accepted;
        self.opened += other.opened;
        self.connect_failed += other.connect_failed;
        self.resumed += other.resumed;
        self.handshakes += other.handshakes;
        self
    }
}
