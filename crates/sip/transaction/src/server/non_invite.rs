//! Non-INVITE server transaction: RFC 3261 §17.2.2, figure 8 as corrected by RFC 4320 §4 and RFC 6026 §8.8.

use crate::machine::{MachineStep, Send, StatusClass, Tell, Timer, TransactionEvent, TransportKind};

/// State of the transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerNonInviteState {
    /// The request was received, and it is too early for a 100 over an unreliable transport: the first part of the
    /// RFC's Trying.
    Trying,
    /// The request was received, and a 100 is due: the second part of the RFC's Trying.
    Late,
    /// A 100 was sent.
    Proceeding,
    /// A response from 200 to 699 was sent.
    Completed,
    /// The user has ended the request without an answer (RFC 4320 §4.2). Retransmissions are absorbed as in Completed.
    Abandoned,
    /// The transaction has ended.
    Terminated,
}

/// Accepts the request. The caller passes it to the user.
///
/// [4320-3] A 100 is due when the client's timer E has reached T2.
pub fn start() -> MachineStep<ServerNonInviteState> {
    MachineStep::to(ServerNonInviteState::Trying).life(Timer::TryingNonInvite)
}

impl ServerNonInviteState {
    /// Next state and actions for an event.
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

    /// Whether the last response is kept.
    pub(crate) fn keeps_message(self) -> bool {
        matches!(self, Self::Proceeding | Self::Completed)
    }
}

fn trying(event: TransactionEvent, transport: TransportKind) -> MachineStep<ServerNonInviteState> {
    match event {
        // [4320-3] The user sends a 100, unless it has a better response.
        TransactionEvent::Timer(Timer::TryingNonInvite) => {
            MachineStep::to(ServerNonInviteState::Late).tell(Tell::TryingDue).life(Timer::Expire)
        }
        // [4320-2] Over an unreliable transport such an early 100 is not sent: it would slow down the client's
        // retransmissions, and so the recovery of a lost final response.
        TransactionEvent::Respond(StatusClass::Trying) if transport == TransportKind::Unreliable => {
            MachineStep::to(ServerNonInviteState::Trying)
        }
        // [17.2.2-1] Retransmissions are discarded.
        _ => unanswered(ServerNonInviteState::Trying, event, transport),
    }
}

fn late(event: TransactionEvent, transport: TransportKind) -> MachineStep<ServerNonInviteState> {
    match event {
        // The client has timed out by now, and a response of the UAS behind a proxy would come too late as well.
        TransactionEvent::Timer(Timer::Expire) => {
            MachineStep::to(ServerNonInviteState::Terminated).tell(Tell::Timeout)
        }
        _ => unanswered(ServerNonInviteState::Late, event, transport),
    }
}

fn proceeding(event: TransactionEvent, transport: TransportKind) -> MachineStep<ServerNonInviteState> {
    match event {
        // [17.2.2-5] A retransmission gets the 100 again.
        TransactionEvent::Request => MachineStep::to(ServerNonInviteState::Proceeding).send(Send::Again),
        // [17.2.2-4] A further provisional response is passed to the transport.
        TransactionEvent::Respond(StatusClass::Trying) => {
            MachineStep::to(ServerNonInviteState::Proceeding).send(Send::New)
        }
        TransactionEvent::Timer(Timer::Expire) => {
            MachineStep::to(ServerNonInviteState::Terminated).tell(Tell::Timeout)
        }
        // [17.2.4-1] The user learns of the error, [17.2.4-2] and the state remains.
        TransactionEvent::TransportError => {
            MachineStep::to(ServerNonInviteState::Proceeding).tell(Tell::TransportError)
        }
        _ => unanswered(ServerNonInviteState::Proceeding, event, transport),
    }
}

/// Handles the events for which all states before the final response do the same.
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
        // [4320-4] A 408 is not sent: the client has timed out by itself.
        TransactionEvent::Respond(StatusClass::Timeout) => MachineStep::to(ServerNonInviteState::Abandoned),
        // [4320-1] 101 to 199 are not sent.
        _ => return MachineStep::to(state),
    };
    match transport {
        // [17.2.2-8] J starts. Over a reliable transport it takes zero seconds.
        TransportKind::Unreliable => next.life(Timer::J),
        TransportKind::Reliable => MachineStep { next: ServerNonInviteState::Terminated, ..next },
    }
}

fn completed(event: TransactionEvent) -> MachineStep<ServerNonInviteState> {
    match event {
        // [17.2.2-9] A retransmission gets the final response again.
        TransactionEvent::Request => MachineStep::to(ServerNonInviteState::Completed).send(Send::Again),
        // [17.2.2-11] J ends the transaction.
        TransactionEvent::Timer(Timer::J) => MachineStep::to(ServerNonInviteState::Terminated),
        // [17.2.4-1] [17.2.4-2] The user learns of the error, and the state remains.
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
