//! The results of a step, for the caller of the shard: its outcome, effects beside messages, questions to stores, counts, and
//! refusals.

pub(crate) mod counters;
pub(crate) mod event;
pub(crate) mod failure;
pub(crate) mod pause;
pub(crate) mod question;
pub(crate) mod rejection;

/// What comes of an input. Where it went is in the outbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was handled.
    Handled,
    /// It was a request that overload control has refused.
    Overloaded,
}
