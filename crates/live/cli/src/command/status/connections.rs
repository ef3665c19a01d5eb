//! The part of `status` about connections and their certificates.

use crate::command::text::plural;
use server::figures::{CertificateView, ConnectionsView};
use std::time::{SystemTime, UNIX_EPOCH};

const DAY: f64 = 86_400.0;

/// Returns some lines, each after a line end.
pub(super) fn text(connections: &ConnectionsView) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    text_at(connections, now)
}

fn text_at(connections: &ConnectionsView, now: f64) -> String {
    let ConnectionsView { open, failed_total, closed_total, certificates, peers, .. } = connections;
    let open = open.iter().map(|(transport, count)| format!("{count} {transport}")).collect::<Vec<_>>();
    let is_shown = |(why, count): &(&String, &u64)| **count > 0 && *why != "peer" && *why != "idle";
    let closed = closed_total.iter().filter(is_shown).map(|(why, count)| format!("; {count} ended: {why}"));
    let failed = match failed_total {
        0 => String::new(),
        count => format!("; {count} could not be opened"),
    };
    let most = peers.first().filter(|peer| peer.open + peer.opening > 1).map(|peer| {
        format!("; most with {}: {}", peer.address, plural((peer.open + peer.opening) as u64, "connection"))
    });
    let head = format!(
        "\nconnections: {}{}{failed}{}",
        open.join(", "),
        most.unwrap_or_default(),
        closed.collect::<String>()
    );
    certificates.iter().fold(head, |text, each| text + &certificate(each, now))
}

fn certificate(CertificateView { file, names, expires, problems }: &CertificateView, now: f64) -> String {
    let days = (expires - now) / DAY;
    let head = format!("\ncertificate {file} for {}: {days:.0} days left", names.join(", "));
    problems.iter().fold(head, |text, problem| format!("{text}; {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn connections_are_shown_with_causes_of_their_end() {
        let view = json!({
            "open": { "tcp": 3, "tls": 0, "ws": 0, "wss": 1 },
            "held_bytes": 0, "accepted_total": 9, "opened_total": 1, "failed_total": 2, "handshakes_total": 1, "resumed_total": 0,
            "closed_total": { "peer": 4, "slow_message": 1, "stop": 0 },
            "certificates": [
                { "file": "a.pem", "names": ["a.example"], "expires": 864_000.0, "problems": ["it is old"] }
            ],
            "peers": [
                { "address": "192.0.2.1", "transport": "tcp", "open": 2, "opening": 1, "ours": 0, "oldest_seconds": 1.0 }
            ],
        });
        let view: ConnectionsView = serde_json::from_value(view).expect("JSON of the API");
        assert_eq!(
            text_at(&view, 0.0),
            "\nconnections: 3 tcp, 0 tls, 0 ws, 1 wss; most with 192.0.2.1: 3 connections; 2 could not be opened; \
             1 ended: slow_message\ncertificate a.pem for a.example: 10 days left; it is old"
        );
    }
}
