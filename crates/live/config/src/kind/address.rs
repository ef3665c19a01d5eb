//! Addresses of this host, for listeners and for peers.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use serde_json::json;

use super::name::{repair as meant_member, transport_of};
use super::{Kind, Leaf, Refusal, Schema, Written, quoted};
use crate::typed::SIP_PORT;
use base::{Peer, Transport};

/// Address that a listener is bound to; wildcards are allowed. `PORT` is the usual one, for messages.
#[derive(Debug, Clone)]
pub(crate) struct Bound<const PORT: u16 = SIP_PORT>;

/// Address that is advertised to peers: a single one that they can reach.
#[derive(Debug, Clone)]
pub(crate) struct Advertised<const PORT: u16 = SIP_PORT>;

/// Address of the admin API; "" and false mean none.
#[derive(Debug, Clone)]
pub(crate) struct AdminListen;

/// Address on which capacity updates are received.
#[derive(Debug, Clone)]
pub(crate) struct CapacityListen;

/// A DNS server; the default port is 53.
#[derive(Debug, Clone)]
pub(crate) struct DnsServer;

/// A next hop by address, with the default port of its transport.
#[derive(Debug, Clone)]
pub(crate) struct HopAddress;

/// Port of DNS (RFC 1035 §4.2).
const DNS_PORT: u16 = 53;
/// Port of the admin API in messages and defaults.
const ADMIN_PORT: u16 = 8060;
/// Default port of capacity updates in messages.
const CAPACITY_PORT: u16 = 8061;

impl<const PORT: u16> Kind for Bound<PORT> {
    type Value = SocketAddr;

    fn read(leaf: &Leaf) -> Result<SocketAddr, Refusal> {
        let expected = format!("a local IP address and port, such as \"0.0.0.0:{PORT}\" or \"[::]:{PORT}\"");
        let socket = socket(leaf, PORT, &expected)?;
        if socket.ip().is_multicast() {
            return Err(Refusal::new("expected an address of this host, not a multicast group"));
        }
        Ok(socket)
    }

    fn schema() -> Schema {
        json!({ "title": "IP address:port", "type": "string" })
    }
}

impl<const PORT: u16> Kind for Advertised<PORT> {
    type Value = SocketAddr;

    fn read(leaf: &Leaf) -> Result<SocketAddr, Refusal> {
        let expected = format!("an IP address and port, such as \"203.0.113.5:{PORT}\"");
        let socket = socket(leaf, PORT, &expected)?;
        match unreachable(socket.ip()) {
            Some(reason) => Err(Refusal::new(format!("expected an address that peers can reach; {reason}"))),
            None => Ok(socket),
        }
    }

    fn schema() -> Schema {
        json!({ "title": "IP address:port", "type": "string" })
    }
}

impl Kind for AdminListen {
    type Value = Option<SocketAddr>;

    fn read(leaf: &Leaf) -> Result<Option<SocketAddr>, Refusal> {
        match leaf {
            Leaf::Flag(false) => Ok(None),
            Leaf::Text(text) if text.is_empty() => Ok(None),
            _ => socket(
                leaf,
                ADMIN_PORT,
                "a local IP address and port, such as \"127.0.0.1:8060\", or false for none",
            )
            .map(Some),
        }
    }

    fn schema() -> Schema {
        json!({
            "title": "IP address:port, or false for none",
            "anyOf": [{ "type": "string" }, { "const": false }],
        })
    }
}

impl Written for AdminListen {
    fn written(value: Option<SocketAddr>) -> Leaf {
        value.map_or(Leaf::Flag(false), |address| Leaf::Text(address.to_string()))
    }
}

impl Kind for CapacityListen {
    type Value = SocketAddr;

    fn read(leaf: &Leaf) -> Result<SocketAddr, Refusal> {
        socket(leaf, CAPACITY_PORT, "a local IP address and port, such as \"10.0.0.9:8061\"")
    }

    fn schema() -> Schema {
        json!({ "title": "IP address:port", "type": "string" })
    }
}

impl Kind for DnsServer {
    type Value = SocketAddr;

    fn read(leaf: &Leaf) -> Result<SocketAddr, Refusal> {
        one_host(
            leaf,
            DNS_PORT,
            "the IP address of a DNS server, such as \"10.0.0.53\" or \"127.0.0.1:8600\"",
        )
    }

