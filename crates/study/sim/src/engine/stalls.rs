//! Pauses of a whole host.

use super::Spread;
use base::{Instant, Rng};
use core::time::Duration;

/// Pauses of a whole host, as garbage collection makes them: all of its workers stop and go on where they were.
///
/// With fixed spacing and length this is also a competitor that takes the processor for whole quanta, 10 ms out of
/// every 50 for example; one that is scheduled finely is [`CpuConfig::background`](super::CpuConfig::background).
#[derive(Clone, PartialEq, Debug)]
pub struct StallConfig {
    /// Mean time from the end of a pause to the start of the next.
    pub spacing: Duration,
    /// How that time scatters; exponentially for pauses that come at random.
    pub spacing_spread: Spread,
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
        let spacing = self.config.spacing_spread.draw(self.config.spacing, &mut self.rng);
        let length = self.config.length_spread.draw(self.config.length, &mut self.rng);
        (end + spacing, length)
    }
}
