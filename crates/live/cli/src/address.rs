//! Addresses on the command line.

use base::Peer;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// An IP address and a port.
pub(crate) fn socket(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| match config::ipv6_without_brackets(text) {
        Some(meant) => brackets(meant),
        None => "write IP:PORT, such as 127.0.0.1:5070 or [::1]:5070".to_owned(),
    })
}

/// An address with an optional `;transport=`; UDP without it.
pub(crate) fn peer(text: &str) -> Result<Peer, String> {
    socket(text.split(';').next().unwrap_or(text))?;
    text.parse().map_err(|_| "expected no transport, or one of ;transport=tcp, tls, ws and wss".to_owned())
}

/// The first address of a host, with this port unless the text has another.
pub(crate) fn host(text: &str, port: u16) -> Result<SocketAddr, String> {
    // Without brackets the text may be a valid IPv6 address, but an unintended one, to which INVITEs would be sent.
    if let Some(meant) = config::ipv6_without_brackets(text) {
        return Err(brackets(meant));
    }
    if let Ok(ip) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, port));
    }
    let found = if text.contains(':') { text.to_socket_addrs() } else { (text, port).to_socket_addrs() };
    let first = found.map_err(|error| format!("{error}: write HOST or HOST:PORT"))?.next();
    first.ok_or_else(|| "the name has no address".to_owned())
}

fn brackets(meant: SocketAddr) -> String {
    format!("an IPv6 address with a port, or with an end like a port, needs brackets: {meant}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_address_with_a_port_needs_brackets() {
        for read in ["::1:5060", "2001:db8::7:5060", "2001:db8:1:2:3:4:5:6:5060"] {
            for error in [socket(read).unwrap_err(), host(read, 5060).unwrap_err()] {
                let meant = format!("[{}]:5060", read.strip_suffix(":5060").unwrap());
                assert!(error.contains("brackets") && error.ends_with(&meant), "{error}");
            }
        }
        assert_eq!(peer("127.0.0.1:5060;transport=tls").unwrap().to_string(), "127.0.0.1:5060;transport=tls");
        assert_eq!(peer("127.0.0.1:5060").unwrap().transport, base::Transport::Udp);
        assert!(peer("127.0.0.1:5060;transport=sctp").unwrap_err().contains(";transport=tcp"));
        assert!(peer("::1:5060;transport=tcp").unwrap_err().contains("brackets"));
        assert_eq!(host("::1", 5060).unwrap().to_string(), "[::1]:5060");
        assert_eq!(host("[2001:db8::5060]", 5070).unwrap().to_string(), "[2001:db8::5060]:5070");
        assert_eq!(host("127.0.0.1", 5070).unwrap().to_string(), "127.0.0.1:5070");
        assert!(socket("127.0.0.1").unwrap_err().contains("IP:PORT"));
        assert!(host("127.0.0.1:x", 5060).unwrap_err().contains("HOST:PORT"));
    }
}
