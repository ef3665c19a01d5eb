//! Types that the four machines have in common: events, steps and timers.

use crate::client;
use crate::server;
use base::Transport;

/// Whether the transport delivers reliably. This decides which timers run (RFC 3261 §17).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransportKind {
    /// UDP: requests and responses are retransmitted.
    Unreliable,
    /// TCP, TLS, WebSocket, SCTP: a message arrives, or the connection is lost.
    Reliable,
}

impl From<Transport> for TransportKind {
    fn from(transport: Transport) -> Self {
        if transport.is_reliable() { Self::Reliable } else { Self::Unreliable }
    }
}

/// Kind of a transaction, by the method of its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransactionKind {
    /// INVITE.
    Invite,
    /// All other methods, except ACK, which creates no transaction (RFC 3261 §17.1).
    NonInvite,
}

/// Status codes, as far as the machines distinguish them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatusClass {
    /// 100.
    Trying,
    /// 101 to 199.
    Provisional,
    /// 200 to 299.
    Success,
    /// 300 to 699, except 408.
    Failure,
    /// 408, which a server must not send to a non-INVITE (RFC 4320 §4.2).
    Timeout,
}

impl StatusClass {
    /// Class of a status code, 100 to 699.
    pub const fn of(status: u16) -> Self {
        match status {
            0..=100 => Self::Trying,
            101..=199 => Self::Provisional,
            200..=299 => Self::Success,
            408 => Self::Timeout,
            _ => Self::Failure,
        }
    }

    /// Whether it is a final response.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Success | Self::Failure | Self::Timeout)
    }
}

/// Timers: RFC 3261 table 4, RFC 6026 §8.11, and further timers that the RFCs describe without a letter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Timer {
    /// Retransmits the INVITE.
    A,
    /// Ends an INVITE without response.
    B,
    /// Ends the wait for retransmissions of a failure response to INVITE.
    D,
    /// Retransmits a non-INVITE request.
    E,
    /// Ends a non-INVITE request without final response.
    F,
    /// Retransmits a failure response to INVITE.
    G,
    /// Ends the wait for the ACK.
    H,
    /// Ends the wait for retransmissions of the ACK.
    I,
    /// Ends the wait for retransmissions of a non-INVITE request.
    J,
    /// Ends the wait for retransmissions of the response to a non-INVITE.
    K,
    /// Ends the wait for retransmissions of an accepted INVITE.
    L,
    /// Ends the wait for further 2xx to an INVITE.
    M,
    /// Fires after 200 ms without a response to an INVITE: a 100 is due (RFC 3261 §17.2.1).
    TryingInvite,
    /// Fires when the client's timer E has reached T2: a 100 is then allowed and due (RFC 4320 §4.1).
    TryingNonInvite,
    /// Ends a cancelled INVITE (RFC 3261 §9.1).
    Cancel,
    /// Ends an unanswered non-INVITE request, since its client has timed out (RFC 4320 §4.2).
    Expire,
}

impl Timer {
    /// All timers.
    pub const ALL: [Self; 16] = [
        Self::A,
        Self::B,
        Self::D,
        Self::E,
        Self::F,
        Self::G,
        Self::H,
        Self::I,
        Self::J,
        Self::K,
        Self::L,
        Self::M,
        Self::TryingInvite,
        Self::TryingNonInvite,
        Self::Cancel,
        Self::Expire,
    ];
}

impl Timer {
    /// Whether the timer only ends a transaction. `Expire` also reports a timeout to the user.
    pub const fn is_cleanup(self) -> bool {
        matches!(self, Self::D | Self::I | Self::J | Self::K | Self::L | Self::M | Self::Expire)
    }
}

/// Event of a transaction. It contains no message, since live messages are bytes and simulated messages are a few
/// numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransactionEvent {
    /// Client: a matching response.
    Response(StatusClass),
    /// Client: the user cancels this INVITE.
    Cancel,
    /// Server: a retransmission of the request.
    Request,
    /// Server: a matching ACK.
    Ack,
    /// Server: the user answers.
    Respond(StatusClass),
    /// A timer fires.
    Timer(Timer),
    /// A message could not be delivered.
    TransportError,
}

/// Message to be sent in a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Send {
    /// Nothing.
    Nothing,
    /// The user's message, which is kept for retransmission.
    New,
    /// The user's message, which is not kept.
    Pass,
    /// The kept message.
    Again,
    /// The ACK to the response just received; it is kept in place of the INVITE.
    Ack,
}

/// News for the user of the transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tell {
    /// No news: the event is absorbed.
    Nothing,
    /// The message just received.
    Message,
    /// A 100 is due unless the user has a better response.
    TryingDue,
    /// No response or no ACK arrived.
    Timeout,
    /// A message could not be delivered.
    TransportError,
}

/// Change of the retransmission timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// Unchanged.
    Keep,
    /// Starts with T1.
    Start,
    /// Restarts with twice its last value.
    Double,
    /// Restarts with twice its last value, or with T2 if T2 is less.
    DoubleToT2,
    /// Restarts with T2.
    T2,
    /// Stops.
    Stop,
}

/// Change of the timer that ends a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// Unchanged.
    Keep,
    /// Starts this timer in place of the present one.
    Set(Timer),
    /// Stops: the state lasts until an event.
    Clear,
}

