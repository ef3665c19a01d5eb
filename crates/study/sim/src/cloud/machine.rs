//! A machine of a server or a database: processor, network card, and neighbours that use a part of one of them.

use super::plan::{Neighbours, Resource};
use crate::engine::{Card, Cpu, CpuConfig, StallConfig, Stalls, TimeSpread};
use base::{Instant, Rng};
use core::time::Duration;

/// A message of a call at a server, or its look-up at a database.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) call: u32,
    pub(super) message: u8,
    /// Index of the server.
    pub(super) host: u32,
    /// Time of arrival at the server's processor.
    pub(super) since: Instant,
}

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) cpu: Cpu<Job>,
    /// `None`: messages pass at once.
    pub(super) card: Option<Card<Job>>,
    pub(super) pauses: Option<Stalls>,
    steal: Option<Stalls>,
    neighbours: Option<Neighbours>,
    /// Whether neighbours are busy.
    contended: bool,
}

impl Machine {
    pub(super) fn new(
        spread: TimeSpread,
        card: Option<f64>,
        pauses: Option<StallConfig>,
        neighbours: Option<Neighbours>,
        rng: &Rng,
    ) -> Self {
        let config = CpuConfig { spread, ..CpuConfig::default() };
        let stalls = |config, label| Stalls::new(config, rng.fork(label));
        Self {
            cpu: Cpu::new(config, rng.fork("service")),
            card: card.map(Card::new),
            pauses: pauses.map(|config| stalls(config, "pauses")),
            steal: neighbours.as_ref().and_then(|of| of.steal.clone()).map(|config| stalls(config, "steal")),
            neighbours,
            contended: false,
        }
    }

    /// Next start or end of the neighbours' activity after `now`.
    pub(super) fn next_burst(&self, now: Instant) -> Option<Instant> {
        let at = |after: Duration| Instant::ZERO + after;
        let changes = self.neighbours.as_ref()?.when.iter().flat_map(|(from, to)| [at(*from), at(*to)]);
        changes.filter(|change| *change > now).min()
    }

    /// Starts or ends the neighbours' activity.
    pub(super) fn turn_neighbours(&mut self) {
        self.contended = !self.contended;
        let Some(Neighbours { resource, share, .. }) = self.neighbours else { return };
        let taken = if self.contended { share } else { 0.0 };
        match (resource, &mut self.card) {
            (Resource::Processor, _) => self.cpu.set_background(taken),
            (Resource::Card, card) => {
                if let Some(card) = card {
                    card.set_share(1.0 - taken);
                }
            }
        }
    }

    /// Time of the first steal after `now`.
    pub(super) fn first_steal(&mut self, now: Instant) -> Option<Instant> {
        Some(self.steal.as_mut()?.next(now).0)
    }

    /// Lets active neighbours take the whole resource for a while. Returns the end of the processor's stall, if there
    /// is one, and the time of the next steal.
    pub(super) fn steal(&mut self, now: Instant) -> (Option<Instant>, Option<Instant>) {
        let Some(steal) = &mut self.steal else { return (None, None) };
        let (next, length) = steal.next(now);
        let mut end = None;
        if self.contended {
            match (self.neighbours.as_ref().map(|of| of.resource), &mut self.card) {
                (Some(Resource::Card), Some(card)) => card.stall(now, length),
                (Some(Resource::Processor), _) => end = Some(self.cpu.stall(now, length)),
                _ => {}
            }
        }
        (end, Some(next + length))
    }
}
