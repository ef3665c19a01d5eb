//! Call agents on real sockets, for `sarabande load` and the demo.
//!
//! The agents themselves are pure ([`load::Caller`], [`load::Answerer`]). Here each gets a thread, a socket or
//! connections of its own, and the real clock:
//!
//! - [`bind`] a socket, or make a [`AgentLink`] of connections, to know its address for the agent's configuration,
//! - [`start_caller`] or [`start_answerer`],
//! - call [`RunningAgent::snapshot`] at any time: the thread copies its results several times a second, so reading them
//!   hardly affects the measurement,
//! - [`RunningAgent::stop`], or wait until a caller [`RunningAgent::is_finished`], soon after [`RunningAgent::wind_down`].

mod link;
mod running;
mod snapshot;
mod thread;
mod waking;

pub use link::{AgentLink, bind};
pub use running::{RunningAgent, start_answerer, start_caller};
pub use snapshot::Snapshot;

use base::{Instant, Outbox};
use load::{AgentEvent, AgentInput, Answerer, AnswererResults, CallResults, Caller};

/// The common interface of both kinds of agents.
pub(crate) trait Agent: Send + 'static {
    /// Its counts.
    type Results: Clone + Default + Send + 'static;

    fn handle(&mut self, now: Instant, input: AgentInput<'_>, out: &mut Outbox<AgentEvent>);
    fn deadline(&self) -> Option<Instant>;
    /// The next deadline that must be met to some microseconds. Otherwise the lateness of this machine would be
    /// measured as the server's.
    fn exact(&self) -> Option<Instant>;
    /// Ends its calls in order, and starts no more.
    fn wind_down(&mut self, now: Instant);
    /// Whether all its work is done.
    fn finished(&self) -> bool;
    fn results(&self) -> &Self::Results;
}

impl Agent for Caller {
    type Results = CallResults;

    fn handle(&mut self, now: Instant, input: AgentInput<'_>, out: &mut Outbox<AgentEvent>) {
        Self::handle(self, now, input, out);
    }

    fn deadline(&self) -> Option<Instant> {
        Self::deadline(self)
    }

    /// All deadlines, since times are measured from the schedule.
    fn exact(&self) -> Option<Instant> {
        Self::deadline(self)
    }

    fn wind_down(&mut self, now: Instant) {
        self.stop(now);
    }

    fn finished(&self) -> bool {
        Self::finished(self)
    }

    fn results(&self) -> &CallResults {
        Self::results(self)
    }
}

impl Agent for Answerer {
    type Results = AnswererResults;

    fn handle(&mut self, now: Instant, input: AgentInput<'_>, out: &mut Outbox<AgentEvent>) {
        Self::handle(self, now, input, out);
    }

    fn deadline(&self) -> Option<Instant> {
        Self::deadline(self)
    }

    /// Responses whose service time is over.
    fn exact(&self) -> Option<Instant> {
        self.service_ends()
    }

    /// The callers end their calls.
    fn wind_down(&mut self, _: Instant) {}

    /// It answers calls until it is stopped.
    fn finished(&self) -> bool {
        false
    }

    fn results(&self) -> &AnswererResults {
        Self::results(self)
    }
}
