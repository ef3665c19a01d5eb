//! Connections: counts, reasons of their end, peers, and the certificates that they use.

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
        /// Open connections, by transport.
        open: BTreeMap<String, u64> = by_transport(counts)
            => [gauge "sarabande_connections" (transport) "Open connections."],
        /// Bytes that connections hold: incomplete messages, and bytes that wait to be sent.
        held_bytes: u64 = counts.held => [
            gauge "sarabande_connections_held_bytes" "Bytes of incomplete messages and of messages that wait to be \
                sent."
        ],
        /// Connections accepted since the start.
        accepted_total: u64 = counts.accepted => [
            counter "sarabande_connections_accepted_total" "Accepted connections."
        ],
        /// Connections opened by this process.
        opened_total: u64 = counts.opened
            => [counter "sarabande_connections_opened_total" "Connections opened by this process."],
        /// Connections that could not be opened.
        failed_total: u64 = counts.connect_failed
            => [counter "sarabande_connections_failed_total" "Connections that could not be opened."],
        /// Full TLS handshakes.
        handshakes_total: u64 = counts.handshakes => [
            counter "sarabande_tls_handshakes_total" (kind = "full") "Completed TLS handshakes."
        ],
        /// TLS handshakes that resumed an earlier session.
        resumed_total: u64 = counts.resumed
            => [counter "sarabande_tls_handshakes_total" (kind = "resumed")],
        /// Connections that ended or were not accepted, by reason. `docs/api.md` explains the reasons.
        closed_total: BTreeMap<String, u64> = by_reason(counts)
            => [counter "sarabande_connections_closed_total" (reason) "Connections that ended or were not accepted, \
                by reason."],
        /// Certificates of this process, in the order of the configuration.
        certificates: Vec<CertificateView> = certificates.iter().map(CertificateView::new).collect(),
        /// Peers with connections, the peer with the most connections first; empty in metrics.
        peers: Vec<PeerConnections> = Vec::new(),
    }
}

figures! {
    /// A certificate of this process.
    CertificateView as "Certificate" from (facts: &CertificateFacts) {
        /// File that it was read from.
        file: String = facts.file.display().to_string(),
        /// Host names in the certificate.
        names: Vec<String> = facts.names.clone(),
        /// Expiry time, as Unix time.
        expires: f64 = unix(facts.not_after) => [
            gauge "sarabande_certificate_expires_timestamp_seconds" "Expiry time of the certificate, as Unix time."
        ],
        /// Problems of the certificate.
        problems: Vec<String> = problems(facts),
    }
}

figures! {
    /// The connections with one host over one transport.
    PeerConnections as "PeerConnections" {
        /// The host.
        address: IpAddr,
        /// Transport of the connections.
        transport: String,
        /// Open connections.
        open: usize,
        /// Connections that are not ready for messages yet.
        opening: usize,
        /// Open and opening connections that this process started.
        ours: usize,
        /// Time since the oldest of them was there, in seconds.
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
    /// Adds the peers of these connections.
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
