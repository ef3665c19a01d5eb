//! Members that have yet to answer a CANCEL sent to all, and the limits of searches.

use balance::{CallKey, NodeId};
use base::{Bucket, Buckets, Instant, Rate};
use core::time::Duration;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// Searches that are remembered. A client repeats its CANCEL after half a second, so this suffices for hundreds per
/// second. A forgotten search returns no failure, since only the last node's failure goes back.
const MOST: usize = 256;

/// The transaction of a CANCEL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Search {
    pub(crate) call: CallKey,
    pub(crate) cseq: u32,
    /// Mark of the client's branch.
    pub(crate) branch: u32,
}

/// Nodes that have yet to answer. The first final response ends the client's transaction (RFC 3261 §17.1.2), so a 481
/// must not overtake the 200 of the node with the INVITE. Only the last failure and its repetitions go back.
#[derive(Debug, Default)]
pub(crate) struct Searches(VecDeque<PendingSearch>);

#[derive(Debug)]
struct PendingSearch {
    search: Search,
    awaited: Vec<NodeId>,
    /// The last node that failed, once none is awaited.
    told: Option<NodeId>,
}

impl Searches {
    /// Records that nodes were asked, perhaps again. Earlier responses still count. Nodes that are not asked now are no
    /// longer awaited.
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

    /// Records that a node does not have the INVITE. Returns whether its failure goes back, since no other node can
    /// have the INVITE.
    pub(crate) fn missed(&mut self, search: Search, node: NodeId) -> bool {
        let Some(at) = self.find(search) else { return false };
        let asked = &mut self.0[at];
        asked.awaited.retain(|&other| other != node);
        asked.awaited.is_empty() && *asked.told.get_or_insert(node) == node
    }

    /// Records that a node has the INVITE, so other responses do not matter.
    pub(crate) fn found(&mut self, search: Search) {
        if let Some(at) = self.find(search) {
            self.0.remove(at);
        }
    }

    fn find(&self, search: Search) -> Option<usize> {
        self.0.iter().position(|asked| asked.search == search)
    }
}

/// Maximum length of a request that is searched for, in bytes. Neither a CANCEL nor the ACK to a failure has a body
/// (RFC 3261 §9.1, §17.1.1.3).
pub(super) const LENGTH_MAX: usize = 2_000;

/// Limit of datagrams to members while INVITEs may be in progress that this process did not see. It suffices for the
/// CANCELs and ACKs of thousands of calls a second after a restart, and is a tenth of the capacity of a shard.
const YOUNG: Rate = Rate { per_second: 10_000, burst: 10_000 };
/// Limit after that time, when only INVITEs through a peer balancer are unknown.
const OLD: Rate = Rate { per_second: 500, burst: 1_000 };
/// Divisor: the part of the limit for one source.
const SOURCE_PART: u32 = 4;

const SOURCES: usize = 4_096;

/// A process that was idle for so long did not see the INVITEs of other processes, and may have taken over from one of
/// them.
const QUIET: Duration = Duration::from_secs(10);

/// Limits of searches. They count datagrams to members, so that they hold for any number of members.
#[derive(Debug)]
pub(crate) struct SearchLimits {
    all: Bucket,
    sources: Buckets,
    /// Since when this process has been active without a long pause.
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
    /// Records that a datagram arrived.
    pub(crate) fn heard(&mut self, now: Instant) {
        if now.saturating_since(self.latest) > QUIET {
            self.at_work_since = now;
        }
        self.latest = now;
    }

    /// Returns whether a search among `members` members may begin, for the source with this hash. `invites_last` is the
    /// maximum duration of an INVITE transaction.
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

/// Returns the identity of a source: its address, or the /64 network of an IPv6 address, in which a host has 2^64
/// addresses.
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
