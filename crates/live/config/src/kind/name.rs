//! Names of hosts: members of a pool, and names of this process.

use std::net::{IpAddr, SocketAddr};

use serde_json::json;

use super::address::{ipv6_without_brackets, strip_scheme, unreachable};
use super::{Kind, Leaf, Refusal, Schema, quoted};
use crate::typed::{SIP_PORT, Workload};
use base::{Peer, Transport};
use control::Address;

/// Address or name of a member.
#[derive(Debug, Clone)]
pub(crate) struct MemberAddress;

/// Name of a member for display.
#[derive(Debug, Clone)]
pub(crate) struct MemberLabel;

/// A domain of users: the part of their addresses after the `@`.
#[derive(Debug, Clone)]
pub(crate) struct DomainName;

/// A name of this process, with or without a port.
#[derive(Debug, Clone)]
pub(crate) struct ServedName;

/// The origin of a web page as browsers send it (RFC 6454 §6.2), or all of them.
#[derive(Debug, Clone)]
pub(crate) struct PageOrigin;

/// Name of a Kubernetes object (RFC 1123), which becomes part of a path.
#[derive(Debug, Clone)]
pub(crate) struct ObjectName;

/// A Kubernetes workload, by kind and name.
#[derive(Debug, Clone)]
pub(crate) struct WorkloadName;

fn is_object_name(text: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    !text.is_empty() && text.bytes().all(is_legal)
}

impl Kind for ObjectName {
    type Value = String;

    fn read(leaf: &Leaf) -> Result<String, Refusal> {
        match leaf {
            Leaf::Text(text) if is_object_name(text) => Ok(text.clone()),
            _ => Err(Refusal::new("expected lower-case letters, digits, - and .")),
        }
    }

    fn schema() -> Schema {
        json!({ "title": "name", "type": "string", "pattern": "^[-.a-z0-9]+$" })
    }
}

impl Kind for MemberLabel {
    type Value = String;

    fn read(leaf: &Leaf) -> Result<String, Refusal> {
        let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        match leaf {
            // Commands accept names and addresses.
            Leaf::Text(text) if text.parse::<IpAddr>().is_ok() => {
                Err(Refusal::new("expected a name, not an address"))
            }
            Leaf::Text(text) if (1..=64).contains(&text.len()) && text.bytes().all(is_legal) => {
                Ok(text.clone())
            }
            _ => Err(Refusal::new("expected a name of 1 to 64 letters, digits, -, _ and .")),
        }
    }

    fn schema() -> Schema {
        json!({ "title": "name", "type": "string", "pattern": "^[-_.A-Za-z0-9]{1,64}$" })
    }
}

impl Kind for WorkloadName {
    type Value = Workload;

    fn read(leaf: &Leaf) -> Result<Workload, Refusal> {
        let refusal = || Refusal::new("expected \"statefulset/NAME\" or \"deployment/NAME\"");
        let Leaf::Text(text) = leaf else { return Err(refusal()) };
        match text.split_once('/').filter(|(_, name)| is_object_name(name)) {
            Some(("statefulset", name)) => Ok(Workload::StatefulSet(name.to_owned())),
            Some(("deployment", name)) => Ok(Workload::Deployment(name.to_owned())),
            _ => Err(refusal()),
        }
    }

    fn schema() -> Schema {
        let pattern = "^(statefulset|deployment)/[-.a-z0-9]+$";
        json!({ "title": "statefulset/NAME or deployment/NAME", "type": "string", "pattern": pattern })
    }
}

const MEMBER: &str = "expected an IP address with or without a port (\"10.0.0.1\", \"[2001:db8::1]:5060\"), \
                      a host name (\"sip.example.com:5060\") or an SRV name (\"_sip._udp.example.com\"); behind an \
                      address or a host name \";transport=tcp\" or \";transport=tls\"";

impl Kind for MemberAddress {
    type Value = Address;

    fn read(leaf: &Leaf) -> Result<Address, Refusal> {
        let Leaf::Text(text) = leaf else { return Err(Refusal::new(MEMBER)) };
        if text.starts_with('_') {
            return srv(text);
        }
        let (bare, transport) = transport_of(text, MEMBER)?;
        let (address, port) = host_port(bare).ok_or_else(|| Refusal::new(MEMBER).meant(repair(text)))?;
        if port == Some(0) {
            return Err(Refusal::new("expected a port from 1 to 65535"));
        }
        match address {
            Host::Ip(ip) => {
                if let Some(reason) = unreachable(ip) {
                    return Err(Refusal::new(format!("expected the address of one server; {reason}")));
                }
                let address = SocketAddr::new(ip, port.unwrap_or(transport.default_port()));
                Ok(Address::Socket(Peer::new(transport, address)))
            }
            Host::Name(name) => Ok(Address::Host { transport, name, port }),
        }
    }