    fn schema() -> Schema {
        json!({ "title": "IP address[:port]", "type": "string" })
    }
}

impl Kind for HopAddress {
    type Value = Peer;

    fn read(leaf: &Leaf) -> Result<Peer, Refusal> {
        let expected =
            "the IP address of the next SIP element, such as \"10.0.0.1\" or \"10.0.0.1:5070;transport=tcp\"";
        let Leaf::Text(text) = leaf else { return Err(Refusal::new(format!("expected {expected}"))) };
        let (address, transport) = transport_of(text, &format!("expected {expected}"))?;
        let is_over_udp = transport == Transport::Udp && !text.starts_with("sips:");
        let address = one_host(&address.into(), transport.default_port(), expected)
            .map_err(|refusal| if is_over_udp { refusal } else { refusal.meant(meant_member(text)) })?;
        Ok(Peer::new(transport, address))
    }

    fn schema() -> Schema {
        json!({ "title": "IP address[:port][;transport=udp|tcp|tls]", "type": "string" })
    }
}

/// The address of one host that this process sends to, with `port` as the default.
fn one_host(leaf: &Leaf, port: u16, expected: &str) -> Result<SocketAddr, Refusal> {
    let bare = match leaf {
        Leaf::Text(text) => {
            if let Some(meant) = ipv6_without_brackets(text) {
                let remedy =
                    "expected brackets around an IPv6 address with a port, or one that ends like a port";
                return Err(Refusal::new(remedy).meant(quoted(&meant.to_string())));
            }
            text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok()
        }
        _ => None,
    };
    let address = match bare {
        Some(ip) => SocketAddr::new(ip, port),
        None => socket(leaf, port, expected)?,
    };
    match unreachable(address.ip()) {
        Some(reason) => Err(Refusal::new(format!("expected the address of one server; {reason}"))),
        None => Ok(address),
    }
}

/// The error of `ip` as the address of one host that others send to.
pub(super) fn unreachable(ip: IpAddr) -> Option<&'static str> {
    match ip {
        _ if ip.is_unspecified() => Some("a wildcard address is not the address of a host"),
        _ if ip.is_multicast() => Some("this is a multicast group"),
        IpAddr::V4(v4) if v4.is_broadcast() => Some("this is the broadcast address"),
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Some("write IPv4 addresses as IPv4"),
        _ => None,
    }
}

/// The address and port that an IPv6 address without brackets most likely means: its last group looks like a port, or
/// is one too many. With required brackets, such text is never read as another address.
pub fn ipv6_without_brackets(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.rsplit_once(':')?;
    let is_port = matches!(port.len(), 4 | 5) && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|port| is_port && *port >= 1000)?;
    Some(SocketAddr::new(host.parse::<Ipv6Addr>().ok()?.into(), port))
}

/// An IP address with a port other than 0.
fn socket(leaf: &Leaf, port: u16, expected: &str) -> Result<SocketAddr, Refusal> {
    let refusal = || Refusal::new(format!("expected {expected}"));
    let Leaf::Text(text) = leaf else { return Err(refusal()) };
    match text.parse::<SocketAddr>() {
        Ok(socket) if socket.port() == 0 => {
            Err(Refusal::new("expected a port from 1 to 65535").meant(with_port(socket.ip(), port)))
        }
        Ok(socket) => Ok(socket),
        Err(_) => Err(refusal().meant(repair(text, port))),
    }
}

/// The address that `text` most likely means: without its scheme, with the missing port or brackets.
fn repair(text: &str, port: u16) -> Option<String> {
    let bare = strip_scheme(text.trim());
    if let Some(meant) = ipv6_without_brackets(bare) {
        return Some(quoted(&meant.to_string()));
    }
    if let Ok(socket) = bare.parse::<SocketAddr>() {
        return Some(quoted(&socket.to_string()));
    }
    if let Ok(ip) = bare.trim_matches(['[', ']']).parse() {
        return Some(with_port(ip, port));
    }
    let (host, given) = bare.rsplit_once(':').unwrap_or((bare, ""));
    let port = if given.is_empty() { port } else { given.parse().ok()? };
    match host {
        "" | "*" => Some(quoted(&format!("0.0.0.0:{port}"))),
        "localhost" => Some(quoted(&format!("127.0.0.1:{port}"))),
        _ => None,
    }
}

