//! Settings of a shard's pipeline.

use base::Instant;
use core::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PipelineSettings {
    pub(crate) forwards_orphans: bool,
    pub(crate) epoch_unix: u64,
    pub(crate) stopping: Option<Instant>,
    pub(crate) tell_failures: bool,
    /// Time between two keep-alives to a client behind a NAT. Zero: none are sent.
    pub(crate) keep_alive: Duration,
}

impl PipelineSettings {
    /// Returns the Unix time in seconds. It fits 32 bits until 2106.
    pub(crate) fn unix(&self, now: Instant) -> u32 {
        let seconds = self.epoch_unix + now.saturating_since(Instant::ZERO).as_secs();
        u32::try_from(seconds).unwrap_or(u32::MAX)
    }
}