    fn schema() -> Schema {
        json!({
            "title": "IP address[:port] or host name[:port], either with ;transport=udp|tcp|tls; or SRV name",
            "type": "string",
        })
    }
}

impl Kind for ServedName {
    type Value = String;

    fn read(leaf: &Leaf) -> Result<String, Refusal> {
        let refusal =
            || Refusal::new("expected a host name with or without a port, such as \"sip.example.com\"");
        let Leaf::Text(text) = leaf else { return Err(refusal()) };
        match host_port(text) {
            Some((_, Some(0))) => Err(Refusal::new("expected a port from 1 to 65535")),
            // Requests are recognised by their listener, so another address would never match.
            Some((Host::Ip(ip), port)) => {
                let address = SocketAddr::new(ip, port.unwrap_or(SIP_PORT));
                Err(Refusal::new(format!(
                    "expected a host name, since the addresses of the listeners are known; listen on this address, \
                     or advertise it: `listen.udp = [{{ bind = ..., advertise = \"{address}\" }}]`"
                )))
            }
            Some((Host::Name(name), port)) => {
                let port = port.map(|port| format!(":{port}")).unwrap_or_default();
                Ok(format!("{name}{port}"))
            }
            None => Err(refusal().meant(repair(text))),
        }
    }

    fn schema() -> Schema {
        json!({ "title": "host[:port]", "type": "string" })
    }
}

impl Kind for PageOrigin {
    type Value = String;

    fn read(leaf: &Leaf) -> Result<String, Refusal> {
        let refusal = || {
            Refusal::new(
                "expected the scheme and host of a web page (\"https://phone.example.com\"), \"null\" or \"*\"",
            )
        };
        let Leaf::Text(text) = leaf else { return Err(refusal()) };
        let text = text.to_ascii_lowercase();
        let Some((scheme, place)) = text.split_once("://") else {
            return if matches!(text.as_str(), "*" | "null") { Ok(text) } else { Err(refusal()) };
        };
        if let Some((host, _)) = place.split_once('/') {
            return Err(refusal().meant(quoted(&format!("{scheme}://{host}"))));
        }
        // Browsers leave out the default port of the scheme.
        let usual = match scheme {
            "https" => ":443",
            _ => ":80",
        };
        Ok(format!("{scheme}://{}", place.strip_suffix(usual).unwrap_or(place)))
    }

    fn schema() -> Schema {
        json!({ "title": "scheme://host[:port], null or *", "type": "string" })
    }
}

impl Kind for DomainName {
    type Value = String;

    fn read(leaf: &Leaf) -> Result<String, Refusal> {
        let refusal = || Refusal::new("expected a domain, such as \"example.com\", or an address");
        let Leaf::Text(text) = leaf else { return Err(refusal()) };
        let (host, port) = host_port(text).ok_or_else(|| refusal().meant(repair(text)))?;
        let host = match host {
            Host::Name(name) => name,
            Host::Ip(IpAddr::V4(ip)) => ip.to_string(),
            Host::Ip(IpAddr::V6(ip)) => format!("[{ip}]"),
        };
        // With the default port it is the same domain (RFC 3261 §19.1.2).
        Ok(port.filter(|port| *port != SIP_PORT).map_or(host.clone(), |port| format!("{host}:{port}")))
    }

    fn schema() -> Schema {
        json!({ "title": "domain or address, host[:port]", "type": "string" })
    }
}

/// Transports of members, on which servers listen for other servers. WebSocket servers are for clients (RFC 7118 §1).
const SERVED: [Transport; 3] = [Transport::Udp, Transport::Tcp, Transport::Tls];

/// Splits off the transport parameter of an address. Returns the text before it, and the transport; UDP without a
/// parameter.
///
/// # Errors
/// Another parameter, with the likely meaning; `expected` describes legal values.
pub(super) fn transport_of<'t>(text: &'t str, expected: &str) -> Result<(&'t str, Transport), Refusal> {
    let Some((bare, params)) = text.split_once(';') else { return Ok((text, Transport::Udp)) };
    let refusal = || Refusal::new(expected).meant(repair(text));
    let (name, value) = params.split_once('=').ok_or_else(refusal)?;
    if !name.eq_ignore_ascii_case("transport") || value.contains(';') {
        return Err(refusal());
    }
    match Transport::parse(value.as_bytes()) {
        Some(transport) if SERVED.contains(&transport) => Ok((bare, transport)),
        Some(_) => Err(Refusal::new(
            "expected udp, tcp or tls: WebSocket is for clients such as browsers, not between servers",
        )),
        None => Err(Refusal::new("expected the transport udp, tcp or tls")),
    }
}

