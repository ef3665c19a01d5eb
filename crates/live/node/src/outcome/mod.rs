//! The results of a step for the caller of the shard: outcome, events, questions to stores, counts and refusals.

pub(crate) mod counters;
pub(crate) mod event;
pub(crate) mod failure;
pub(crate) mod pause;
pub(crate) mod question;
pub(crate) mod rejection;

/// Result of an input. Messages are in the outbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The input was handled.
    Handled,
    /// The input was a request that overload control refused.
    Overloaded,
}
