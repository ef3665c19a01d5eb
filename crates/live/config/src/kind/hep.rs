//! Address and password of a HEP collector.

use serde_json::json;

use super::routing::Text;
use super::{Kind, Leaf, Refusal, Schema};
use crate::typed::HepTarget;

/// Address of a collector, with its transport.
#[derive(Debug, Clone)]
pub(crate) struct HepAddress;

/// A password, which messages never show.
#[derive(Debug, Clone)]
pub(crate) struct Password;

/// Port at which Homer listens.
const PORT: u16 = 9060;

impl Kind for HepAddress {
    type Value = HepTarget;

    fn read(leaf: &Leaf) -> Result<HepTarget, Refusal> {
        let target = match leaf {
            Leaf::Text(text) => target(text),
            _ => None,
        };
        target.ok_or_else(|| {
            Refusal::new(
                "expected transport, host and port, such as \"udp:10.0.0.9:9060\" or \"tcp:homer:9060\"",
            )
        })
    }

    fn schema() -> Schema {
        json!({ "title": "\"udp:HOST:PORT\" or \"tcp:HOST:PORT\"", "type": "string", "pattern": "^(udp|tcp):" })
    }
}

fn target(text: &str) -> Option<HepTarget> {
    let (transport, place) = text.split_once(':')?;
    let is_tcp = match transport {
        "udp" => false,
        "tcp" => true,
        _ => return None,
    };
    let (host, port) = match place.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
        Some((host, port)) => (host, port.parse().ok().filter(|port| *port > 0)?),
        None => (place, PORT),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').filter(|ip| ip.parse::<std::net::Ipv6Addr>().is_ok())?,
        None => Some(host).filter(|name| !name.is_empty() && name.bytes().all(is_name))?,
    };
    Some(HepTarget { is_tcp, host: host.to_owned(), port })
}

impl Kind for Password {
    type Value = String;
    const SECRET: bool = true;

    fn read(leaf: &Leaf) -> Result<String, Refusal> {
        Text::read(leaf).map_err(|_| Refusal::new("expected a password in quotes, on one line"))
    }

    fn schema() -> Schema {
        json!({ "title": "text", "type": "string", "minLength": 1, "writeOnly": true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_read_as_it_is_shown() {
        for text in ["udp:10.0.0.9:9060", "tcp:homer.example.com:9061", "udp:[2001:db8::9]:9060"] {
            assert_eq!(HepAddress::read(&text.into()).map(|to| to.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(target("udp:homer").map(|to| to.port), Some(PORT));
        assert_eq!(target("udp:[::1]").map(|to| to.to_string()), Some("udp:[::1]:9060".to_owned()));
        for wrong in
            ["", "homer:9060", "tls:homer:9060", "udp:", "udp:homer:0", "udp:a b:1", "udp:::1:9", "udp:[x]:9"]
        {
            assert!(target(wrong).is_none(), "{wrong}");
        }
    }
}
