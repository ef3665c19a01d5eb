//! CANCELs that went to every node, since nobody knew which one has their INVITE.

use balance::{CallKey, NodeId};
use std::collections::VecDeque;

/// Searches that are remembered. A client repeats its CANCEL after half a second, so this does for hundreds a second;
/// one that is forgotten gets no failure, as none is told before the last node has answered.
const MOST: usize = 256;

/// The transaction of a CANCEL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Search {
    pub(crate) call: CallKey,
    pub(crate) cseq: u32,
    /// Mark of the client's branch.
    pub(crate) branch: u32,
}

/// Which nodes have yet to answer. The first final response ends the client's transaction (RFC 3261 §17.1.2), so a node's
/// "no such INVITE" must not overtake the 200 of the one that has it: only the last failure is told, and its repetitions.
#[derive(Debug, Default)]
pub(crate) struct Searches(VecDeque<Asked>);

#[derive(Debug)]
struct Asked {
    search: Search,
    awaited: Vec<NodeId>,
    /// The last one that failed, once none is awaited.
    told: Option<NodeId>,
}

impl Searches {
    /// The nodes were asked, perhaps again: what was said before still holds, but who was not asked now is not waited for.
    pub(crate) fn asked(&mut self, search: Search, nodes: Vec<NodeId>) {
        if let Some(at) = self.find(search) {
            let asked = &mut self.0[at];
            asked.awaited.retain(|node| nodes.contains(node));
            if !asked.awaited.is_empty() || asked.told.is_some_and(|told| nodes.contains(&told)) {
                return;
            }
            self.0.remove(at);
        }
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(Asked { search, awaited: nodes, told: None });
    }

    /// A node does not have it. Returns whether the client is to hear of that: no other one can have it.
    pub(crate) fn missed(&mut self, search: Search, node: NodeId) -> bool {
        let Some(at) = self.find(search) else { return false };
        let asked = &mut self.0[at];
        asked.awaited.retain(|&other| other != node);
        asked.awaited.is_empty() && *asked.told.get_or_insert(node) == node
    }

    /// A node has it: what the others say is of no interest.
    pub(crate) fn found(&mut self, search: Search) {
        if let Some(at) = self.find(search) {
            self.0.remove(at);
        }
    }

    fn find(&self, search: Search) -> Option<usize> {
        self.0.iter().position(|asked| asked.search == search)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(cseq: u32) -> Search {
        Search { call: CallKey(7), cseq, branch: 1 }
    }

    #[test]
    fn the_oldest_is_forgotten() {
        let mut searches = Searches::default();
        for cseq in 0..=MOST as u32 {
            searches.asked(search(cseq), vec![NodeId(1)]);
        }
        assert!(!searches.missed(search(0), NodeId(1)));
        assert!(searches.missed(search(1), NodeId(1)));
        assert_eq!(searches.0.len(), MOST);
    }

    #[test]
    fn who_is_not_asked_again_is_not_waited_for() {
        let mut searches = Searches::default();
        searches.asked(search(0), vec![NodeId(1), NodeId(2), NodeId(3)]);
        assert!(!searches.missed(search(0), NodeId(1)));
        searches.asked(search(0), vec![NodeId(1), NodeId(2)]);
        assert!(!searches.missed(search(0), NodeId(1)), "it has said so before");
        assert!(searches.missed(search(0), NodeId(2)));
        searches.asked(search(0), vec![NodeId(1)]);
        assert!(searches.missed(search(0), NodeId(1)), "who told is gone: from the start");
        searches.asked(search(1), vec![NodeId(1)]);
        searches.asked(search(1), vec![NodeId(2)]);
        assert!(searches.missed(search(1), NodeId(2)), "all that were awaited are gone: from the start");
    }
}
