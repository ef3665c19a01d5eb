//! Which members have yet to answer a CANCEL that went to all of them, and how much may be searched for.

use balance::{CallKey, NodeId};
use base::{Bucket, Buckets, Instant, Rate};
use core::time::Duration;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

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

/// Which nodes have yet to answer. The first final response ends the client's transaction (RFC 3261 §17.1.2), so a
/// node's "no such INVITE" must not overtake the 200 of the one that has it: only the last failure is told, and its
/// repetitions.
#[derive(Debug, Default)]
pub(crate) struct Searches(VecDeque<PendingSearch>);

#[derive(Debug)]
struct PendingSearch {
    search: Search,
    awaited: Vec<NodeId>,
    /// The last one that failed, once none is awaited.
    told: Option<NodeId>,
}

impl Searches {
    /// The nodes were asked, perhaps again: what was said before still holds, but who was not asked now is not waited
    /// for.
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
        self.0.push_back(PendingSearch { search, awaited: nodes, told: None });
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

/// The longest request that is searched for: neither a CANCEL nor the ACK to a failure has a body (RFC 3261 §9.1,
/// §17.1.1.3).
pub(super) const LENGTH_MAX: usize = 2_000;

/// Datagrams to members while INVITEs may be under way that this process did not see: enough for the CANCELs and ACKs
/// of thousands of calls a second after a restart, and a tenth of what a shard can send.
const YOUNG: Rate = Rate { per_second: 10_000, burst: 10_000 };
/// Later all INVITEs are known here but those that went through a peer balancer.
const OLD: Rate = Rate { per_second: 500, burst: 1_000 };
/// A source may have this part of it.
const SOURCE_PART: u32 = 4;

/// Buckets for sources.
const SOURCES: usize = 4_096;

/// A process that had nothing to do for so long did not see what others did meanwhile, and may have taken over from
/// one of them.
const QUIET: Duration = Duration::from_secs(10);

/// How much may be searched for. The bounds are on datagrams to members, so that they hold for any number of members.
#[derive(Debug)]
pub(crate) struct SearchLimits {
    all: Bucket,
    sources: Buckets,
    /// Since when this process has been at work without a long pause.
    at_work_since: Instant,
    latest: Instant,
}

impl Default for SearchLimits {
    fn default() -> Self {
        Self {
            all: Bucket::default(),
            sources: Buckets::new(SOURCES),
            at_work_since: Instant::ZERO,
            latest: Instant::ZERO,
        }
    }
}

impl SearchLimits {
    /// A datagram came.
    pub(crate) fn heard(&mut self, now: Instant) {
        if now.saturating_since(self.latest) > QUIET {
            self.at_work_since = now;
        }
        self.latest = now;
    }

    /// Whether a search among so many members may begin, for the source with this hash. `invites_last` is how long an
    /// INVITE can be under way.
    pub(super) fn take(&mut self, now: Instant, source: u64, members: u32, invites_last: Duration) -> bool {
        let young = now.saturating_since(self.at_work_since) <= invites_last;
        let all = if young { YOUNG } else { OLD };
        let each = Rate { per_second: all.per_second / SOURCE_PART, burst: all.burst / SOURCE_PART };
        let source = self.sources.of(source);
        let may = source.has_some(now, each) && self.all.has_some(now, all);
        if may {
            source.take(now, each, members);
            self.all.take(now, all, members);
        }
        may
    }
}

/// What a source is known by: its address, or the network of an IPv6 address, of which one host has 2^64.
pub(super) fn source_of(from: SocketAddr) -> [u8; 8] {
    let mut source = [0; 8];
    match from.ip().to_canonical() {
        IpAddr::V4(ip) => source[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => source.copy_from_slice(&ip.octets()[..8]),
    }
    source
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