enum Host {
    Ip(IpAddr),
    /// Lower-case, without a final dot.
    Name(String),
}

/// RFC 3261 §25.1 `hostport`: an IPv6 address has brackets.
fn host_port(text: &str) -> Option<(Host, Option<u16>)> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(decimal(port)?)),
        _ => (text, None),
    };
    let host = match host.strip_prefix('[') {
        Some(reference) => Host::Ip(IpAddr::V6(reference.strip_suffix(']')?.parse().ok()?)),
        None => match host.parse() {
            Ok(ip) => Host::Ip(IpAddr::V4(ip)),
            Err(_) => Host::Name(host_name(host)?),
        },
    };
    Some((host, port))
}

/// Digits only; `str::parse` would accept a sign.
fn decimal(port: &str) -> Option<u16> {
    port.bytes().all(|b| b.is_ascii_digit()).then(|| port.parse().ok())?
}

/// RFC 3261 §25.1 `hostname`, in lower case. The last label starts with a letter, so that a mistyped IPv4 address is
/// not read as a name. Underscores inside labels are allowed, because names in container networks have them.
fn host_name(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let legal = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with(['-', '_'])
            && !label.ends_with(['-', '_'])
    };
    let top = name.rsplit('.').next()?;
    let named =
        name.len() <= 253 && name.split('.').all(legal) && top.starts_with(|c: char| c.is_ascii_alphabetic());
    named.then_some(name)
}

/// RFC 2782: `_service._proto.name`. The prefixes belong to the [served](SERVED) transports (RFC 3263 §4.1).
fn srv(text: &str) -> Result<Address, Refusal> {
    let lower = text.to_ascii_lowercase();
    for service in SERVED.iter().filter_map(|transport| transport.service()) {
        let rest = lower.strip_prefix(service).and_then(|rest| rest.strip_prefix('.'));
        if let Some(domain) = rest.and_then(host_name) {
            return Ok(Address::Srv(format!("{service}.{domain}")));
        }
    }
    // The parameter is probably a port or a transport, which SRV records and their names already have.
    let (labels, domain): (Vec<_>, Vec<_>) = lower.split('.').partition(|label| label.starts_with('_'));
    let domain = domain.join(".").split([':', ';']).next().and_then(host_name);
    let service = match (&labels[..], lower.split_once(";transport=").map(|(_, transport)| transport)) {
        (_, Some("tcp")) | (["_sip", "_tcp"], None) => Transport::Tcp.service(),
        (_, Some("tls")) | (["_sips", _] | [_, "_tls"], None) => Transport::Tls.service(),
        _ => Transport::Udp.service(),
    };
    let words = "expected an SRV name of SIP, without port and parameters: \"_sip._udp.example.com\", \"_sip._tcp.example.com\" \
                 or \"_sips._tcp.example.com\"";
    Err(Refusal::new(words)
        .meant(domain.zip(service).map(|(domain, service)| quoted(&format!("{service}.{domain}")))))
}

