//! INVITE server transaction: RFC 3261 §17.2.1, figure 7 as corrected by RFC 6026 §8.6.

use crate::machine::{MachineStep, Pace, Send, StatusClass, Tell, Timer, TransactionEvent, TransportKind};

/// State of the transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerInviteState {
    /// The INVITE was received, and nothing was sent so far: the first part of the RFC's Proceeding.
    Received,
    /// A 1xx was sent: the second part of the RFC's Proceeding.
    Proceeding,
    /// A response from 300 to 699 was sent, and the ACK is awaited.
    Completed,
    /// The ACK has arrived; its retransmissions may arrive.
    Confirmed,
    /// A 2xx was sent.
    Accepted,
    /// The transaction has ended.
    Terminated,
}

/// Accepts the INVITE. The caller passes it to the user: [17.2.1-3].
///
/// [17.2.1-1] A 100 is due after 200 ms.
pub fn start() -> MachineStep<ServerInviteState> {
    MachineStep::to(ServerInviteState::Received).life(Timer::TryingInvite)
}

impl ServerInviteState {
    /// Next state and actions for an event.
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

    /// Whether the last response is kept. A 2xx is not, since the user retransmits it.
    pub(crate) fn keeps_message(self) -> bool {
        matches!(self, Self::Proceeding | Self::Completed)
    }
}

fn received(event: TransactionEvent, transport: TransportKind) -> MachineStep<ServerInviteState> {
    match event {
        // [17.2.1-1] The user sends a 100, which it makes from the request, unless it has a better response.
        TransactionEvent::Timer(Timer::TryingInvite) => {
            MachineStep::to(ServerInviteState::Received).tell(Tell::TryingDue).no_timers()
        }
        TransactionEvent::Respond(_) => respond(event, transport),
        // No response was sent so far, so none can be repeated, and none can have failed.
        _ => MachineStep::to(ServerInviteState::Received),
    }
}

fn proceeding(event: TransactionEvent, transport: TransportKind) -> MachineStep<ServerInviteState> {
    match event {
        TransactionEvent::Respond(_) => respond(event, transport),
        // [17.2.1-5] A retransmission gets the last provisional response.
        TransactionEvent::Request => MachineStep::to(ServerInviteState::Proceeding).send(Send::Again),
        // [17.2.4-1] The user learns of the error, [17.2.4-2] and the state remains.
        TransactionEvent::TransportError => {
            MachineStep::to(ServerInviteState::Proceeding).tell(Tell::TransportError)
        }
        _ => MachineStep::to(ServerInviteState::Proceeding),
    }
}

/// Handles a response of the user: the first response, or a response after a provisional one.
fn respond(event: TransactionEvent, transport: TransportKind) -> MachineStep<ServerInviteState> {
    match event {
        // [17.2.1-6] A 2xx is passed to the transport, [17.2.1-7] leads to Accepted, [17.2.1-17] and L starts.
        TransactionEvent::Respond(StatusClass::Success) => {
            MachineStep::to(ServerInviteState::Accepted).send(Send::Pass).no_timers().life(Timer::L)
        }
        // [17.2.1-8] 300 to 699 is passed to the transport, [17.2.1-9] leads to Completed, [17.2.1-10] and H starts
        // over any transport. G starts only over an unreliable one.
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
        // [17.2.1-11] The response is sent again at intervals that double up to T2,
        TransactionEvent::Timer(Timer::G) => {
            MachineStep::to(ServerInviteState::Completed).send(Send::Again).pace(Pace::DoubleToT2)
        }
        // [17.2.1-12] and at every retransmission of the request.
        TransactionEvent::Request => MachineStep::to(ServerInviteState::Completed).send(Send::Again),
        // [17.2.1-13] The ACK ends this state. Over unreliable transports I waits for further ACKs, over reliable ones
        // it is zero.
        TransactionEvent::Ack => match transport {
            TransportKind::Unreliable => {
                MachineStep::to(ServerInviteState::Confirmed).no_timers().life(Timer::I)
            }
            TransportKind::Reliable => MachineStep::to(ServerInviteState::Terminated),
        },
        // [17.2.1-14] Without ACK the transaction ends, [17.2.1-15] and the user learns of it.
        TransactionEvent::Timer(Timer::H) => {
            MachineStep::to(ServerInviteState::Terminated).tell(Tell::Timeout)
        }
        // [17.2.4-1] [17.2.4-2] The user learns of the error, and the state remains.
        TransactionEvent::TransportError => {
            MachineStep::to(ServerInviteState::Completed).tell(Tell::TransportError)
        }
        _ => MachineStep::to(ServerInviteState::Completed),
    }
}

fn confirmed(event: TransactionEvent) -> MachineStep<ServerInviteState> {
    match event {
        // [17.2.1-16] I ends the transaction. ACKs are absorbed until then.
        TransactionEvent::Timer(Timer::I) => MachineStep::to(ServerInviteState::Terminated),
        _ => MachineStep::to(ServerInviteState::Confirmed),
    }
}

fn accepted(event: TransactionEvent) -> MachineStep<ServerInviteState> {
    match event {
        // [17.2.1-18] The user's retransmissions of the 2xx are passed to the transport; [17.2.1-19] there are no other
        // retransmissions.
        TransactionEvent::Respond(StatusClass::Success) => {
            MachineStep::to(ServerInviteState::Accepted).send(Send::Pass)
        }
        // [17.2.1-20] The ACK to a 2xx goes to the user, [6026-2] also if it matches because it is from an RFC 2543
        // peer.
        TransactionEvent::Ack => MachineStep::to(ServerInviteState::Accepted).tell(Tell::Message),
        // [17.2.1-21] L ends the transaction.
        TransactionEvent::Timer(Timer::L) => MachineStep::to(ServerInviteState::Terminated),
        // [17.2.4-1] [17.2.4-2] The user learns of the error, and the state remains.
        TransactionEvent::TransportError => {
            MachineStep::to(ServerInviteState::Accepted).tell(Tell::TransportError)
        }
        // [17.2.1-22] A retransmitted INVITE is absorbed: the UAS that accepted it retransmits the 2xx already.
        _ => MachineStep::to(ServerInviteState::Accepted),
    }
}
