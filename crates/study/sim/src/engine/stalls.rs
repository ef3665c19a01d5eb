//! Pauses of a whole host.

use super::Spread;
use base::{Instant, Rng};
use core::time::Duration;

/// Pauses of a whole host, as garbage collection makes them: all of its workers stop and go on where they were. They
/// come at random.
#[derive(Clone, PartialEq, Debug)]
pub struct StallConfig {
    /// Mean time from the end of a pause to the start of the next.
    pub spacing: Duration,
    /// Mean length of a pause.
    pub length: Duration,
    /// How the length scatters.
    pub length_spread: Spread,
}

/// Draws the pauses of one host.
#[derive(Clone, Debug)]
pub struct Stalls {
    config: StallConfig,
    rng: Rng,
}

impl Stalls {
    /// The generator should be a fork of the host's own, so that pauses do not change what else is drawn.
    pub fn new(config: StallConfig, rng: Rng) -> Self {
        Self { config, rng }
    }

    /// The next pause after one that ended at `end` (zero for the first): when it starts and how long it lasts,
    /// for [`Cpu::stall`](super::Cpu::stall).
    pub fn next(&mut self, end: Instant) -> (Instant, Duration) {
        let spacing = Spread::Exponential.draw(self.config.spacing, &mut self.rng);
        let length = self.config.length_spread.draw(self.config.length, &mut self.rng);
        (end + spacing, length)
    }
}
