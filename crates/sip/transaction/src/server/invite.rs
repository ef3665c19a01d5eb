//! The INVITE server transaction: RFC 3261 §17.2.1, figure 7 as RFC 6026 §8.6 has it.

use crate::machine::{MachineStep, Pace, Send, StatusClass, Tell, Timer, TransactionEvent, TransportKind};

/// Where the transaction stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerInviteState {
    /// Received, and nothing sent yet: the first part of the RFC's Proceeding.
    Received,
    /// Answered with 1xx: the rest of it.
    Proceeding,
    /// Answered with 300 to 699, the ACK is awaited.
    Completed,
    /// The ACK is there, and may come again.
    Confirmed,
    /// Answered with 2xx.
    Accepted,
    /// Over.
    Terminated,
}

/// Takes the INVITE. The user gets it from whoever called: [17.2.1-3].
///
/// [17.2.1-1] A 100 is due after 200 ms.
pub fn start() -> MachineStep<ServerInviteState> {
    MachineStep::to(ServerInviteState::Received).life(Timer::TryingInvite)
}

impl ServerInviteState {
    /// What an event leads to.
    #[inline(always)]
    pub fn on(self, event: TransactionEvent, transport: TransportKind) -> MachineStep<Self> {
        match self {
            Self::Received => received(event, transport),
            Self::Proceeding => proceeding(event, transport),
            Self::Completed => completed(event, transport),
            Self::Confirmed => confirmed(event),
            Self::Accepted => accepted(event),
            Self::Terminated => MachineStep::to(self),
        }
    }

    /// The last response, but for a 2xx, which is its user's to send again.
    pub(crate) fn keeps_message(self) -> bool {
        matches!(self, Self::Proceeding | Self::Completed)
    }
}

fn received(event: TransactionEvent, transport: TransportKind) -> MachineStep<ServerInviteState> {
    match event {
        // [17.2.1-1] The user answers with a 100, unless it has something better: it has the request to copy from.
        TransactionEvent::Timer(Timer::TryingInvite) => {
            MachineStep::to(ServerInviteState::Received).tell(Tell::TryingDue).no_timers()
        }
        TransactionEvent::Respond(_) => respond(event, transport),
        // Not answered yet, so nothing to answer a repetition with, and nothing that could have failed.
        _ => MachineStep::to(ServerInviteState::Received),
    }
}

fn proceeding(event: TransactionEvent, transport: TransportKind) -> MachineStep<ServerInviteState> {
    match event {
        TransactionEvent::Respond(_) => respond(event, transport),
        // [17.2.1-5] A repetition gets the last provisional response.
        TransactionEvent::Request => MachineStep::to(ServerInviteState::Proceeding).send(Send::Again),
        // [17.2.4-1] The user is told, [17.2.4-2] and the state remains.
        TransactionEvent::TransportError => {
            MachineStep::to(ServerInviteState::Proceeding).tell(Tell::TransportError)
        }
        _ => MachineStep::to(ServerInviteState::Proceeding),
    }
}

/// The user answers, for the first time or after a provisional response.
fn respond(event: TransactionEvent, transport: TransportKind) -> MachineStep<ServerInviteState> {
    match event {
        // [17.2.1-6] A 2xx is passed to the transport, [17.2.1-7] leads to Accepted, [17.2.1-17] and L starts.
        TransactionEvent::Respond(StatusClass::Success) => {
            MachineStep::to(ServerInviteState::Accepted).send(Send::Pass).no_timers().life(Timer::L)
        }
        // [17.2.1-8] 300 to 699 is passed to the transport, [17.2.1-9] leads to Completed, [17.2.1-10] and H starts,
        // over any transport; G only where it is needed.
        TransactionEvent::Respond(StatusClass::Failure | StatusClass::Timeout) => {
            let step = MachineStep::to(ServerInviteState::Completed).send(Send::New).no_timers();
            step.start_pace(transport).life(Timer::H)
        }
        // [17.2.1-4] Provisional responses are passed to the transport.
        _ => MachineStep::to(ServerInviteState::Proceeding).send(Send::New).no_timers(),
    }
}

fn completed(event: TransactionEvent, transport: TransportKind) -> MachineStep<ServerInviteState> {
    match event {
        // [17.2.1-11] The response goes out again at intervals that double up to T2,
        TransactionEvent::Timer(Timer::G) => {
            MachineStep::to(ServerInviteState::Completed).send(Send::Again).pace(Pace::DoubleToT2)
        }
        // [17.2.1-12] and to every repetition of the request.
        TransactionEvent::Request => MachineStep::to(ServerInviteState::Completed).send(Send::Again),
        // [17.2.1-13] The ACK ends this; I waits for others over unreliable transports, and is zero over reliable
        // ones.
        TransactionEvent::Ack => match transport {
            TransportKind::Unreliable => {
                MachineStep::to(ServerInviteState::Confirmed).no_timers().life(Timer::I)
            }
            TransportKind::Reliable => MachineStep::to(ServerInviteState::Terminated),
        },
        // [17.2.1-14] Without it the transaction ends, [17.2.1-15] and the user is told.
        TransactionEvent::Timer(Timer::H) => {
            MachineStep::to(ServerInviteState::Terminated).tell(Tell::Timeout)
        }
        // [17.2.4-1] [17.2.4-2] The user is told, and the state remains.
        TransactionEvent::TransportError => {
            MachineStep::to(ServerInviteState::Completed).tell(Tell::TransportError)
        }
        _ => MachineStep::to(ServerInviteState::Completed),
    }
}

fn confirmed(event: TransactionEvent) -> MachineStep<ServerInviteState> {
    match event {
        // [17.2.1-16] I ends it. ACKs are absorbed until then.
        TransactionEvent::Timer(Timer::I) => MachineStep::to(ServerInviteState::Terminated),
        _ => MachineStep::to(ServerInviteState::Confirmed),
    }
}

fn accepted(event: TransactionEvent) -> MachineStep<ServerInviteState> {
    match event {
        // [17.2.1-18] The user's repetitions of the 2xx are passed to the transport; [17.2.1-19] there are no others.
        TransactionEvent::Respond(StatusClass::Success) => {
            MachineStep::to(ServerInviteState::Accepted).send(Send::Pass)
        }
        // [17.2.1-20] The ACK to a 2xx is the user's, [6026-2] also when an RFC 2543 peer sent it and it thus
        // matches.
        TransactionEvent::Ack => MachineStep::to(ServerInviteState::Accepted).tell(Tell::Message),
        // [17.2.1-21] L ends it.
        TransactionEvent::Timer(Timer::L) => MachineStep::to(ServerInviteState::Terminated),
        // [17.2.4-1] [17.2.4-2] The user is told, and the state remains.
        TransactionEvent::TransportError => {
            MachineStep::to(ServerInviteState::Accepted).tell(Tell::TransportError)
        }
        // [17.2.1-22] The INVITE again is absorbed: whoever accepted it sends the 2xx again already.
        _ => MachineStep::to(ServerInviteState::Accepted),
    }
}
