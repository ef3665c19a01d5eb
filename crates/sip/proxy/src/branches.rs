//! Branches of a request. Most requests have one branch, which is stored without allocation.

use crate::branch::Branch;
use crate::medium::Attempt;
use transaction::Id;

/// Maximum number of branches of a request: their numbers share a word with the place of the request.
pub(crate) const MOST: u8 = 15;

/// A branch with its client transaction.
pub(crate) struct BranchEntry {
    pub(crate) state: Branch,
    pub(crate) client: Option<Id>,
    /// Number of the branch, and of its current alternate.
    pub(crate) attempt: Attempt,
    /// Whether the result of this attempt was reported to the router.
    pub(crate) settled: bool,
    /// Share of the request's Max-Breadth (RFC 5393 §5.3.3).
    pub(crate) breadth: u8,
    /// Key of Timer C in the wheel.
    pub(crate) timer_c: Option<u32>,
}

impl BranchEntry {
    /// Makes a branch that is about to be sent.
    pub(crate) fn new(state: Branch, attempt: Attempt, breadth: u8) -> Self {
        Self { state, client: None, attempt, settled: false, breadth, timer_c: None }
    }
}

/// The branches of a request, by number.
pub(crate) struct Branches {
    first: BranchEntry,
    others: Vec<BranchEntry>,
}

impl Branches {
    pub(crate) fn new(first: BranchEntry) -> Self {
        Self { first, others: Vec::new() }
    }

    /// Adds a branch with the next number.
    pub(crate) fn push(&mut self, branch: BranchEntry) {
        debug_assert!(self.len() < MOST, "the limit of branches is checked before");
        self.others.push(branch);
    }

    pub(crate) fn get(&self, number: u8) -> Option<&BranchEntry> {
        match number {
            0 => Some(&self.first),
            number => self.others.get(usize::from(number) - 1),
        }
    }

    pub(crate) fn get_mut(&mut self, number: u8) -> Option<&mut BranchEntry> {
        match number {
            0 => Some(&mut self.first),
            number => self.others.get_mut(usize::from(number) - 1),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &BranchEntry> {
        core::iter::once(&self.first).chain(&self.others)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut BranchEntry> {
        core::iter::once(&mut self.first).chain(&mut self.others)
    }

    pub(crate) fn len(&self) -> u8 {
        1 + self.others.len() as u8
    }

    /// Sum of the Max-Breadth of branches without a final response.
    pub(crate) fn breadth(&self) -> u8 {
        self.iter().filter(|branch| !branch.state.is_finished()).map(|branch| branch.breadth).sum()
    }
}
