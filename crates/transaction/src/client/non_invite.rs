//! The non-INVITE client transaction: RFC 3261 §17.1.2, figure 6.

use crate::machine::{Class, Event, Pace, Send, Step, Tell, Timer, TransportKind};

/// Where the transaction stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Sent, not answered.
    Trying,
    /// Answered with 1xx.
    Proceeding,
    /// Answered with 200 to 699, which may come again.
    Completed,
    /// Over.
    Terminated,
}

/// Sends the request.
///
/// [17.1.2.2-1] Timer F starts. [17.1.2.2-2] The request is passed to the transport. [17.1.2.2-3] Timer E starts over
/// an unreliable transport.
pub fn start(transport: TransportKind) -> Step<State> {
    Step::to(State::Trying).send(Send::New).start_pace(transport).life(Timer::F)
}

impl State {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Trying, Self::Proceeding, Self::Completed, Self::Terminated];

    /// What an event leads to.
    #[inline(always)]
    pub fn on(self, event: Event, transport: TransportKind) -> Step<Self> {
        match self {
            Self::Trying => trying(event, transport),
            Self::Proceeding => proceeding(event, transport),
            Self::Completed => completed(event),
            Self::Terminated => Step::to(self),
        }
    }

    /// The request, until it is answered.
    pub(crate) fn keeps_message(self) -> bool {
        matches!(self, Self::Trying | Self::Proceeding)
    }
}

fn trying(event: Event, transport: TransportKind) -> Step<State> {
    match event {
        // [17.1.2.2-4] Intervals double up to T2.
        Event::Timer(Timer::E) => Step::to(State::Trying).send(Send::Again).pace(Pace::DoubleToT2),
        // [17.1.2.2-7] A provisional response is passed on, [17.1.2.2-8] and leads to Proceeding, where E goes on.
        Event::Response(Class::Trying | Class::Provisional) => {
            Step::to(State::Proceeding).tell(Tell::Message)
        }
        _ => waiting(State::Trying, event, transport),
    }
}

fn proceeding(event: Event, transport: TransportKind) -> Step<State> {
    match event {
        // [17.1.2.2-10] The request goes out again, [17.1.2.2-11] from now on at intervals of T2.
        Event::Timer(Timer::E) => Step::to(State::Proceeding).send(Send::Again).pace(Pace::T2),
        Event::Response(Class::Trying | Class::Provisional) => {
            Step::to(State::Proceeding).tell(Tell::Message)
        }
        _ => waiting(State::Proceeding, event, transport),
    }
}

/// What Trying and Proceeding have in common.
fn waiting(state: State, event: Event, transport: TransportKind) -> Step<State> {
    match event {
        Event::Response(_) => {
            // [17.1.2.2-9] The final response is passed on.
            let step = Step::to(State::Completed).tell(Tell::Message).no_timers();
            match transport {
                // [17.1.2.2-13] K waits for repetitions; [17.1.2.2-12] zero seconds over a reliable transport.
                TransportKind::Unreliable => step.life(Timer::K),
                TransportKind::Reliable => Step { next: State::Terminated, ..step },
            }
        }
        // [17.1.2.2-5] The user is told of the timeout, [17.1.2.2-6] and the transaction is over.
        Event::Timer(Timer::F) => Step::to(State::Terminated).tell(Tell::Timeout),
        // [17.1.4-1] [17.1.4-2] The same for what could not be sent.
        Event::TransportError => Step::to(State::Terminated).tell(Tell::TransportError),
        _ => Step::to(state),
    }
}

fn completed(event: Event) -> Step<State> {
    match event {
        // [17.1.2.2-14] K ends it. Repetitions of the response are absorbed until then.
        Event::Timer(Timer::K) => Step::to(State::Terminated),
        _ => Step::to(State::Completed),
    }
}
