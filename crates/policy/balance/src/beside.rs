//! Branches of a call that went to another pool than the call's node is in.
//!
//! Whoever forks upstream, or a node that sends a request back with another Request-URI (a spiral), has one call go
//! to several pools. The session has one node; what belongs to the other branches is found here by their marks (RFC
//! 3261 §9.1, §17.1.1.3).

use crate::{CallKey, Request, Slot};
use base::Recent;

/// Branches that are remembered, in each of two generations.
const MOST: usize = 4_096;

/// Call and initiator, CSeq number, [`Request::branch`]; both 0 for the last branch of the call.
type Name = (CallKey, u32, u32);

#[derive(Debug)]
pub(crate) struct Beside {
    /// The node of each, and how often its slot had changed hands.
    nodes: Recent<Name, (Slot, u32)>,
    /// How often each slot has changed hands.
    changes: Vec<u32>,
}

impl Default for Beside {
    fn default() -> Self {
        Self { nodes: Recent::new(MOST), changes: Vec::new() }
    }
}

fn call(request: &Request<'_>) -> CallKey {
    request.key.begun_by(request.tags.from)
}

impl Beside {
    fn changes(&self, slot: Slot) -> u32 {
        self.changes.get(slot.index()).copied().unwrap_or_default()
    }

    fn get(&self, name: Name) -> Option<Slot> {
        let (slot, changes) = *self.nodes.get(&name)?;
        (self.changes(slot) == changes).then_some(slot)
    }

    /// The node that the branch of a request, or of its INVITE, went to.
    pub(crate) fn of_branch(&self, request: &Request<'_>) -> Option<Slot> {
        if self.nodes.is_empty() { None } else { self.get((call(request), request.cseq, request.branch)) }
    }

    /// The node that the last such branch of a request's call went to: who has asked for credentials is to get them.
    pub(crate) fn of_call(&self, request: &Request<'_>) -> Option<Slot> {
        self.get((call(request), 0, 0))
    }

    /// A branch goes there.
    pub(crate) fn note(&mut self, request: &Request<'_>, slot: Slot) {
        let entry = (slot, self.changes(slot));
        self.nodes.insert((call(request), request.cseq, request.branch), entry);
        self.nodes.insert((call(request), 0, 0), entry);
    }

    /// Another node has the slot.
    pub(crate) fn forget(&mut self, slot: Slot) {
        if self.changes.len() <= slot.index() {
            self.changes.resize(slot.index() + 1, 0);
        }
        self.changes[slot.index()] = self.changes[slot.index()].wrapping_add(1);
    }
}
