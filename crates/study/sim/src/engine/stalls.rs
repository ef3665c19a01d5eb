//! Pauses of a whole host.

use super::TimeSpread;
use base::{Instant, Rng};
use core::time::Duration;

/// Pauses of a whole host at random times, like those of garbage collection: all workers stop, and then continue.
#[derive(Clone, PartialEq, Debug)]
pub struct StallConfig {
    /// Mean time from the end of a pause to the start of the next.
    pub spacing: Duration,
    /// Mean length of a pause.
    pub length: Duration,
    /// Distribution of the length.
    pub length_spread: TimeSpread,
}

/// Draws the pauses of one host.
#[derive(Clone, Debug)]
pub struct Stalls {
    config: StallConfig,
    rng: Rng,
}

impl Stalls {
    /// Returns the pauses. The generator should be a fork, so that pauses do not change other numbers.
    pub fn new(config: StallConfig, rng: Rng) -> Self {
        Self { config, rng }
    }

    /// Returns start and length of the next pause after a pause that ended at `end` (zero for the first), for
    /// [`Cpu::stall`](super::Cpu::stall).
    pub fn next(&mut self, end: Instant) -> (Instant, Duration) {
        let spacing = TimeSpread::Exponential.draw(self.config.spacing, &mut self.rng);
        let length = self.config.length_spread.draw(self.config.length, &mut self.rng);
        (end + spacing, length)
    }
}
