//! Connections: how many, what became of them, to whom, and the certificates that they are begun with.

use super::metric::figures;
use base::{Instant, Transport};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};
use streams::tls::CertificateFacts;
use streams::{CloseReason, ConnectionView, StreamCounts};

figures! {
    /// `GET /api/connections`: counts are since the start.
    ConnectionsView as "Connections" from (counts: &StreamCounts, certificates: &[CertificateFacts]) {
        /// Open ones, by transport.
        open: BTreeMap<String, u64> = by_transport(counts)
            => [gauge "sarabande_connections" (transport) "Connections that are open."],
        /// Bytes that they hold: messages that have not come whole, and what waits for the other side.
        held_bytes: u64 = counts.held => [
            gauge "sarabande_connections_held_bytes" "Bytes that connections hold."
        ],
        /// Accepted since the start.
        accepted_total: u64 = counts.accepted => [
            counter "sarabande_connections_accepted_total" "Connections accepted."
        ],
        /// Opened by this process.
        opened_total: u64 = counts.opened
            => [counter "sarabande_connections_opened_total" "Connections opened by this process."],
        /// Could not be opened.
        failed_total: u64 = counts.connect_failed
            => [counter "sarabande_connections_failed_total" "Connections that could not be opened."],
        /// TLS handshakes in full.
        handshakes_total: u64 = counts.handshakes => [
            counter "sarabande_tls_handshakes_total" (kind = "full") "TLS handshakes that came to their end."
        ],
        /// TLS handshakes that took up a session of before.
        resumed_total: u64 = counts.resumed
            => [counter "sarabande_tls_handshakes_total" (kind = "resumed")],
        /// Ended, or not accepted, by why: `docs/admin.md` says what each means.
        closed_total: BTreeMap<String, u64> = by_reason(counts)
            => [counter "sarabande_connections_closed_total" (reason) "Connections that ended, by why."],
        /// Our certificates, in the order of the configuration.
        certificates: Vec<CertificateView> = certificates.iter().map(CertificateView::new).collect(),
        /// Those that have connections, with the most of them first; empty in metrics.
        peers: Vec<PeerConnections> = Vec::new(),
    }
}

figures! {
    /// One of our certificates.
    CertificateView as "Certificate" from (facts: &CertificateFacts) {
        /// Where it was read.
        file: String = facts.file.display().to_string(),
        /// The hosts that it is for.
        names: Vec<String> = facts.names.clone(),
        /// When it expires, as Unix time.
        expires: f64 = unix(facts.not_after) => [
            gauge "sarabande_certificate_expires_timestamp_seconds" "When the certificate expires, as Unix time."
        ],
        /// What is wrong with it.
        problems: Vec<String> = problems(facts),
    }
}

figures! {
    /// The connections with one host over one transport.
    PeerConnections as "PeerConnections" {
        /// The host.
        address: IpAddr,
        /// What carries the messages.
        transport: String,
        /// Open ones.
        open: usize,
        /// Not ready for messages yet.
        opening: usize,
        /// Of both, those that this process has opened.
        ours: usize,
        /// Since the first of them was there, in seconds.
        oldest_seconds: f64,
    }
}

fn by_transport(counts: &StreamCounts) -> BTreeMap<String, u64> {
    let all = Transport::ALL.into_iter().zip(counts.open).filter(|(transport, _)| transport.is_reliable());
    all.map(|(transport, open)| (transport.name().to_ascii_lowercase(), open)).collect()
}

fn by_reason(counts: &StreamCounts) -> BTreeMap<String, u64> {
    CloseReason::ALL
        .into_iter()
        .zip(counts.closed)
        .map(|(reason, count)| (reason.name().to_owned(), count))
        .collect()
}

fn problems(facts: &CertificateFacts) -> Vec<String> {
    facts.problems(SystemTime::now()).iter().map(ToString::to_string).collect()
}

fn unix(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

impl ConnectionsView {
    /// With the peers that these connections lead to.
    pub(crate) fn with_peers(mut self, now: Instant, connections: &[ConnectionView]) -> Self {
        let mut peers = BTreeMap::<(IpAddr, Transport), PeerConnections>::new();
        for connection in connections {
            let (address, transport) = (connection.flow.peer.ip(), connection.flow.transport);
            let peer = peers.entry((address, transport)).or_insert_with(|| PeerConnections {
                address,
                transport: transport.name().to_ascii_lowercase(),
                open: 0,
                opening: 0,
                ours: 0,
                oldest_seconds: 0.0,
            });
            peer.open += usize::from(connection.is_open);
            peer.opening += usize::from(!connection.is_open);
            peer.ours += usize::from(connection.is_ours);
            peer.oldest_seconds =
                peer.oldest_seconds.max(now.saturating_since(connection.since).as_secs_f64());
        }
        self.peers = peers.into_values().collect();
        self.peers.sort_by_key(|peer| std::cmp::Reverse(peer.open + peer.opening));
        self
    }
}
