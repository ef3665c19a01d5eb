//! Results of an agent.

use streams::StreamCounts;

/// Results of an agent at some moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot<R> {
    /// Its measurements and counts.
    pub results: R,
    /// Call-IDs of the first few calls that reached a wrong server.
    pub wrong_call_ids: Vec<Box<str>>,
    /// Messages received.
    pub received: u64,
    /// Messages sent.
    pub sent: u64,
    /// Datagrams that the kernel refused to send.
    pub send_failed: u64,
    /// Datagrams that the kernel dropped because the agent was late: the agent is the bottleneck.
    pub receive_lost: u64,
    /// ICMP reports that a datagram did not arrive, such as from a closed port, and messages that a connection lost.
    pub unreachable: u64,
    /// Counts of connections; zero over UDP.
    pub connections: StreamCounts,
}

impl Snapshot<()> {
    /// Adds the results.
    pub(super) fn with<R>(self, results: R) -> Snapshot<R> {
        let Self { results: (), wrong_call_ids, received, sent, send_failed, .. } = self;
        let Self { receive_lost, unreachable, connections, .. } = self;
        Snapshot {
            results,
            wrong_call_ids,
            received,
            sent,
            send_failed,
            receive_lost,
            unreachable,
            connections,
        }
    }
}