/// The name or address that `text` most likely means: without a scheme, with no parameter but its transport, with
/// brackets.
pub(super) fn repair(text: &str) -> Option<String> {
    let (text, lower) = (text.trim(), text.to_ascii_lowercase());
    let is_over = |transport: &&Transport| lower.contains(transport.uri_param());
    let is_secure = ["sips:", "tls:"].iter().any(|scheme| lower.trim_start().starts_with(scheme));
    let named = SERVED[1..].iter().find(is_over).copied();
    let transport = if is_secure { Transport::Tls } else { named.unwrap_or_default() };
    let bare = strip_scheme(text).split(';').next()?;
    let bracketed = match (ipv6_without_brackets(bare), bare.parse()) {
        (Some(meant), _) => meant.to_string(),
        (None, Ok(IpAddr::V6(ip))) => format!("[{ip}]"),
        _ => bare.to_owned(),
    };
    host_port(&bracketed).is_some().then(|| quoted(&format!("{bracketed}{}", transport.uri_param())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(text: &str) -> Result<Address, Refusal> {
        MemberAddress::read(&text.into())
    }

    #[test]
    fn members_are_addresses_hosts_or_srv_names() {
        let socket = |text: &str| Address::Socket(text.parse().unwrap());
        let host = |transport, name: &str, port| Address::Host { transport, name: name.to_owned(), port };
        assert_eq!(member("10.0.0.1"), Ok(socket("10.0.0.1:5060")));
        assert_eq!(member("10.0.0.1:5070"), Ok(socket("10.0.0.1:5070")));
        assert_eq!(member("[2001:db8::1]"), Ok(socket("[2001:db8::1]:5060")));
        assert_eq!(member("[2001:db8::1]:5070"), Ok(socket("[2001:db8::1]:5070")));
        assert_eq!(member("SIP.Example.com."), Ok(host(Transport::Udp, "sip.example.com", None)));
        assert_eq!(member("sip_1:5070"), Ok(host(Transport::Udp, "sip_1", Some(5070))));
        for name in ["_sip._udp.example.com", "_sip._tcp.example.com", "_sips._tcp.example.com"] {
            assert_eq!(member(&name.replace("ex", "Ex")), Ok(Address::Srv(name.into())));
        }
    }

    #[test]
    fn the_transport_of_a_member_decides_its_default_port() {
        let socket = |text: &str| Ok(Address::Socket(text.parse().unwrap()));
        let host = |transport, port| Ok(Address::Host { transport, name: "a.example".into(), port });
        assert_eq!(member("10.0.0.1;transport=TCP"), socket("10.0.0.1:5060;transport=tcp"));
        assert_eq!(member("10.0.0.1;transport=tls"), socket("10.0.0.1:5061;transport=tls"));
        assert_eq!(member("[2001:db8::1]:5080;transport=tls"), socket("[2001:db8::1]:5080;transport=tls"));
        assert_eq!(member("10.0.0.1:5070;transport=udp"), socket("10.0.0.1:5070"));
        assert_eq!(member("a.example;transport=tls"), host(Transport::Tls, None));
        assert_eq!(member("a.example:5070;transport=tcp"), host(Transport::Tcp, Some(5070)));
        for browser in ["10.0.0.1;transport=ws", "a.example;transport=wss"] {
            assert!(member(browser).unwrap_err().expected.contains("for clients"), "{browser}");
        }
        assert!(member("10.0.0.1;transport=sctp").unwrap_err().expected.contains("udp, tcp or tls"));
    }

    #[test]
    fn a_mistyped_address_is_not_a_name() {
        for wrong in
            ["10.0.0.256", "10.0.0", "10.0.0.1:70000", "10.0.0.1:+5", "", "a..b", "-a", "a b", "[::1", "a:"]
        {
            assert!(member(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn nearly_valid_values_are_corrected() {
        for (read, meant) in [
            ("2001:db8::1", "\"[2001:db8::1]\""),
            ("2001:db8::1:5070", "\"[2001:db8::1]:5070\""),
            ("sip:10.0.0.1:5060;transport=udp", "\"10.0.0.1:5060\""),
            ("sip:10.0.0.1;transport=tcp;lr", "\"10.0.0.1;transport=tcp\""),
            ("sips:a.example", "\"a.example;transport=tls\""),
            ("tls://a.example:5061", "\"a.example:5061;transport=tls\""),
            ("10.0.0.1;lr", "\"10.0.0.1\""),
            ("_sip._udp.example.com:5060", "\"_sip._udp.example.com\""),
            ("_sip._tcp.example.com:5060", "\"_sip._tcp.example.com\""),
            ("_sips._tls.example.com", "\"_sips._tcp.example.com\""),
            ("_sip._tls.example.com", "\"_sips._tcp.example.com\""),
            ("_sip._udp.example.com;transport=tcp", "\"_sip._tcp.example.com\""),
        ] {
            assert_eq!(member(read).unwrap_err().meant.as_deref(), Some(meant), "{read}");
        }
    }

    #[test]
    fn origins_are_written_as_browsers_send_them() {
        let origin = |text: &str| PageOrigin::read(&text.into());
        assert_eq!(origin("https://Phone.example.com:443"), Ok("https://phone.example.com".into()));
        assert_eq!(origin("http://[::1]:8080"), Ok("http://[::1]:8080".into()));
        assert_eq!(origin("*"), Ok("*".into()));
        assert!(origin("phone.example.com").is_err());
        let meant = origin("https://phone.example.com/").unwrap_err().meant;
        assert_eq!(meant.as_deref(), Some("\"https://phone.example.com\""));
    }

    #[test]
    fn served_names_are_written_one_way() {
        let name = |text: &str| ServedName::read(&text.into());
        assert_eq!(name("SIP.example.com:5060"), Ok("sip.example.com:5060".into()));
        for address in ["10.0.0.1", "10.0.0.1:5060", "[2001:db8::1]"] {
            assert!(name(address).unwrap_err().expected.contains("advertise"), "{address}");
        }
        assert!(name("sip.example.com:0").is_err());
    }
}