fn with_port(ip: IpAddr, port: u16) -> String {
    quoted(&SocketAddr::new(ip, port).to_string())
}

/// Removes prefixes that other configuration files use.
pub(super) fn strip_scheme(text: &str) -> &str {
    ["sip:", "sips:", "udp://", "udp:", "tcp://", "tcp:", "tls://", "tls:", "ws://", "wss://", "http://"]
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme))
        .unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_valid_values_are_corrected() {
        for (read, meant) in [
            ("0.0.0.0", "\"0.0.0.0:5060\""),
            ("::", "\"[::]:5060\""),
            ("::1:5061", "\"[::1]:5061\""),
            ("2001:db8:1:2:3:4:5:6:5061", "\"[2001:db8:1:2:3:4:5:6]:5061\""),
            ("2001:db8::17", "\"[2001:db8::17]:5060\""),
            ("[::1]", "\"[::1]:5060\""),
            (":5070", "\"0.0.0.0:5070\""),
            ("*", "\"0.0.0.0:5060\""),
            ("udp:10.0.0.1:5060", "\"10.0.0.1:5060\""),
            ("10.0.0.1:0", "\"10.0.0.1:5060\""),
        ] {
            assert_eq!(<Bound>::read(&read.into()).unwrap_err().meant.as_deref(), Some(meant), "{read}");
        }
        assert_eq!(<Bound>::read(&"10.0.0.1:99999".into()).unwrap_err().meant, None);
    }

    #[test]
    fn dns_servers_are_addresses_with_port_53_unless_given() {
        for (read, address) in [
            ("10.0.0.53", "10.0.0.53:53"),
            ("127.0.0.1:8600", "127.0.0.1:8600"),
            ("2001:db8::53", "[2001:db8::53]:53"),
            ("[2001:db8::53]", "[2001:db8::53]:53"),
        ] {
            assert_eq!(DnsServer::read(&read.into()), Ok(address.parse().unwrap()), "{read}");
        }
        for wrong in ["dns.example.com", "0.0.0.0", "10.0.0.53:0", ""] {
            assert!(DnsServer::read(&wrong.into()).is_err(), "{wrong:?}");
        }
        let refusal = DnsServer::read(&"2001:db8::53:5353".into()).unwrap_err();
        assert_eq!(refusal.meant.as_deref(), Some("\"[2001:db8::53]:5353\""));
        assert!(DnsServer::read(&"[2001:db8::53:5353]".into()).is_ok(), "the suggested text is valid");
    }

    #[test]
    fn next_hops_have_the_usual_port_of_their_transport() {
        for (read, peer) in [
            ("10.0.0.1", "10.0.0.1:5060"),
            ("10.0.0.1;transport=tcp", "10.0.0.1:5060;transport=tcp"),
            ("10.0.0.1;transport=TLS", "10.0.0.1:5061;transport=tls"),
            ("[2001:db8::1]:5080;transport=tls", "[2001:db8::1]:5080;transport=tls"),
        ] {
            assert_eq!(HopAddress::read(&read.into()), Ok(peer.parse().unwrap()), "{read}");
        }
        for (wrong, meant) in [
            ("sip:10.0.0.1;transport=tcp", Some("\"10.0.0.1;transport=tcp\"")),
            ("sips:10.0.0.1", Some("\"10.0.0.1;transport=tls\"")),
            ("10.0.0.1;transport=ws", None),
        ] {
            assert_eq!(HopAddress::read(&wrong.into()).unwrap_err().meant.as_deref(), meant, "{wrong}");
        }
    }

    #[test]
    fn admin_can_be_off() {
        assert_eq!(AdminListen::read(&"".into()), Ok(None));
        assert_eq!(AdminListen::read(&false.into()), Ok(None));
        assert!(AdminListen::read(&true.into()).is_err());
    }

    #[test]
    fn an_advertised_address_is_reachable() {
        for wrong in
            ["0.0.0.0:5060", "[::]:5060", "224.0.0.1:5060", "255.255.255.255:5060", "[::ffff:10.0.0.1]:5060"]
        {
            assert!(<Advertised>::read(&wrong.into()).is_err(), "{wrong}");
        }
        assert!(<Advertised>::read(&"203.0.113.5:5060".into()).is_ok());
    }
}
