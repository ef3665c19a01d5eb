//! The INVITE client transaction: RFC 3261 §17.1.1, figure 5 as RFC 6026 §8.4 has it.

use crate::machine::{Class, Event, Pace, Send, Step, Tell, Timer, TransportKind};

/// Where the transaction stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Sent, not answered.
    Calling,
    /// Answered with 1xx.
    Proceeding,
    /// Answered with 1xx, then cancelled: the final response has 64*T1 to come (§9.1).
    Cancelling,
    /// Answered with 300 to 699, acknowledged.
    Completed,
    /// Answered with 2xx, of which more may come.
    Accepted,
    /// Over.
    Terminated,
}

/// Sends the INVITE.
///
/// [17.1.1.2-1] The first state is Calling. [17.1.1.2-2] The request is passed to the transport. [17.1.1.2-3] Timer A
/// starts over an unreliable transport, [17.1.1.2-4] and not over a reliable one. [17.1.1.2-5] Timer B starts over any.
pub fn start(transport: TransportKind) -> Step<State> {
    Step::to(State::Calling).send(Send::New).start_pace(transport).life(Timer::B)
}

impl State {
    /// All states.
    pub const ALL: [Self; 6] = [
        Self::Calling,
        Self::Proceeding,
        Self::Cancelling,
        Self::Completed,
        Self::Accepted,
        Self::Terminated,
    ];

    /// What an event leads to.
    #[inline(always)]
    pub fn on(self, event: Event, transport: TransportKind) -> Step<Self> {
        match self {
            Self::Calling => calling(event, transport),
            Self::Proceeding | Self::Cancelling => proceeding(self, event, transport),
            Self::Completed => completed(event),
            Self::Accepted => accepted(event),
            Self::Terminated => Step::to(self),
        }
    }

    /// The INVITE is what the ACK and a CANCEL are made from; later the ACK is kept in its place.
    pub(crate) fn keeps_message(self) -> bool {
        !matches!(self, Self::Accepted | Self::Terminated)
    }
}

fn calling(event: Event, transport: TransportKind) -> Step<State> {
    match event {
        // [17.1.1.2-6] The request is sent again when A fires, [17.1.1.2-7] at intervals that double each time; only
        // here, [17.1.1.2-8] so only while Calling, [17.1.1.2-9] and whatever T1 is.
        Event::Timer(Timer::A) => Step::to(State::Calling).send(Send::Again).pace(Pace::Double),
        // [17.1.1.2-10] The user is told of the timeout, [17.1.1.2-11] and no ACK is made.
        Event::Timer(Timer::B) => Step::to(State::Terminated).tell(Tell::Timeout),
        // [17.1.1.2-12] No more sending, [17.1.1.2-13] the response is passed on. B does not run in Proceeding.
        Event::Response(Class::Trying | Class::Provisional) => {
            Step::to(State::Proceeding).tell(Tell::Message).no_timers()
        }
        Event::Response(class) => answered(class, transport),
        // [17.1.4-1] The user is told, [17.1.4-2] and the transaction is over.
        Event::TransportError => Step::to(State::Terminated).tell(Tell::TransportError),
        // [9.1-5] A CANCEL waits for a provisional response: nothing changes, and the layer says so.
        _ => Step::to(State::Calling),
    }
}

/// Proceeding, and Cancelling, which differs by its limit.
fn proceeding(state: State, event: Event, transport: TransportKind) -> Step<State> {
    match event {
        // [17.1.1.2-14] Every further provisional response is passed on.
        Event::Response(Class::Trying | Class::Provisional) => Step::to(state).tell(Tell::Message),
        Event::Response(class) => answered(class, transport),
        // [9.1-7] A cancelled INVITE without final response is given up after 64*T1.
        Event::Cancel if state == State::Proceeding => Step::to(State::Cancelling).life(Timer::Cancel),
        Event::Timer(Timer::Cancel) => Step::to(State::Terminated).tell(Tell::Timeout),
        _ => Step::to(state),
    }
}

/// The first final response.
fn answered(class: Class, transport: TransportKind) -> Step<State> {
    if class == Class::Success {
        // [17.1.1.2-21] A 2xx leads to Accepted, where M runs 64*T1; [17.1.1.2-22] it is passed on, [17.1.1.2-23] and
        // the ACK is the user's.
        return Step::to(State::Accepted).tell(Tell::Message).no_timers().life(Timer::M);
    }
    // [17.1.1.2-16] The response is passed on, [17.1.1.2-17] and acknowledged over any transport.
    let step = Step::to(State::Completed).send(Send::Ack).tell(Tell::Message).no_timers();
    match transport {
        // [17.1.1.2-15] 300 to 699 leads to Completed, [17.1.1.2-19] where D runs.
        TransportKind::Unreliable => step.life(Timer::D),
        // D is zero: nothing will come again.
        TransportKind::Reliable => Step { next: State::Terminated, ..step },
    }
}

fn completed(event: Event) -> Step<State> {
    match event {
        // [17.1.1.2-20] The ACK goes out again, and the response is not passed on.
        Event::Response(Class::Failure | Class::Timeout) => Step::to(State::Completed).send(Send::Again),
        // [17.1.1.2-24] D ends it.
        Event::Timer(Timer::D) => Step::to(State::Terminated),
        // The ACK could not be delivered.
        Event::TransportError => Step::to(State::Terminated).tell(Tell::TransportError),
        _ => Step::to(State::Completed),
    }
}

fn accepted(event: Event) -> Step<State> {
    match event {
        // [17.1.1.2-25] Repetitions and the 2xx of other branches of a fork are passed on.
        Event::Response(Class::Success) => Step::to(State::Accepted).tell(Tell::Message),
        // [17.1.1.2-26] M ends it.
        Event::Timer(Timer::M) => Step::to(State::Terminated),
        _ => Step::to(State::Accepted),
    }
}
