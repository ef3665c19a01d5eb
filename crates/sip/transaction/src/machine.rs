//! What the four machines have in common: their events and what a step of them asks for.

use crate::client;
use crate::server;
use base::Transport;

/// Whether the transport below delivers by itself. Decides which timers run (RFC 3261 §17).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransportKind {
    /// UDP: requests and responses are sent again.
    Unreliable,
    /// TCP, TLS, WebSocket, SCTP: whatever is sent arrives, or the connection is lost.
    Reliable,
}

impl From<Transport> for TransportKind {
    fn from(transport: Transport) -> Self {
        if transport.is_reliable() { Self::Reliable } else { Self::Unreliable }
    }
}

/// Which pair of machines a request needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransactionKind {
    /// INVITE.
    Invite,
    /// Everything else but ACK, which makes no transaction (RFC 3261 §17.1).
    NonInvite,
}

/// Status codes, as far as the machines tell them apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatusClass {
    /// 100.
    Trying,
    /// 101 to 199.
    Provisional,
    /// 200 to 299.
    Success,
    /// 300 to 699, but for 408.
    Failure,
    /// 408, which no server sends to a non-INVITE (RFC 4320 §4.2).
    Timeout,
}

impl StatusClass {
    /// The class of a status code, 100 to 699.
    pub const fn of(status: u16) -> Self {
        match status {
            0..=100 => Self::Trying,
            101..=199 => Self::Provisional,
            200..=299 => Self::Success,
            408 => Self::Timeout,
            _ => Self::Failure,
        }
    }

    /// Whether it ends the waiting.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Success | Self::Failure | Self::Timeout)
    }
}

/// The timers: RFC 3261 table 4, RFC 6026 §8.11, and those that the RFCs describe without a letter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Timer {
    /// The INVITE is sent again.
    A,
    /// The INVITE is given up.
    B,
    /// The ACK is not asked for any more.
    D,
    /// A non-INVITE request is sent again.
    E,
    /// A non-INVITE request is given up.
    F,
    /// A failure response to INVITE is sent again.
    G,
    /// The ACK is given up.
    H,
    /// No more ACKs are on their way.
    I,
    /// No more repetitions of a non-INVITE request are on their way.
    J,
    /// No more repetitions of the response to a non-INVITE are on their way.
    K,
    /// No more repetitions of an accepted INVITE are on their way.
    L,
    /// No more 2xx to an INVITE are on their way.
    M,
    /// 200 ms without a response to an INVITE: a 100 is due (RFC 3261 §17.2.1).
    TryingInvite,
    /// The client's timer E has come to T2: a 100 is due, and allowed (RFC 4320 §4.1).
    TryingNonInvite,
    /// An INVITE that was cancelled is given up (RFC 3261 §9.1).
    Cancel,
    /// A non-INVITE request is not answered: its client has given up (RFC 4320 §4.2).
    Expire,
}

impl Timer {
    /// Every timer.
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
    /// Whether it only clears a transaction away, of which nobody is told and for which nothing is sent.
    pub const fn is_cleanup(self) -> bool {
        matches!(self, Self::D | Self::I | Self::J | Self::K | Self::L | Self::M | Self::Expire)
    }
}

/// What can happen to a transaction. Never a message: live messages are bytes, simulated ones a few numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransactionEvent {
    /// Client: a response that matches.
    Response(StatusClass),
    /// Client: the user sends a CANCEL for this INVITE.
    Cancel,
    /// Server: the request again.
    Request,
    /// Server: an ACK that matches.
    Ack,
    /// Server: the user answers.
    Respond(StatusClass),
    /// A timer fires.
    Timer(Timer),
    /// What was sent could not be delivered.
    TransportError,
}

/// What is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Send {
    /// Nothing.
    Nothing,
    /// The message that the user gave, which is kept to be sent again.
    New,
    /// The message that the user gave; it is not kept.
    Pass,
    /// The message that was kept.
    Again,
    /// The ACK to the response that just came; it is kept in place of the INVITE.
    Ack,
}

