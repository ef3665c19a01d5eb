//! The policy Response-time Weighted Moving Average (RWMA).

use super::least::Least;
use super::{Candidates, NewCall, Policy, PolicyKind};
use crate::{Node, NodeId, Slot};
use core::time::Duration;
use std::collections::VecDeque;
use wire::Method;

/// Response-time weighted moving average: the node with the shortest recent response times. It is the paper's
/// counter-example: its measurements come late, so a node that has just got many calls still appears fast (TLWL paper,
/// V B).
///
/// Averages the last 20 response times of a node, where the newest has 20 times the weight of the oldest. Divides the
/// average by capacity. A node without a measurement counts as the fastest, so that it gets one.
#[derive(Clone, Debug)]
pub struct Rwma {
    least: Least,
    /// Node to which the samples belong, by slot. A slot may go to another node.
    ids: Vec<NodeId>,
    samples: Vec<VecDeque<f64>>,
    averages: Vec<f64>,
}

/// Number of samples per node: enough that one unusual value does not decide, and few enough to follow the load.
const WINDOW: usize = 20;

impl Rwma {
    /// `shard` makes the shards start at different nodes.
    pub fn new(shard: usize) -> Self {
        Self { least: Least::new(shard), ids: Vec::new(), samples: Vec::new(), averages: Vec::new() }
    }
}

/// Weighted average of samples, oldest first: weights 1, 2, 3, ...
fn weighted_average(samples: &VecDeque<f64>) -> f64 {
    let (sum, weights) = samples.iter().zip(1_u32..).fold((0.0, 0.0), |(sum, weights), (sample, weight)| {
        (sum + sample * f64::from(weight), weights + f64::from(weight))
    });
    if weights > 0.0 { sum / weights } else { 0.0 }
}

impl Policy for Rwma {
    fn name(&self) -> &'static str {
        PolicyKind::Rwma.name()
    }

    fn choose(&mut self, _: &NewCall<'_>, candidates: &Candidates<'_>) -> Option<Slot> {
        let averages = &self.averages;
        self.least.choose(candidates, |candidate| averages[candidate.slot.index()])
    }

    fn on_response(&mut self, slot: Slot, method: Method, took: Duration) {
        // The ringing time of an INVITE does not depend on the node. The paper's servers answer at once, and this
        // policy is meant for such servers.
        if !matches!(method, Method::Invite | Method::Bye) {
            return;
        }
        let samples = &mut self.samples[slot.index()];
        if samples.len() == WINDOW {
            samples.pop_front();
        }
        samples.push_back(took.as_secs_f64());
        self.averages[slot.index()] = weighted_average(samples);
    }

    fn on_nodes(&mut self, nodes: &[Node]) {
        self.samples.resize_with(nodes.len(), || VecDeque::with_capacity(WINDOW));
        self.averages.resize(nodes.len(), 0.0);
        for (index, (before, node)) in self.ids.iter().zip(nodes).enumerate() {
            if *before != node.id {
                self.samples[index].clear();
                self.averages[index] = 0.0;
            }
        }
        self.ids.clear();
        self.ids.extend(nodes.iter().map(|node| node.id));
    }

    fn clone_box(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_sample_weighs_most() {
        let average = weighted_average(&VecDeque::from([1.0, 1.0, 4.0]));
        assert!((average - (1.0 + 2.0 + 12.0) / 6.0).abs() < 1e-12);
    }
}
