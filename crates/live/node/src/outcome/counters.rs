//! Counters of a shard: messages forwarded, answered and dropped, with the reasons.

use balance::{PoolId, Why};
use std::collections::BTreeMap;
use wire::Discard;

/// Reason why a message was dropped without an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drop {
    /// The message is no SIP message that could be answered or forwarded.
    Unreadable(Discard),
    /// An ACK to a response of this process, or to a request that would have been refused. An ACK is never answered
    /// (RFC 3261 §17.1.1.3).
    Ack,
    /// A response whose topmost Via is not of this process, or whose token does not fit the response.
    ForeignResponse,
    /// A response to a request that this process itself had made.
    NoWayBack,
    /// A failure response to a CANCEL that was sent to every node. Another node may still have the INVITE.
    SearchMiss,
    /// An ACK of an unknown INVITE that was not sent to every member: there were too many such requests, or this one is
    /// too long.
    SearchLimit,
    /// An ACK to a user, of a dialog unknown to this process.
    Orphan,
    /// There is no address to send to: a Via names a host, or an address that is not unicast.
    NoTarget,
    /// A response of this process that repeats header fields of the request. It would be much longer than the request,
    /// or too long for a datagram.
    TooLong,
    /// A refused request without CSeq, whose response could not be matched, or a request shorter than any valid one.
    Unanswerable,
    /// A rule, an access list or a limit refuses the sender without an answer.
    Silenced,
    /// The request found no room in the queue of its pool or waited there for too long, and the queue refuses without
    /// an answer.
    QueueFull,
    /// The request goes to a host name that is being looked up. Its retransmission will find the address.
    Unresolved,
}

impl Drop {
    /// All reasons, in the order of declaration.
    pub const ALL: [Self; 18] = [
        Self::Unreadable(Discard::Empty),
        Self::Unreadable(Discard::KeepAlive),
        Self::Unreadable(Discard::NotSip),
        Self::Unreadable(Discard::NoVia),
        Self::Unreadable(Discard::BadVia),
        Self::Unreadable(Discard::BadResponse("")),
        Self::Ack,
        Self::ForeignResponse,
        Self::NoWayBack,
        Self::SearchMiss,
        Self::SearchLimit,
        Self::Orphan,
        Self::NoTarget,
        Self::TooLong,
        Self::Unanswerable,
        Self::Silenced,
        Self::QueueFull,
        Self::Unresolved,
    ];

    /// Returns the label used in metrics.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Unreadable(discard) => discard.reason(),
            Self::Ack => "refused_ack",
            Self::ForeignResponse => "foreign_response",
            Self::NoWayBack => "no_way_back",
            Self::SearchMiss => "search_miss",
            Self::SearchLimit => "search_limit",
            Self::Orphan => "orphan",
            Self::NoTarget => "no_target",
            Self::TooLong => "too_long",
            Self::Unanswerable => "unanswerable",
            Self::Silenced => "silenced",
            Self::QueueFull => "queue_full",
            Self::Unresolved => "unresolved",
        }
    }
}

/// Counts of messages of a shard.
#[derive(Clone, Debug, Default)]
pub struct ShardCounters {
    /// Received requests that could be read.
    pub requests: u64,
    /// Received responses that could be read.
    pub responses: u64,
    /// Requests forwarded.
    pub requests_forwarded: u64,
    /// Responses forwarded.
    pub responses_forwarded: u64,
    /// Responses of this process, by status and reason phrase, which names the cause.
    pub replies: BTreeMap<(u16, &'static str), u64>,
    /// Messages dropped, by reason.
    pub drops: BTreeMap<&'static str, u64>,
    /// Route tokens that were refused: forged, altered, too old, or of another call, another site or an unknown node.
    pub tokens_refused: u64,
    /// New requests for which a pool had no member that takes calls, by pool. Another pool may have taken the request.
    pub without_takers: BTreeMap<PoolId, u64>,
    /// New requests refused because every member of the pool was at a limit, by pool and limit.
    pub at_limit: BTreeMap<(PoolId, &'static str), u64>,
    /// Requests by the reason of their destination, in the order of [`Why::ALL`].
    pub decisions: [u64; Why::ALL.len()],
}

impl ShardCounters {
    pub(crate) fn dropped(&mut self, drop: Drop) {
        *self.drops.entry(drop.reason()).or_default() += 1;
    }

    pub(crate) fn replied(&mut self, status: u16, reason: &'static str) {
        *self.replies.entry((status, reason)).or_default() += 1;
    }

    /// Adds the counts of another shard.
    pub fn merge(&mut self, other: &Self) {
        // The pattern has no `..`, so that the compiler reports each new count that is missing here.
        let Self {
            requests,
            responses,
            requests_forwarded,
            responses_forwarded,
            replies,
            drops,
            tokens_refused,
            without_takers,
            at_limit,
            decisions,
        } = other;
        self.requests += requests;
        self.responses += responses;
        self.requests_forwarded += requests_forwarded;
        self.responses_forwarded += responses_forwarded;
        self.tokens_refused += tokens_refused;
        add(&mut self.replies, replies);
        add(&mut self.drops, drops);
        add(&mut self.without_takers, without_takers);
        add(&mut self.at_limit, at_limit);
        for (sum, more) in self.decisions.iter_mut().zip(decisions) {
            *sum += more;
        }
    }
}

fn add<K: Ord + Copy>(sums: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (&key, &count) in more {
        *sums.entry(key).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_of_another_shard_is_added() {
        let counts = || {
            let mut decisions = [0; Why::ALL.len()];
            decisions[1] = 8;
            ShardCounters {
                requests: 1,
                responses: 2,
                requests_forwarded: 3,
                responses_forwarded: 4,
                replies: BTreeMap::from([((503, "No Server Available"), 5)]),
                drops: BTreeMap::from([("ack", 6)]),
                tokens_refused: 7,
                without_takers: BTreeMap::from([(PoolId(1), 9)]),
                at_limit: BTreeMap::from([((PoolId(1), "max_calls"), 10)]),
                decisions,
            }
        };
        let (mut sum, mut nothing) = (counts(), ShardCounters::default());
        nothing.merge(&sum);
        assert_eq!(format!("{nothing:?}"), format!("{sum:?}"));
        sum.merge(&counts());
        let twice = (sum.requests, sum.without_takers[&PoolId(1)], sum.at_limit[&(PoolId(1), "max_calls")]);
        assert_eq!((twice, sum.decisions[1], sum.replies.len()), ((2, 18, 20), 16, 1));
    }
}
