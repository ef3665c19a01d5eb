//! The nodes of a pool, by their slots.

use crate::ids::Slot;

/// Nodes of a pool. A node may be in several pools; it has one load and one health.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Members {
    /// Every node.
    #[default]
    All,
    /// Nodes in these slots.
    Some {
        /// Slots in order, so that a walk over a pool does not visit all nodes.
        slots: Vec<Slot>,
        /// Membership by slot. Slots with a higher number are not members.
        has: Vec<bool>,
    },
}

impl Members {
    /// Creates a set of the nodes in these slots.
    pub fn of(slots: impl IntoIterator<Item = Slot>) -> Self {
        let mut slots: Vec<_> = slots.into_iter().collect();
        slots.sort_unstable();
        slots.dedup();
        let mut has = vec![false; slots.last().map_or(0, |last| last.index() + 1)];
        for slot in &slots {
            has[slot.index()] = true;
        }
        Self::Some { slots, has }
    }

    /// Whether the node in a slot is a member.
    pub fn has(&self, slot: Slot) -> bool {
        match self {
            Self::All => true,
            Self::Some { has, .. } => has.get(slot.index()).copied().unwrap_or_default(),
        }
    }

    /// Slots of members among the first `nodes` slots: first the slots from `first` on, then the slots before it.
    pub(crate) fn from(&self, first: Slot, nodes: usize) -> impl Iterator<Item = Slot> + '_ {
        let (slots, start) = match self {
            Self::All => (None, first.index()),
            Self::Some { slots, .. } => (Some(slots), slots.partition_point(|slot| *slot < first)),
        };
        let count = slots.map_or(nodes, Vec::len);
        let at = move |place: usize| slots.map_or(Slot(place as u16), |slots| slots[place]);
        (start..count).chain(0..start.min(count)).map(at).filter(move |slot| slot.index() < nodes)
    }
}
