//! Counters of connections, and reasons of their end.

use super::limits::LimitReached;
use base::Transport;
use wire::FramingFault;

/// Reason why a connection ended, or was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CloseReason {
    /// The peer has closed it.
    Peer,
    /// The network or the peer has reset it.
    Error,
    /// No message or keep-alive for the time `idle`.
    Idle,
    /// The connection was not ready for messages in time: TLS, WebSocket or the PROXY header did not complete.
    Handshake,
    /// A message was not complete in time.
    SlowMessage,
    /// The queue was longer than `send_buffer` allows, or the peer read nothing for too long.
    NotReading,
    /// The data do not begin like a SIP message.
    NotSip,
    /// The first line of a message ends with LF alone.
    LineEnd,
    /// The header of a message was too long.
    HeaderTooLong,
    /// A message was too long.
    MessageTooLong,
    /// A message had no Content-Length.
    MissingContentLength,
    /// A message had a Content-Length that is not a number.
    MalformedContentLength,
    /// A message had two Content-Lengths.
    DifferentContentLengths,
    /// TLS failed.
    Tls,
    /// The peer violated the WebSocket protocol, or did not offer `sip`.
    WebSocket,
    /// The PROXY header is missing or wrong.
    ProxyHeader,
    /// The access list of the listener denies its source.
    Denied,
    /// Its source opened more than `new_per_second` allows.
    NewPerSecond,
    /// All connections together held more than `memory` allows, and this one among the most.
    Memory,
    /// The member or next hop at its other end is dead.
    Dead,
    /// The limit `most` was reached: it was not accepted, or was closed to make room before its first message.
    Most,
    /// Its source had as many as `most_per_address` allows.
    MostPerAddress,
    /// This process stops, or another one has taken over.
    Stop,
}

impl CloseReason {
    /// All reasons.
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

    /// Name in metrics.
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

/// Counters of one thread, or of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamCounts {
    /// Open now, by the index of their transport in [`Transport::ALL`].
    pub open: [u64; Transport::ALL.len()],
    /// Memory held now in bytes: incomplete messages, and data to be sent.
    pub held: u64,
    /// Accepted since the start.
    pub accepted: u64,
    /// Opened by this process.
    pub opened: u64,
    /// Failed attempts to open one.
    pub connect_failed: u64,
    /// TLS handshakes that resumed a session.
    pub resumed: u64,
    /// Full TLS handshakes.
    pub handshakes: u64,
    /// Ended, by the index of the reason in [`CloseReason::ALL`].
    pub closed: [u64; CloseReason::ALL.len()],
}

impl StreamCounts {
    /// Counts the end of a connection.
    pub(super) fn close(&mut self, reason: CloseReason) {
        self.closed[reason as usize] += 1;
    }

    /// Sum of the counters of two threads.
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
