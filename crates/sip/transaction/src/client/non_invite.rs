//! Non-INVITE client transaction: RFC 3261 §17.1.2, figure 6.

use crate::machine::{MachineStep, Pace, Send, StatusClass, Tell, Timer, TransactionEvent, TransportKind};

/// State of the transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientNonInviteState {
    /// The request was sent and has no response so far.
    Trying,
    /// The request has a 1xx.
    Proceeding,
    /// The request has a response from 200 to 699; retransmissions of it may arrive.
    Completed,
    /// The transaction has ended.
    Terminated,
}

/// Sends the request.
///
/// [17.1.2.2-1] Timer F starts. [17.1.2.2-2] The request is passed to the transport. [17.1.2.2-3] Timer E starts over
/// an unreliable transport.
pub fn start(transport: TransportKind) -> MachineStep<ClientNonInviteState> {
    MachineStep::to(ClientNonInviteState::Trying).send(Send::New).start_pace(transport).life(Timer::F)
}

impl ClientNonInviteState {
    /// Next state and actions for an event.
    #[inline(always)]
    pub fn on(self, event: TransactionEvent, transport: TransportKind) -> MachineStep<Self> {
        match self {
            Self::Trying => trying(event, transport),
            Self::Proceeding => proceeding(event, transport),
            Self::Completed => completed(event),
            Self::Terminated => MachineStep::to(self),
        }
    }

    /// Whether the request is kept. It is kept until its final response.
    pub(crate) fn keeps_message(self) -> bool {
        matches!(self, Self::Trying | Self::Proceeding)
    }
}

fn trying(event: TransactionEvent, transport: TransportKind) -> MachineStep<ClientNonInviteState> {
    match event {
        // [17.1.2.2-4] Intervals double up to T2.
        TransactionEvent::Timer(Timer::E) => {
            MachineStep::to(ClientNonInviteState::Trying).send(Send::Again).pace(Pace::DoubleToT2)
        }
        // [17.1.2.2-7] A provisional response is passed on, [17.1.2.2-8] and leads to Proceeding, where E keeps
        // running.
        TransactionEvent::Response(StatusClass::Trying | StatusClass::Provisional) => {
            MachineStep::to(ClientNonInviteState::Proceeding).tell(Tell::Message)
        }
        _ => waiting(ClientNonInviteState::Trying, event, transport),
    }
}

fn proceeding(event: TransactionEvent, transport: TransportKind) -> MachineStep<ClientNonInviteState> {
    match event {
        // [17.1.2.2-10] The request is sent again, [17.1.2.2-11] from now on at intervals of T2.
        TransactionEvent::Timer(Timer::E) => {
            MachineStep::to(ClientNonInviteState::Proceeding).send(Send::Again).pace(Pace::T2)
        }
        TransactionEvent::Response(StatusClass::Trying | StatusClass::Provisional) => {
            MachineStep::to(ClientNonInviteState::Proceeding).tell(Tell::Message)
        }
        _ => waiting(ClientNonInviteState::Proceeding, event, transport),
    }
}

/// Handles the events for which Trying and Proceeding do the same.
fn waiting(
    state: ClientNonInviteState,
    event: TransactionEvent,
    transport: TransportKind,
) -> MachineStep<ClientNonInviteState> {
    match event {
        TransactionEvent::Response(_) => {
            // [17.1.2.2-9] The final response is passed on.
            let step = MachineStep::to(ClientNonInviteState::Completed).tell(Tell::Message).no_timers();
            match transport {
                // [17.1.2.2-13] K waits for retransmissions, [17.1.2.2-12] for zero seconds over a reliable transport.
                TransportKind::Unreliable => step.life(Timer::K),
                TransportKind::Reliable => MachineStep { next: ClientNonInviteState::Terminated, ..step },
            }
        }
        // [17.1.2.2-5] The user learns of the timeout, [17.1.2.2-6] and the transaction ends.
        TransactionEvent::Timer(Timer::F) => {
            MachineStep::to(ClientNonInviteState::Terminated).tell(Tell::Timeout)
        }
        // [17.1.4-1] [17.1.4-2] The same happens if the request could not be sent.
        TransactionEvent::TransportError => {
            MachineStep::to(ClientNonInviteState::Terminated).tell(Tell::TransportError)
        }
        _ => MachineStep::to(state),
    }
}

fn completed(event: TransactionEvent) -> MachineStep<ClientNonInviteState> {
    match event {
        // [17.1.2.2-14] K ends the transaction. Retransmissions of the response are absorbed until then.
        TransactionEvent::Timer(Timer::K) => MachineStep::to(ClientNonInviteState::Terminated),
        _ => MachineStep::to(ClientNonInviteState::Completed),
    }
}
