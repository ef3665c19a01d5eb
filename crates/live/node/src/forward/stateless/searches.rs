//! Members that have not yet answered a CANCEL that went to all members, and the limits of such searches.

use balance::{CallKey, NodeId};
use base::{Bucket, Buckets, Instant, Rate};
use core::time::Duration;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// Number of searches that are remembered. A client repeats its CANCEL after half a second, so this is enough for
/// hundreds of searches per second. A search that was forgotten returns no failure, since only the failure of the last
/// node goes back.
const MOST: usize = 256;

/// The transaction of a CANCEL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Search {
    pub(crate) call: CallKey,
    pub(crate) cseq: u32,
    /// Mark of the client's branch.
    pub(crate) branch: u32,
}

/// Nodes that have not yet answered. The first final response ends the client's transaction (RFC 3261 §17.1.2), so a
/// 481 must not overtake the 200 of the node with the INVITE. Only the last failure and its repetitions go back.
#[derive(Debug, Default)]
pub(crate) struct Searches(VecDeque<PendingSearch>);

#[derive(Debug)]
struct PendingSearch {
    search: Search,
    awaited: Vec<NodeId>,
    /// The last node that failed, set when no other node is awaited.
    last_failed: Option<NodeId>,
}

impl Searches {
    /// Records that the request was sent to these nodes, perhaps again. Earlier responses still count. Nodes that do
    /// not get the request now are no longer awaited.
    pub(crate) fn wait_for(&mut self, search: Search, nodes: Vec<NodeId>) {
        if let Some(at) = self.find(search) {
            let pending = &mut self.0[at];
            pending.awaited.retain(|node| nodes.contains(node));
            if !pending.awaited.is_empty() || pending.last_failed.is_some_and(|node| nodes.contains(&node)) {
                return;
            }
            self.0.remove(at);
        }
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(PendingSearch { search, awaited: nodes, last_failed: None });
    }

    /// Records that a node does not have the INVITE. Returns whether its failure goes back to the client, since no
    /// other node can have the INVITE.
    pub(crate) fn missed(&mut self, search: Search, node: NodeId) -> bool {
        let Some(at) = self.find(search) else { return false };
        let pending = &mut self.0[at];
        pending.awaited.retain(|&other| other != node);
        pending.awaited.is_empty() && *pending.last_failed.get_or_insert(node) == node
    }

    /// Records that a node has the INVITE, so that other responses are ignored.
    pub(crate) fn found(&mut self, search: Search) {
        if let Some(at) = self.find(search) {
            self.0.remove(at);
        }
    }

    fn find(&self, search: Search) -> Option<usize> {
        self.0.iter().position(|pending| pending.search == search)
    }
}

/// Maximum length of a request that is searched for, in bytes. Neither a CANCEL nor the ACK to a failure has a body
/// (RFC 3261 §9.1, §17.1.1.3).
pub(super) const LENGTH_MAX: usize = 2_000;

/// Limit of datagrams to members while there may be INVITEs in progress that this process did not see. It is enough for
/// the CANCELs and ACKs of thousands of calls a second after a restart, and is a tenth of the capacity of a shard.
const YOUNG: Rate = Rate { per_second: 10_000, burst: 10_000 };
/// Limit after that time, when only INVITEs that went through another balancer are unknown.
const OLD: Rate = Rate { per_second: 500, burst: 1_000 };
/// Divisor: one source may use a fourth of the limit.
const SOURCE_PART: u32 = 4;

const SOURCES: usize = 4_096;

/// If a process was idle for this time, it may have taken over from another process, whose INVITEs it did not see.
const QUIET: Duration = Duration::from_secs(10);

/// Limits of searches. They count datagrams to members, so that they hold for any number of members.
#[derive(Debug)]
pub(crate) struct SearchLimits {
    all: Bucket,
    sources: Buckets,
    /// Time since when this process has been active without a long pause.
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

    /// Returns whether a search among `members` members may begin for the source with this hash. `invites_last` is the
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
            searches.wait_for(search(cseq), vec![NodeId(1)]);
        }
        assert!(!searches.missed(search(0), NodeId(1)));
        assert!(searches.missed(search(1), NodeId(1)));
        assert_eq!(searches.0.len(), MOST);
    }

    #[test]
    fn a_node_that_is_not_asked_again_is_not_awaited() {
        let mut searches = Searches::default();
        searches.wait_for(search(0), vec![NodeId(1), NodeId(2), NodeId(3)]);
        assert!(!searches.missed(search(0), NodeId(1)));
        searches.wait_for(search(0), vec![NodeId(1), NodeId(2)]);
        assert!(!searches.missed(search(0), NodeId(1)), "its failure was counted before");
        assert!(searches.missed(search(0), NodeId(2)));
        searches.wait_for(search(0), vec![NodeId(1)]);
        assert!(
            searches.missed(search(0), NodeId(1)),
            "the node that failed is gone: the search starts again"
        );
        searches.wait_for(search(1), vec![NodeId(1)]);
        searches.wait_for(search(1), vec![NodeId(2)]);
        assert!(searches.missed(search(1), NodeId(2)), "all awaited nodes are gone: the search starts again");
    }
}
