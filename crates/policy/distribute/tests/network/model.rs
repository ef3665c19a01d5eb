//! A small model of a network of proxies: calls follow their paths, work takes time, periods end together.

use base::Instant;
use core::time::Duration;
use distribute::{Call, DistributionSettings, Distributor, NextHop, StateDecision};

/// Seconds of processor time: to forward a call, and in addition for its state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) forward: f64,
    pub(crate) state: f64,
}

/// Nodes by index, and paths with their shares of the calls.
pub(crate) struct Network {
    pub(crate) costs: Vec<Cost>,
    pub(crate) paths: Vec<(Vec<usize>, f64)>,
    pub(crate) nodes: Vec<Distributor<usize>>,
    pub(crate) now: Instant,
    period: Duration,
    /// Cost of a refusal at an entry, relative to forwarding a call; `None`: nothing is refused.
    pub(crate) refusing: Option<f64>,
    /// Fractional calls of each path that are carried over.
    rest: Vec<f64>,
    /// Share of new calls that the overload control of each node accepts, without regard to the state that the node
    /// gives away: the calls that it has time for.
    control: Vec<f64>,
    /// Calls of each path that its entry admits, and the part of them that its overload control accepts.
    let_in: Vec<f64>,
    taken: Vec<f64>,
    seed: u64,
}

/// Result of a period.
pub(crate) struct Outcome {
    /// Work of each node; 1 when it is just full.
    pub(crate) demand: Vec<f64>,
    /// Share of the calls that are refused, or lost at overloaded nodes.
    pub(crate) lost: f64,
    /// Calls that are carried.
    pub(crate) carried: f64,
}

impl Network {
    pub(crate) fn new(
        costs: Vec<Cost>,
        paths: Vec<(Vec<usize>, f64)>,
        settings: DistributionSettings,
    ) -> Self {
        let nodes = (0..costs.len()).map(|node| Distributor::new(settings, salt(node as u64, 0)));
        let (nodes, rest) = (nodes.collect(), vec![0.0; paths.len()]);
        let (let_in, taken, control) = (rest.clone(), rest.clone(), vec![1.0; costs.len()]);
        let (now, period) = (Instant::ZERO, settings.period);
        Self { costs, paths, nodes, now, period, refusing: None, rest, control, let_in, taken, seed: 0 }
    }

    /// Unique key of a call.
    pub(crate) fn key(&mut self) -> u64 {
        self.seed += 1;
        salt(self.seed, 77)
    }

    /// Sends a call along its path. Returns the places on it that keep its state.
    pub(crate) fn walk(&mut self, path: usize, key: u64) -> Vec<usize> {
        let path = &self.paths[path].0;
        let (mut kept, mut keepers) = (false, Vec::new());
        for (place, node) in path.iter().enumerate() {
            let from = place.checked_sub(1).map(|before| path[before]);
            let to = path.get(place + 1).map_or(NextHop::Exit, |next| NextHop::Neighbour(*next));
            match self.nodes[*node].on_call(self.now, Call { from, to, kept, key }) {
                StateDecision::Keep => {
                    assert!(!kept, "kept twice");
                    keepers.push(place);
                    kept = true;
                }
                StateDecision::PassKept => assert!(kept, "passed as kept, but no node keeps it"),
                StateDecision::PassOpen => assert!(!kept, "a mark was removed"),
            }
        }
        keepers
    }

    /// Sends a period of calls at this rate, and ends the period.
    pub(crate) fn period(&mut self, load: f64) -> Outcome {
        let outcome = self.send(load);
        self.end(&outcome.demand, |_, _| true);
        outcome
    }

    /// Sends a period of calls at this rate; returns the resulting work.
    pub(crate) fn send(&mut self, load: f64) -> Outcome {
        let mut demand = vec![0.0; self.costs.len()];
        let (mut sent, mut offered) = (vec![0.0; self.paths.len()], 0.0_f64);
        for (path, sent) in sent.iter_mut().enumerate() {
            self.rest[path] += load * self.paths[path].1 * self.period.as_secs_f64();
            while self.rest[path] >= 1.0 {
                self.rest[path] -= 1.0;
                offered += 1.0;
                let entry = self.paths[path].0[0];
                if let Some(part) = self.refusing {
                    demand[entry] += part * self.costs[entry].forward;
                    self.let_in[path] += self.nodes[entry].accepted_share();
                    if self.let_in[path] < 1.0 {
                        continue;
                    }
                    self.let_in[path] -= 1.0;
                    self.taken[path] += (self.control[entry] / self.nodes[entry].accepted_share()).min(1.0);
                    if self.taken[path] < 1.0 {
                        self.nodes[entry].on_refused(None);
                        continue;
                    }
                    self.taken[path] -= 1.0;
                    demand[entry] -= part * self.costs[entry].forward;
                }
                *sent += 1.0;
                let key = self.key();
                let keepers = self.walk(path, key);
                assert_eq!(keepers.len(), 1, "state is kept exactly once");
                for (place, node) in self.paths[path].0.iter().enumerate() {
                    let cost = self.costs[*node];
                    demand[*node] += cost.forward + if keepers[0] == place { cost.state } else { 0.0 };
                }
            }
        }
        for ((demand, control), node) in demand.iter_mut().zip(&mut self.control).zip(&self.nodes) {
            *demand /= self.period.as_secs_f64();
            *control = (control.min(node.accepted_share()) / demand.max(0.1)).min(1.0);
        }
        let through = |node: &usize| 1.0 / demand[*node].max(1.0);
        let survive = |path: &(Vec<usize>, f64)| path.0.iter().map(through).product::<f64>();
        let carried: f64 = self.paths.iter().zip(&sent).map(|(path, sent)| sent * survive(path)).sum();
        Outcome { demand, lost: 1.0 - carried / offered.max(1.0), carried }
    }

    /// Ends a period with these utilisations. `arrives`: whether the notice of one node reaches another.
    pub(crate) fn end(&mut self, utilisation: &[f64], arrives: impl FnMut(usize, usize) -> bool) {
        self.now += self.period;
        for (node, busy) in self.nodes.iter_mut().zip(utilisation) {
            node.on_period(self.now, self.period, busy.min(1.0));
        }
        self.tell(arrives);
    }

    /// Like [`end`](Self::end) for two networks of the same nodes, which give this one's function away first.
    pub(crate) fn end_before(&mut self, last: &mut Self, utilisation: &[f64]) {
        self.now += self.period;
        last.now = self.now;
        for ((node, last), busy) in self.nodes.iter_mut().zip(&mut last.nodes).zip(utilisation) {
            node.on_period_before(last, self.now, self.period, busy.min(1.0));
        }
        self.tell(|_, _| true);
        last.tell(|_, _| true);
    }

    fn tell(&mut self, mut arrives: impl FnMut(usize, usize) -> bool) {
        for teller in 0..self.nodes.len() {
            let upstream: Vec<usize> = self.nodes[teller].upstream().collect();
            for told in upstream {
                let notice = self.nodes[teller].notice(Some(told));
                if arrives(teller, told) {
                    self.nodes[told].on_notice(self.now, teller, notice);
                }
            }
        }
    }
}

pub(crate) fn salt(seed: u64, stream: u64) -> u64 {
    // Any mixing function that differs from the product's.
    let mut mixed = (seed ^ (stream << 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^= mixed >> 32;
    mixed = mixed.wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}
