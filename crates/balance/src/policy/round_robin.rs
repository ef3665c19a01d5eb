use super::{Candidates, NewCall, Policy};
use crate::Slot;

/// Round-robin, weighted by capacity and smooth: with capacities 2 and 1 the order is a, b, a, not a, a, b.
///
/// Each choice adds every node's capacity to its credit, takes the node with the most, and
/// charges it the sum. With equal capacities this is plain round-robin.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    credits: Vec<f64>,
    shard: usize,
}

impl RoundRobin {
    /// `shard` spreads the first choices of the shards.
    pub fn new(shard: usize) -> Self {
        Self { credits: Vec::new(), shard }
    }
}

impl Policy for RoundRobin {
    fn name(&self) -> &'static str {
        "round-robin"
    }

    fn choose(&mut self, _: &NewCall<'_>, candidates: &Candidates<'_>) -> Option<Slot> {
        let slots = candidates.slots();
        self.credits.resize(slots, 0.0);
        let mut sum = 0.0;
        let mut best: Option<Slot> = None;
        for step in 0..slots {
            let slot = Slot(((self.shard + step) % slots) as u16);
            let Some(candidate) = candidates.get(slot) else {
                // Credit saved up while away would come back as a burst.
                self.credits[slot.index()] = 0.0;
                continue;
            };
            sum += candidate.capacity;
            self.credits[slot.index()] += candidate.capacity;
            // Rounding must not decide between equals, or the order would wobble.
            let ahead = |best: Slot| self.credits[slot.index()] > self.credits[best.index()] + 1e-9;
            if best.is_none_or(ahead) {
                best = Some(slot);
            }
        }
        self.credits[best?.index()] -= sum;
        best
    }

    fn clone_box(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}