/// What the transaction's user is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tell {
    /// Nothing: what came is absorbed.
    Nothing,
    /// The message that just came.
    Message,
    /// A 100 is due unless there is something better to say.
    TryingDue,
    /// Nobody answered, or nobody acknowledged.
    Timeout,
    /// What was sent could not be delivered.
    TransportError,
}

/// What becomes of the timer that sends again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// It goes on as it is.
    Keep,
    /// It starts, to fire in T1.
    Start,
    /// It starts again with twice its last value.
    Double,
    /// It starts again with twice its last value, or T2 if that is less.
    DoubleToT2,
    /// It starts again with T2.
    T2,
    /// It stops.
    Stop,
}

/// What becomes of the timer that ends a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// It goes on as it is.
    Keep,
    /// This one is started in its place.
    Set(Timer),
    /// There is none: the state lasts until something comes.
    Clear,
}

/// The outcome of one event: the next state, and what is to be done, in the order of the fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MachineStep<S> {
    /// The state from now on.
    pub next: S,
    /// What is sent.
    pub send: Send,
    /// What the user is told.
    pub tell: Tell,
    /// The timer that sends again.
    pub pace: Pace,
    /// The timer that ends the state.
    pub life: Life,
}

impl<S> MachineStep<S> {
    /// To a state, with nothing to do.
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

    /// The timer that sends again runs over unreliable transports only.
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

/// One of the four machines in one of its states: two bytes.
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
    /// A client transaction begins: its user passes the request.
    pub fn client(kind: TransactionKind, transport: TransportKind) -> MachineStep<Self> {
        match kind {
            TransactionKind::Invite => client::invite::start(transport).map(Self::ClientInvite),
            TransactionKind::NonInvite => client::non_invite::start(transport).map(Self::ClientNonInvite),
        }
    }

    /// A server transaction begins: its user has got the request already.
    pub fn server(kind: TransactionKind) -> MachineStep<Self> {
        match kind {
            TransactionKind::Invite => server::invite::start().map(Self::ServerInvite),
            TransactionKind::NonInvite => server::non_invite::start().map(Self::ServerNonInvite),
        }
    }

    /// What an event leads to.
    #[inline(always)]
    pub fn on(self, event: TransactionEvent, transport: TransportKind) -> MachineStep<Self> {
        match self {
            Self::ClientInvite(state) => state.on(event, transport).map(Self::ClientInvite),
            Self::ClientNonInvite(state) => state.on(event, transport).map(Self::ClientNonInvite),
            Self::ServerInvite(state) => state.on(event, transport).map(Self::ServerInvite),
            Self::ServerNonInvite(state) => state.on(event, transport).map(Self::ServerNonInvite),
        }
    }

    /// This machine when it is over.
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

    /// Whether it is of a client, and nothing has answered its request.
    pub fn is_unanswered(self) -> bool {
        matches!(
            self,
            Self::ClientInvite(client::invite::ClientInviteState::Calling)
                | Self::ClientNonInvite(client::non_invite::ClientNonInviteState::Trying)
        )
    }

    /// Whether it is over. RFC 3261 §17: it is destroyed the instant it gets there.
    pub fn is_terminated(self) -> bool {
        self == self.terminated()
    }

    /// Whether what it sent last may still have to be sent again, or be answered; if not, the memory is freed.
    pub fn keeps_message(self) -> bool {
        match self {
            Self::ClientInvite(state) => state.keeps_message(),
            Self::ClientNonInvite(state) => state.keeps_message(),
            Self::ServerInvite(state) => state.keeps_message(),
            Self::ServerNonInvite(state) => state.keeps_message(),
        }
    }

    /// The timer that sends again in this machine.
    pub fn pace_timer(self) -> Timer {
        match self {
            Self::ClientInvite(_) => Timer::A,
            Self::ClientNonInvite(_) => Timer::E,
            // A non-INVITE server never sets it.
            Self::ServerInvite(_) | Self::ServerNonInvite(_) => Timer::G,
        }
    }
}
