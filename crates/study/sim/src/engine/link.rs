//! Links between simulated hosts: delay, faults, and reliable transport.

use super::{FaultEffect, FaultRule};
use base::{Instant, Rng};
use core::time::Duration;
use rand::Rng as _;

/// Index of a host in its model, from zero.
pub type HostIndex = u32;

/// Configuration of a link in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkConfig {
    /// Transit time.
    pub delay: Duration,
    /// `None` is a datagram service, which every fault affects directly. `Some` is a stream (TCP): no message is lost
    /// or duplicated, but each lost segment costs its retransmission timeout.
    pub reliable: Option<Reliable>,
}

/// Retransmission of lost segments in a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reliable {
    /// Initial retransmission timeout. It doubles with every loss of the same segment (RFC 6298 section 5.5).
    pub timeout: Duration,
    /// Whether all messages of the link share one connection: none is overtaken, and messages behind a lost segment
    /// wait. Otherwise each message has its own connection.
    pub shared: bool,
}

/// Arrival times of a sent message's copies: none, one or two.
type Deliveries = [Option<Instant>; 2];

#[derive(Debug)]
struct Link {
    config: LinkConfig,
    rng: Rng,
    /// Indexes of the rules for this link.
    rules: Box<[u32]>,
    /// Arrival of the last message in a stream. Later messages do not arrive before it.
    last: Instant,
}

/// All links between the hosts of a model, with their faults.
///
/// Each link has its own random generator and draws only when a rule needs a number. A fault of one link therefore does
/// not affect another, and runs with and without a rule are comparable.
#[derive(Debug)]
pub struct SimNetwork {
    hosts: u32,
    links: Vec<Link>,
    rules: Vec<FaultRule>,
}

/// Maximum of a stream's timeout as it doubles, and maximum of retransmissions. After them the connection is closed and
/// the message lost (Linux: `TCP_RTO_MAX`, `tcp_retries2`).
const BACKOFF_MAX: Duration = Duration::from_mins(2);
const RETRANSMISSIONS_MAX: usize = 15;

impl SimNetwork {
    /// Returns links between all pairs of hosts, also from each host to itself.
    pub fn new(hosts: u32, config: LinkConfig, rules: Vec<FaultRule>, rng: &Rng) -> Self {
        let pairs = (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to)));
        let links = pairs.map(|(from, to)| Link {
            config,
            rng: rng.fork(&format!("link {from} {to}")),
            rules: (0..).zip(&rules).filter(|(_, rule)| rule.concerns(from, to)).map(|(n, _)| n).collect(),
            last: Instant::ZERO,
        });
        Self { hosts, links: links.collect(), rules }
    }

    /// Changes the configuration of one link.
    pub fn set_link(&mut self, from: HostIndex, to: HostIndex, config: LinkConfig) {
        let index = self.index(from, to);
        self.links[index].config = config;
    }

    /// Sends a message. Returns the arrival times of the message and of its copy, if they arrive.
    pub fn send(
        &mut self,
        now: Instant,
        from: HostIndex,
        to: HostIndex,
    ) -> impl Iterator<Item = Instant> + use<> {
        let index = self.index(from, to);
        let link = &mut self.links[index];
        let deliveries = match link.config.reliable {
            None => link.datagram(now, &self.rules),
            Some(reliable) => link.segment(now, &self.rules, reliable),
        };
        deliveries.into_iter().flatten()
    }

    fn index(&self, from: HostIndex, to: HostIndex) -> usize {
        debug_assert!(from < self.hosts && to < self.hosts, "no link from {from} to {to}");
        from as usize * self.hosts as usize + to as usize
    }
}

impl Link {
    fn datagram(&mut self, now: Instant, rules: &[FaultRule]) -> Deliveries {
        let mut at = [Some(now + self.config.delay), None];
        for rule in self.rules.iter().map(|&n| &rules[n as usize]).filter(|rule| rule.when.contains(&now)) {
            match rule.effect {
                FaultEffect::Partition => at = [None; 2],
                FaultEffect::Duplicate(probability) => {
                    if self.rng.random_bool(probability) {
                        at[1] = at[0];
                    }
                }
                // Effects apply to each copy independently.
                effect => at = at.map(|copy| copy.and_then(|at| disturbed(at, effect, &mut self.rng))),
            }
        }
        at
    }

    fn segment(&mut self, now: Instant, rules: &[FaultRule], reliable: Reliable) -> Deliveries {
        let (mut sent, mut backoff) = (now, reliable.timeout);
        for _ in 0..=RETRANSMISSIONS_MAX {
            let mut at = Some(sent + self.config.delay);
            for rule in
                self.rules.iter().map(|&n| &rules[n as usize]).filter(|rule| rule.when.contains(&sent))
            {
                at = at.and_then(|at| disturbed(at, rule.effect, &mut self.rng));
            }
            if let Some(at) = at {
                let at = if reliable.shared { at.max(self.last) } else { at };
                self.last = at;
                return [Some(at), None];
            }
            sent += backoff;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
        [None; 2]
    }
}

/// Applies an effect to one copy that would arrive at `at`. `None`: the copy is lost.
fn disturbed(at: Instant, effect: FaultEffect, rng: &mut Rng) -> Option<Instant> {
    match effect {
        FaultEffect::Delay(more) => Some(at + more),
        FaultEffect::Jitter(most) => Some(at + most.mul_f64(rng.random())),
        FaultEffect::Loss(probability) => (!rng.random_bool(probability)).then_some(at),
        FaultEffect::Reorder(probability, hold) => {
            Some(if rng.random_bool(probability) { at + hold } else { at })
        }
        FaultEffect::Partition => None,
        FaultEffect::Duplicate(_) => Some(at),
    }
}
