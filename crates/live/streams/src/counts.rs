//! What became of connections.

use super::limits::LimitReached;
use base::Transport;

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
    /// What came is no SIP, or too long.
    Framing,
    /// TLS found something wrong.
    Tls,
    /// The WebSocket protocol was broken, or `sip` not asked for.
    WebSocket,
    /// The PROXY header is missing or wrong.
    ProxyHeader,
    /// There were as many connections as `most` allows.
    Most,
    /// There were as many from its source as `most_per_address` allows.
    MostPerAddress,
    /// This process ends, or another one has taken over.
    Stop,
}

impl CloseReason {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Peer,
        Self::Error,
        Self::Idle,
        Self::Handshake,
        Self::SlowMessage,
        Self::NotReading,
        Self::Framing,
        Self::Tls,
        Self::WebSocket,
        Self::ProxyHeader,
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
            Self::Framing => "framing",
            Self::Tls => "tls",
            Self::WebSocket => "websocket",
            Self::ProxyHeader => "proxy_header",
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
        }
    }
}

/// Connections of a thread, or of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamCounts {
    /// Open now, by the place of their transport in [`Transport::ALL`].
    pub open: [u64; Transport::ALL.len()],
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
        self.accepted += other.accepted;
        self.opened += other.opened;
        self.connect_failed += other.connect_failed;
        self.resumed += other.resumed;
        self.handshakes += other.handshakes;
        self
    }
}