/// Result of an event: the next state and the actions, in the order of the fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MachineStep<S> {
    /// Next state.
    pub next: S,
    /// Message to send.
    pub send: Send,
    /// News for the user.
    pub tell: Tell,
    /// Change of the retransmission timer.
    pub pace: Pace,
    /// Change of the timer that ends the state.
    pub life: Life,
}

impl<S> MachineStep<S> {
    /// Makes a step to a state, without actions.
    pub(crate) const fn to(next: S) -> Self {
        Self { next, send: Send::Nothing, tell: Tell::Nothing, pace: Pace::Keep, life: Life::Keep }
    }

    pub(crate) fn send(self, send: Send) -> Self {
        Self { send, ..self }
    }

    pub(crate) fn tell(self, tell: Tell) -> Self {
        Self { tell, ..self }
    }

    pub(crate) fn pace(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    /// Starts the retransmission timer over unreliable transports only.
    pub(crate) fn start_pace(self, transport: TransportKind) -> Self {
        match transport {
            TransportKind::Unreliable => self.pace(Pace::Start),
            TransportKind::Reliable => self,
        }
    }

    pub(crate) fn life(self, timer: Timer) -> Self {
        Self { life: Life::Set(timer), ..self }
    }

    pub(crate) fn no_timers(self) -> Self {
        Self { pace: Pace::Stop, life: Life::Clear, ..self }
    }

    fn map<R>(self, wrap: impl FnOnce(S) -> R) -> MachineStep<R> {
        let Self { next, send, tell, pace, life } = self;
        MachineStep { next: wrap(next), send, tell, pace, life }
    }
}

/// One of the four machines in one of its states. The value takes two bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Machine {
    /// RFC 3261 §17.1.1.
    ClientInvite(client::invite::ClientInviteState),
    /// RFC 3261 §17.1.2.
    ClientNonInvite(client::non_invite::ClientNonInviteState),
    /// RFC 3261 §17.2.1.
    ServerInvite(server::invite::ServerInviteState),
    /// RFC 3261 §17.2.2.
    ServerNonInvite(server::non_invite::ServerNonInviteState),
}

impl Machine {
    /// Starts a client transaction, to which the user passes the request.
    pub fn client(kind: TransactionKind, transport: TransportKind) -> MachineStep<Self> {
        match kind {
            TransactionKind::Invite => client::invite::start(transport).map(Self::ClientInvite),
            TransactionKind::NonInvite => client::non_invite::start(transport).map(Self::ClientNonInvite),
        }
    }

    /// Starts a server transaction, whose user already has the request.
    pub fn server(kind: TransactionKind) -> MachineStep<Self> {
        match kind {
            TransactionKind::Invite => server::invite::start().map(Self::ServerInvite),
            TransactionKind::NonInvite => server::non_invite::start().map(Self::ServerNonInvite),
        }
    }

    /// Next state and actions for an event.
    #[inline(always)]
    pub fn on(self, event: TransactionEvent, transport: TransportKind) -> MachineStep<Self> {
        match self {
            Self::ClientInvite(state) => state.on(event, transport).map(Self::ClientInvite),
            Self::ClientNonInvite(state) => state.on(event, transport).map(Self::ClientNonInvite),
            Self::ServerInvite(state) => state.on(event, transport).map(Self::ServerInvite),
            Self::ServerNonInvite(state) => state.on(event, transport).map(Self::ServerNonInvite),
        }
    }

    /// The machine in its terminated state.
    pub(crate) fn terminated(self) -> Self {
        match self {
            Self::ClientInvite(_) => Self::ClientInvite(client::invite::ClientInviteState::Terminated),
            Self::ClientNonInvite(_) => {
                Self::ClientNonInvite(client::non_invite::ClientNonInviteState::Terminated)
            }
            Self::ServerInvite(_) => Self::ServerInvite(server::invite::ServerInviteState::Terminated),
            Self::ServerNonInvite(_) => {
                Self::ServerNonInvite(server::non_invite::ServerNonInviteState::Terminated)
            }
        }
    }

    /// Whether this is the machine of a client that has no response so far.
    pub fn is_unanswered(self) -> bool {
        matches!(
            self,
            Self::ClientInvite(client::invite::ClientInviteState::Calling)
                | Self::ClientNonInvite(client::non_invite::ClientNonInviteState::Trying)
        )
    }

    /// Whether the machine has ended. RFC 3261 §17: the transaction is then destroyed at once.
    pub fn is_terminated(self) -> bool {
        self == self.terminated()
    }

    /// Whether the last message may be needed again, to send it once more or to answer it. If not, its memory is freed.
    pub fn keeps_message(self) -> bool {
        match self {
            Self::ClientInvite(state) => state.keeps_message(),
            Self::ClientNonInvite(state) => state.keeps_message(),
            Self::ServerInvite(state) => state.keeps_message(),
            Self::ServerNonInvite(state) => state.keeps_message(),
        }
    }

    /// Retransmission timer of this machine.
    pub fn pace_timer(self) -> Timer {
        match self {
            Self::ClientInvite(_) => Timer::A,
            Self::ClientNonInvite(_) => Timer::E,
            // A non-INVITE server never sets it.
            Self::ServerInvite(_) | Self::ServerNonInvite(_) => Timer::G,
        }
    }
}
