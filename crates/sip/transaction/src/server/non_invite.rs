//! The non-INVITE server transaction: RFC 3261 §17.2.2, figure 8 as RFC 4320 §4 and RFC 6026 §8.8 have it.

use crate::machine::{MachineStep, Send, StatusClass, Tell, Timer, TransactionEvent, TransportKind};

/// Where the transaction stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerNonInviteState {
    /// Received, and too early for a 100 over an unreliable transport: the first part of the RFC's Trying.
    Trying,
    /// Received, and a 100 is due: the rest of it.
    Late,
    /// Answered with 100.
    Proceeding,
    /// Answered with 200 to 699.
    Completed,
    /// The user gave up, and nothing is sent (RFC 4320 §4.2); repetitions are absorbed as in Completed.
    Abandoned,
    /// Over.
    Terminated,
}

/// Takes the request. The user gets it from whoever called.
///
/// [4320-3] A 100 is due when the client's timer E has come to T2.
pub fn start() -> MachineStep<ServerNonInviteState> {
    MachineStep::to(ServerNonInviteState::Trying).life(Timer::TryingNonInvite)
}

impl ServerNonInviteState {
    /// What an event leads to.
    #[inline(always)]
    pub fn on(self, event: TransactionEvent, transport: TransportKind) -> MachineStep<Self> {
        match self {
            Self::Trying => trying(event, transport),
            Self::Late => late(event, transport),
            Self::Proceeding => proceeding(event, transport),
            Self::Completed => completed(event),
            Self::Abandoned => abandoned(event),
            Self::Terminated => MachineStep::to(self),
        }
    }

    /// The last response.
    pub(crate) fn keeps_message(self) -> bool {
        matches!(self, Self::Proceeding | Self::Completed)
    }
}

fn trying(event: TransactionEvent, transport: TransportKind) -> MachineStep<ServerNonInviteState> {
    match event {
        // [4320-3] The user answers with a 100, unless it has something better.
        TransactionEvent::Timer(Timer::TryingNonInvite) => {
            MachineStep::to(ServerNonInviteState::Late).tell(Tell::TryingDue).life(Timer::Expire)
        }
        // [4320-2] Over an unreliable transport a 100 this early is swallowed: it would slow the client's repetitions
        // when the final response may be lost.
        TransactionEvent::Respond(StatusClass::Trying) if transport == TransportKind::Unreliable => {
            MachineStep::to(ServerNonInviteState::Trying)
        }
        // [17.2.2-1] Repetitions are discarded.
        _ => unanswered(ServerNonInviteState::Trying, event, transport),
    }
}

fn late(event: TransactionEvent, transport: TransportKind) -> MachineStep<ServerNonInviteState> {
    match event {
        // The client has given up by now, and so would whoever is asked by us.
        TransactionEvent::Timer(Timer::Expire) => {
            MachineStep::to(ServerNonInviteState::Terminated).tell(Tell::Timeout)
        }
        _ => unanswered(ServerNonInviteState::Late, event, transport),
    }
}

fn proceeding(event: TransactionEvent, transport: TransportKind) -> MachineStep<ServerNonInviteState> {
    match event {
        // [17.2.2-5] A repetition gets the 100 again.
        TransactionEvent::Request => MachineStep::to(ServerNonInviteState::Proceeding).send(Send::Again),
        // [17.2.2-4] A further provisional response is passed to the transport.
        TransactionEvent::Respond(StatusClass::Trying) => {
            MachineStep::to(ServerNonInviteState::Proceeding).send(Send::New)
        }
        TransactionEvent::Timer(Timer::Expire) => {
            MachineStep::to(ServerNonInviteState::Terminated).tell(Tell::Timeout)
        }
        // [17.2.4-1] The user is told, [17.2.4-2] and the state remains.
        TransactionEvent::TransportError => {
            MachineStep::to(ServerNonInviteState::Proceeding).tell(Tell::TransportError)
        }
        _ => unanswered(ServerNonInviteState::Proceeding, event, transport),
    }
}

/// What the states before the final response have in common.
fn unanswered(
    state: ServerNonInviteState,
    event: TransactionEvent,
    transport: TransportKind,
) -> MachineStep<ServerNonInviteState> {
    let next = match event {
        // [17.2.2-2] A provisional response leads to Proceeding, [17.2.2-3] and is passed to the transport.
        TransactionEvent::Respond(StatusClass::Trying) => {
            return MachineStep::to(ServerNonInviteState::Proceeding).send(Send::New).life(Timer::Expire);
        }
        // [17.2.2-6] A final response leads to Completed, [17.2.2-7] and is passed to the transport.
        TransactionEvent::Respond(StatusClass::Success | StatusClass::Failure) => {
            MachineStep::to(ServerNonInviteState::Completed).send(Send::New)
        }
        // [4320-4] A 408 is not sent: the client knows, and nothing else is to be said.
        TransactionEvent::Respond(StatusClass::Timeout) => MachineStep::to(ServerNonInviteState::Abandoned),
        // [4320-1] 101 to 199 are not sent.
        _ => return MachineStep::to(state),
    };
    match transport {
        // [17.2.2-8] J starts; zero seconds over a reliable transport.
        TransportKind::Unreliable => next.life(Timer::J),
        TransportKind::Reliable => MachineStep { next: ServerNonInviteState::Terminated, ..next },
    }
}

fn completed(event: TransactionEvent) -> MachineStep<ServerNonInviteState> {
    match event {
        // [17.2.2-9] A repetition gets the final response again.
        TransactionEvent::Request => MachineStep::to(ServerNonInviteState::Completed).send(Send::Again),
        // [17.2.2-11] J ends it.
        TransactionEvent::Timer(Timer::J) => MachineStep::to(ServerNonInviteState::Terminated),
        // [17.2.4-1] [17.2.4-2] The user is told, and the state remains.
        TransactionEvent::TransportError => {
            MachineStep::to(ServerNonInviteState::Completed).tell(Tell::TransportError)
        }
        // [17.2.2-10] Other final responses of the user are discarded.
        _ => MachineStep::to(ServerNonInviteState::Completed),
    }
}

fn abandoned(event: TransactionEvent) -> MachineStep<ServerNonInviteState> {
    match event {
        TransactionEvent::Timer(Timer::J) => MachineStep::to(ServerNonInviteState::Terminated),
        _ => MachineStep::to(ServerNonInviteState::Abandoned),
    }
}
