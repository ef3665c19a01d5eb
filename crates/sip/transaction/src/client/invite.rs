//! INVITE client transaction: RFC 3261 §17.1.1, figure 5 as corrected by RFC 6026 §8.4.

use crate::machine::{MachineStep, Pace, Send, StatusClass, Tell, Timer, TransactionEvent, TransportKind};

/// State of the transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientInviteState {
    /// The INVITE was sent and has no response so far.
    Calling,
    /// The INVITE has a 1xx.
    Proceeding,
    /// The INVITE was cancelled after a 1xx: the final response must arrive within 64*T1 (§9.1).
    Cancelling,
    /// The INVITE has a response from 300 to 699, which was acknowledged.
    Completed,
    /// The INVITE has a 2xx; more 2xx may arrive.
    Accepted,
    /// The transaction has ended.
    Terminated,
}

/// Sends the INVITE.
///
/// [17.1.1.2-1] The first state is Calling. [17.1.1.2-2] The request is passed to the transport. [17.1.1.2-3] Timer A
/// starts over an unreliable transport, [17.1.1.2-4] and not over a reliable one. [17.1.1.2-5] Timer B starts over any
/// transport.
pub fn start(transport: TransportKind) -> MachineStep<ClientInviteState> {
    MachineStep::to(ClientInviteState::Calling).send(Send::New).start_pace(transport).life(Timer::B)
}

impl ClientInviteState {
    /// Next state and actions for an event.
    #[inline(always)]
    pub fn on(self, event: TransactionEvent, transport: TransportKind) -> MachineStep<Self> {
        match self {
            Self::Calling => calling(event, transport),
            Self::Proceeding | Self::Cancelling => proceeding(self, event, transport),
            Self::Completed => completed(event),
            Self::Accepted => accepted(event),
            Self::Terminated => MachineStep::to(self),
        }
    }

    /// Whether a message is kept: the INVITE, from which ACK and CANCEL are made, and later the ACK.
    pub(crate) fn keeps_message(self) -> bool {
        !matches!(self, Self::Accepted | Self::Terminated)
    }
}

fn calling(event: TransactionEvent, transport: TransportKind) -> MachineStep<ClientInviteState> {
    match event {
        // [17.1.1.2-6] The request is sent again when A fires, [17.1.1.2-7] at intervals that double each time.
        // [17.1.1.2-8] This happens in Calling only, [17.1.1.2-9] for any value of T1.
        TransactionEvent::Timer(Timer::A) => {
            MachineStep::to(ClientInviteState::Calling).send(Send::Again).pace(Pace::Double)
        }
        // [17.1.1.2-10] The user learns of the timeout, [17.1.1.2-11] and no ACK is made.
        TransactionEvent::Timer(Timer::B) => {
            MachineStep::to(ClientInviteState::Terminated).tell(Tell::Timeout)
        }
        // [17.1.1.2-12] No more retransmission, [17.1.1.2-13] the response is passed on. B does not run in Proceeding.
        TransactionEvent::Response(StatusClass::Trying | StatusClass::Provisional) => {
            MachineStep::to(ClientInviteState::Proceeding).tell(Tell::Message).no_timers()
        }
        TransactionEvent::Response(class) => answered(class, transport),
        // [17.1.4-1] The user learns of the error, [17.1.4-2] and the transaction ends.
        TransactionEvent::TransportError => {
            MachineStep::to(ClientInviteState::Terminated).tell(Tell::TransportError)
        }
        // [9.1-5] A CANCEL waits for a provisional response: nothing changes, and
        // [`Layer::cancel`](crate::Layer::cancel) returns `false`.
        _ => MachineStep::to(ClientInviteState::Calling),
    }
}

/// Handles an event in Proceeding or Cancelling, which differ in their time limit.
fn proceeding(
    state: ClientInviteState,
    event: TransactionEvent,
    transport: TransportKind,
) -> MachineStep<ClientInviteState> {
    match event {
        // [17.1.1.2-14] Every further provisional response is passed on.
        TransactionEvent::Response(StatusClass::Trying | StatusClass::Provisional) => {
            MachineStep::to(state).tell(Tell::Message)
        }
        TransactionEvent::Response(class) => answered(class, transport),
        // [9.1-7] A cancelled INVITE without final response ends after 64*T1.
        TransactionEvent::Cancel if state == ClientInviteState::Proceeding => {
            MachineStep::to(ClientInviteState::Cancelling).life(Timer::Cancel)
        }
        TransactionEvent::Timer(Timer::Cancel) => {
            MachineStep::to(ClientInviteState::Terminated).tell(Tell::Timeout)
        }
        _ => MachineStep::to(state),
    }
}

/// Handles the first final response.
fn answered(class: StatusClass, transport: TransportKind) -> MachineStep<ClientInviteState> {
    if class == StatusClass::Success {
        // [17.1.1.2-21] A 2xx leads to Accepted, where M runs 64*T1. [17.1.1.2-22] It is passed on, [17.1.1.2-23] and
        // the user makes the ACK.
        return MachineStep::to(ClientInviteState::Accepted).tell(Tell::Message).no_timers().life(Timer::M);
    }
    // [17.1.1.2-16] The response is passed on, [17.1.1.2-17] and acknowledged over any transport.
    let step = MachineStep::to(ClientInviteState::Completed).send(Send::Ack).tell(Tell::Message).no_timers();
    match transport {
        // [17.1.1.2-15] 300 to 699 leads to Completed, [17.1.1.2-19] where D runs.
        TransportKind::Unreliable => step.life(Timer::D),
        // Timer D is zero, since no retransmission will arrive.
        TransportKind::Reliable => MachineStep { next: ClientInviteState::Terminated, ..step },
    }
}

fn completed(event: TransactionEvent) -> MachineStep<ClientInviteState> {
    match event {
        // [17.1.1.2-20] The ACK is sent again, and the response is not passed on.
        TransactionEvent::Response(StatusClass::Failure | StatusClass::Timeout) => {
            MachineStep::to(ClientInviteState::Completed).send(Send::Again)
        }
        // [17.1.1.2-24] D ends the transaction.
        TransactionEvent::Timer(Timer::D) => MachineStep::to(ClientInviteState::Terminated),
        // The ACK was not delivered.
        TransactionEvent::TransportError => {
            MachineStep::to(ClientInviteState::Terminated).tell(Tell::TransportError)
        }
        _ => MachineStep::to(ClientInviteState::Completed),
    }
}

fn accepted(event: TransactionEvent) -> MachineStep<ClientInviteState> {
    match event {
        // [17.1.1.2-25] Retransmissions and the 2xx of other branches of a fork are passed on.
        TransactionEvent::Response(StatusClass::Success) => {
            MachineStep::to(ClientInviteState::Accepted).tell(Tell::Message)
        }
        // [17.1.1.2-26] M ends the transaction.
        TransactionEvent::Timer(Timer::M) => MachineStep::to(ClientInviteState::Terminated),
        _ => MachineStep::to(ClientInviteState::Accepted),
    }
}
