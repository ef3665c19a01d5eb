//! Branches of a call in another pool than the call's node.
//!
//! A fork upstream, or a node that sends a request back with another Request-URI (a spiral), makes one call go to
//! several pools. The session has one node. The nodes of its branches in other pools are found here by Call-ID,
//! initiator, CSeq and branch (RFC 3261 §9.1, §17.1.1.3).

use crate::{CallKey, RequestFacts, Slot};
use base::Recent;

/// Most branches that are remembered, in each of two generations.
const MOST: usize = 4_096;

/// Call and initiator, CSeq number, and [`RequestFacts::branch`]. CSeq number and branch are 0 in the entry for the
/// last branch of the call.
type Name = (CallKey, u32, u32);

#[derive(Debug)]
pub(crate) struct OtherPoolBranches {
    /// Node of each branch, with the value of `changes` when the entry was made.
    nodes: Recent<Name, (Slot, u32)>,
    /// Number of times that each slot went to another node.
    changes: Vec<u32>,
}

impl Default for OtherPoolBranches {
    fn default() -> Self {
        Self { nodes: Recent::new(MOST), changes: Vec::new() }
    }
}

fn call(request: &RequestFacts<'_>) -> CallKey {
    request.key.with_initiator(request.tags.from)
}

impl OtherPoolBranches {
    fn changes(&self, slot: Slot) -> u32 {
        self.changes.get(slot.index()).copied().unwrap_or_default()
    }

    fn get(&self, name: Name) -> Option<Slot> {
        let (slot, changes) = *self.nodes.get(&name)?;
        (self.changes(slot) == changes).then_some(slot)
    }

    /// Node of the branch of a request, or of its INVITE.
    pub(crate) fn of_branch(&self, request: &RequestFacts<'_>) -> Option<Slot> {
        if self.nodes.is_empty() { None } else { self.get((call(request), request.cseq, request.branch)) }
    }

    /// Node of the last branch of a request's call in another pool. It is used so that a node that sent a challenge
    /// gets the request with credentials.
    pub(crate) fn of_call(&self, request: &RequestFacts<'_>) -> Option<Slot> {
        self.get((call(request), 0, 0))
    }

    /// Records the node of a branch.
    pub(crate) fn note(&mut self, request: &RequestFacts<'_>, slot: Slot) {
        let entry = (slot, self.changes(slot));
        self.nodes.insert((call(request), request.cseq, request.branch), entry);
        self.nodes.insert((call(request), 0, 0), entry);
    }

    /// Drops the entries of a slot that goes to another node.
    pub(crate) fn forget(&mut self, slot: Slot) {
        if self.changes.len() <= slot.index() {
            self.changes.resize(slot.index() + 1, 0);
        }
        self.changes[slot.index()] = self.changes[slot.index()].wrapping_add(1);
    }
}
