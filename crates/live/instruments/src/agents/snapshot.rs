//! What an agent has counted.

use streams::StreamCounts;

/// Results of an agent up to some moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot<R> {
    /// Its measurements and counts.
    pub results: R,
    /// Call-IDs that met a wrong server: the first few.
    pub wrong_call_ids: Vec<Box<str>>,
    /// Messages received.
    pub received: u64,
    /// Messages sent.
    pub sent: u64,
    /// Datagrams that the kernel refused to send.
    pub send_failed: u64,
    /// Datagrams that the kernel threw away because the agent was late: the agent is the bottleneck.
    pub receive_lost: u64,
    /// Reports by ICMP that a datagram did not arrive, such as from a closed port; messages that a connection lost.
    pub unreachable: u64,
    /// What became of connections; over UDP there are none.
    pub connections: StreamCounts,
}

impl Snapshot<()> {
    /// The same with results.
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
