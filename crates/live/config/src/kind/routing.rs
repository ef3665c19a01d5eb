//! Values of routes and access lists: texts, methods, networks, next hops and answers.

use serde_json::json;

use super::{Kind, Leaf, MemberAddress, Refusal, Schema, quoted};
use control::Address;
use route::{Network, PATTERN_MAX};

/// Non-empty text on one line.
#[derive(Debug, Clone)]
pub(crate) struct Text;

impl Kind for Text {
    type Value = String;

    fn read(leaf: &Leaf) -> Result<String, Refusal> {
        let refusal = Refusal::new(format!("expected text of 1 to {PATTERN_MAX} bytes on one line"));
        match leaf {
            Leaf::Text(text) => {
                let legal = (1..=PATTERN_MAX).contains(&text.len()) && !text.chars().any(char::is_control);
                legal.then(|| text.clone()).ok_or(refusal)
            }
            // TOML numbers would lose the leading zero or `+` of a telephone number.
            Leaf::Integer(number) => Err(refusal.meant(quoted(&number.to_string()))),
            _ => Err(refusal),
        }
    }

    fn schema() -> Schema {
        json!({ "title": "text", "type": "string", "minLength": 1, "maxLength": PATTERN_MAX })
    }
}

/// Condition on a header field: text, or `true` if it must only be present, which is read as `None`.
#[derive(Debug, Clone)]
pub(crate) struct FieldText;

impl Kind for FieldText {
    type Value = Option<String>;

    fn read(leaf: &Leaf) -> Result<Option<String>, Refusal> {
        match leaf {
            Leaf::Flag(true) => Ok(None),
            Leaf::Flag(false) => {
                Err(Refusal::new("expected text, or true for a header field that is present"))
            }
            leaf => Text::read(leaf).map(Some),
        }
    }

    fn schema() -> Schema {
        json!({ "title": "text, or true", "anyOf": [{ "type": "string" }, { "const": true }] })
    }
}

/// A method by its name.
#[derive(Debug, Clone)]
pub(crate) struct MethodText;

impl Kind for MethodText {
    type Value = String;

    fn read(leaf: &Leaf) -> Result<String, Refusal> {
        let refusal = Refusal::new("expected a method such as \"INVITE\"");
        let Leaf::Text(text) = leaf else { return Err(refusal) };
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&byte);
        if text.is_empty() || text.len() > PATTERN_MAX || !text.bytes().all(is_token) {
            return Err(refusal);
        }
        if text == "ACK" || text == "CANCEL" {
            let words = "ACK and CANCEL follow their INVITE and cannot be chosen alone";
            return Err(Refusal::new(words).meant(quoted("INVITE")));
        }
        // RFC 3261 §7.1: methods are case-sensitive.
        let upper = text.to_ascii_uppercase();
        if wire::Method::parse(text.as_bytes()) == wire::Method::Other
            && wire::Method::parse(upper.as_bytes()) != wire::Method::Other
        {
            return Err(Refusal::new("methods are case-sensitive").meant(quoted(&upper)));
        }
        Ok(text.clone())
    }

    fn schema() -> Schema {
        json!({ "title": "method", "type": "string", "minLength": 1 })
    }
}

/// A network or an address.
#[derive(Debug, Clone)]
pub(crate) struct NetworkText;

impl Kind for NetworkText {
    type Value = Network;

    fn read(leaf: &Leaf) -> Result<Network, Refusal> {
        let text = if let Leaf::Text(text) = leaf { text } else { "" };
        text.parse().map_err(Refusal::new)
    }

    fn schema() -> Schema {
        json!({ "title": "network or address", "type": "string" })
    }
}

/// A next hop of a route: an address, a host name, an SRV name, or a URI with an address or name.
#[derive(Debug, Clone)]
pub(crate) struct NextHop;

impl Kind for NextHop {
    type Value = Address;

    fn read(leaf: &Leaf) -> Result<Address, Refusal> {
        let Leaf::Text(text) = leaf else { return MemberAddress::read(leaf) };
        let bare = text.strip_prefix("sip:").unwrap_or(text);
        let parts: Vec<_> = bare.split(';').filter(|part| *part != "lr").collect();
        MemberAddress::read(&(&*parts.join(";")).into())
    }

    fn schema() -> Schema {
        json!({ "title": "SIP URI, IP address[:port], host name[:port] or SRV name", "type": "string" })
    }
}

/// Status of a response; `None` for silence.
#[derive(Debug, Clone)]
pub(crate) struct AnswerKind;

const SILENCE: &str = "silence";

impl Kind for AnswerKind {
    type Value = Option<u16>;

    fn read(leaf: &Leaf) -> Result<Option<u16>, Refusal> {
        let refusal = Refusal::new("expected a status from 300 to 699, or \"silence\"");
        let legal = |status: &u16| (300..700).contains(status);
        match leaf {
            Leaf::Text(text) if text == SILENCE => Ok(None),
            Leaf::Integer(status) => u16::try_from(*status).ok().filter(legal).map(Some).ok_or(refusal),
            Leaf::Text(text) => {
                Err(refusal.meant(text.trim().parse().ok().filter(legal).map(|status| status.to_string())))
            }
            _ => Err(refusal),
        }
    }

    fn schema() -> Schema {
        json!({
            "title": "status, 300 to 699, or \"silence\"",
            "anyOf": [{ "type": "integer", "minimum": 300, "maximum": 699 }, { "const": SILENCE }],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_hops_are_written_as_uris_or_as_members_are() {
        let hop = |text: &str| NextHop::read(&text.into()).map(|address| address.to_string()).ok();
        for (text, address) in [
            ("sip:10.0.0.1", Some("10.0.0.1:5060")),
            ("sip:sbc.example.net:5070;transport=udp;lr", Some("sbc.example.net:5070")),
            ("sip:sbc.example.net;lr", Some("sbc.example.net")),
            ("sip:sbc.example.net;lr;transport=tls", Some("sbc.example.net;transport=tls")),
            ("sip:10.0.0.1;transport=tcp;lr", Some("10.0.0.1:5060;transport=tcp")),
            ("_sip._udp.example.net", Some("_sip._udp.example.net")),
            ("[2001:db8::1]", Some("[2001:db8::1]:5060")),
            ("sip:bob@example.net", None),
            ("sips:example.net", None),
            ("sip:example.net;transport=ws", None),
        ] {
            assert_eq!(hop(text).as_deref(), address, "{text}");
        }
    }

    #[test]
    fn nearly_valid_values_are_corrected() {
        let meant = |refusal: Refusal| refusal.meant.unwrap_or_default();
        assert_eq!(meant(Text::read(&4420.into()).unwrap_err()), "\"4420\"");
        assert_eq!(meant(MethodText::read(&"invite".into()).unwrap_err()), "\"INVITE\"");
        assert_eq!(meant(MethodText::read(&"CANCEL".into()).unwrap_err()), "\"INVITE\"");
        assert_eq!(MethodText::read(&"PING".into()), Ok("PING".to_owned()));
        assert_eq!(meant(AnswerKind::read(&"403".into()).unwrap_err()), "403");
        assert_eq!(AnswerKind::read(&SILENCE.into()), Ok(None));
        assert!(AnswerKind::read(&200.into()).is_err() && AnswerKind::read(&70_000.into()).is_err());
        assert!(FieldText::read(&false.into()).is_err() && Text::read(&"a\nb".into()).is_err());
        assert!(NetworkText::read(&"10.0.0.1/8".into()).unwrap_err().expected.contains("10.0.0.0/8"));
        assert!(NetworkText::read(&8.into()).is_err());
    }
}
