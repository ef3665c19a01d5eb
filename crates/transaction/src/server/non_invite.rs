//! The non-INVITE server transaction: RFC 3261 §17.2.2, figure 8 as RFC 4320 §4 and RFC 6026 §8.8 have it.

use crate::machine::{Class, Event, Send, Step, Tell, Timer, TransportKind};

/// Where the transaction stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
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
pub fn start() -> Step<State> {
    Step::to(State::Trying).life(Timer::TryingNonInvite)
}

impl State {
    /// All states.
    pub const ALL: [Self; 6] =
        [Self::Trying, Self::Late, Self::Proceeding, Self::Completed, Self::Abandoned, Self::Terminated];

    /// What an event leads to.
    #[inline(always)]
    pub fn on(self, event: Event, transport: TransportKind) -> Step<Self> {
        match self {
            Self::Trying => trying(event, transport),
            Self::Late => late(event, transport),
            Self::Proceeding => proceeding(event, transport),
            Self::Completed => completed(event),
            Self::Abandoned => abandoned(event),
            Self::Terminated => Step::to(self),
        }
    }

    /// The last response.
    pub(crate) fn keeps_message(self) -> bool {
        matches!(self, Self::Proceeding | Self::Completed)
    }
}

fn trying(event: Event, transport: TransportKind) -> Step<State> {
    match event {
        // [4320-3] The user answers with a 100, unless it has something better.
        Event::Timer(Timer::TryingNonInvite) => {
            Step::to(State::Late).tell(Tell::TryingDue).life(Timer::Expire)
        }
        // [4320-2] Over an unreliable transport a 100 this early is swallowed: it would slow the client's repetitions
        // when the final response may be lost.
        Event::Respond(Class::Trying) if transport == TransportKind::Unreliable => Step::to(State::Trying),
        // [17.2.2-1] Repetitions are discarded.
        _ => unanswered(State::Trying, event, transport),
    }
}

fn late(event: Event, transport: TransportKind) -> Step<State> {
    match event {
        // The client has given up by now, and so would whoever is asked by us.
        Event::Timer(Timer::Expire) => Step::to(State::Terminated).tell(Tell::Timeout),
        _ => unanswered(State::Late, event, transport),
    }
}

fn proceeding(event: Event, transport: TransportKind) -> Step<State> {
    match event {
        // [17.2.2-5] A repetition gets the 100 again.
        Event::Request => Step::to(State::Proceeding).send(Send::Again),
        // [17.2.2-4] A further provisional response is passed to the transport.
        Event::Respond(Class::Trying) => Step::to(State::Proceeding).send(Send::New),
        Event::Timer(Timer::Expire) => Step::to(State::Terminated).tell(Tell::Timeout),
        // [17.2.4-1] The user is told, [17.2.4-2] and the state remains.
        Event::TransportError => Step::to(State::Proceeding).tell(Tell::TransportError),
        _ => unanswered(State::Proceeding, event, transport),
    }
}

/// What the states before the final response have in common.
fn unanswered(state: State, event: Event, transport: TransportKind) -> Step<State> {
    let next = match event {
        // [17.2.2-2] A provisional response leads to Proceeding, [17.2.2-3] and is passed to the transport.
        Event::Respond(Class::Trying) => {
            return Step::to(State::Proceeding).send(Send::New).life(Timer::Expire);
        }
        // [17.2.2-6] A final response leads to Completed, [17.2.2-7] and is passed to the transport.
        Event::Respond(Class::Success | Class::Failure) => Step::to(State::Completed).send(Send::New),
        // [4320-4] A 408 is not sent: the client knows, and nothing else is to be said.
        Event::Respond(Class::Timeout) => Step::to(State::Abandoned),
        // [4320-1] 101 to 199 are not sent.
        _ => return Step::to(state),
    };
    match transport {
        // [17.2.2-8] J starts; zero seconds over a reliable transport.
        TransportKind::Unreliable => next.life(Timer::J),
        TransportKind::Reliable => Step { next: State::Terminated, ..next },
    }
}

fn completed(event: Event) -> Step<State> {
    match event {
        // [17.2.2-9] A repetition gets the final response again.
        Event::Request => Step::to(State::Completed).send(Send::Again),
        // [17.2.2-11] J ends it.
        Event::Timer(Timer::J) => Step::to(State::Terminated),
        // [17.2.4-1] [17.2.4-2] The user is told, and the state remains.
        Event::TransportError => Step::to(State::Completed).tell(Tell::TransportError),
        // [17.2.2-10] Other final responses of the user are discarded.
        _ => Step::to(State::Completed),
    }
}

fn abandoned(event: Event) -> Step<State> {
    match event {
        Event::Timer(Timer::J) => Step::to(State::Terminated),
        _ => Step::to(State::Abandoned),
    }
}
