//! Keys and tokens. Messages never show their values.

use serde_json::json;

use super::{Kind, Leaf, Refusal, Schema};
use crate::typed::Bearer;

/// A `SipHash` key as text.
#[derive(Debug, Clone)]
pub(crate) struct KeyText;

/// A bearer token as text.
#[derive(Debug, Clone)]
pub(crate) struct BearerText;

/// Path of a file that holds a secret.
#[derive(Debug, Clone)]
pub(crate) struct KeyPath;

const KEY: &str = "expected 16 bytes as 32 hex digits or in base64; make one with `openssl rand -hex 16`";

impl Kind for KeyText {
    type Value = [u8; 16];
    const SECRET: bool = true;

    fn read(leaf: &Leaf) -> Result<[u8; 16], Refusal> {
        match leaf {
            Leaf::Text(text) => hex(text)
                .or_else(|| base64(text))
                .ok_or_else(|| Refusal::new(format!("{KEY} (this has {} characters)", text.chars().count()))),
            _ => Err(Refusal::new(KEY)),
        }
    }

    fn schema() -> Schema {
        json!({
            "title": "16 bytes as 32 hex digits or in base64",
            "type": "string",
            "pattern": "^([0-9A-Fa-f]{32}|[-_+/0-9A-Za-z]{21}[AQgw](==)?)$",
            "writeOnly": true,
        })
    }
}

const BEARER: &str =
    "expected a token of 16 or more letters, digits and -._~+/; make one with `openssl rand -hex 16`";

impl Kind for BearerText {
    type Value = Bearer;
    const SECRET: bool = true;

    fn read(leaf: &Leaf) -> Result<Bearer, Refusal> {
        match leaf {
            Leaf::Text(text) => Bearer::parse(text).ok_or_else(|| Refusal::new(BEARER)),
            _ => Err(Refusal::new(BEARER)),
        }
    }

    fn schema() -> Schema {
        json!({
            "title": "16 or more letters, digits and -._~+/",
            "type": "string",
            "pattern": "^[-._~+/0-9A-Za-z]{16,}=*$",
            "writeOnly": true,
        })
    }
}

impl Kind for KeyPath {
    type Value = String;

    fn read(leaf: &Leaf) -> Result<String, Refusal> {
        match leaf {
            Leaf::Text(path) if !path.is_empty() => Ok(path.clone()),
            _ => Err(Refusal::new("expected the path of a file, such as \"token.key\"")),
        }
    }

    fn schema() -> Schema {
        json!({ "title": "path, relative to this file", "type": "string", "minLength": 1 })
    }
}

/// Reads a key file, which has either the 16 bytes or their text, with or without a line end.
pub fn key_from_bytes(bytes: &[u8]) -> Option<[u8; 16]> {
    if let Ok(key) = bytes.try_into() {
        return Some(key);
    }
    let text = std::str::from_utf8(bytes).ok()?.trim();
    hex(text).or_else(|| base64(text))
}

fn hex(text: &str) -> Option<[u8; 16]> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let bytes: Vec<u8> =
        digits?.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
    bytes.try_into().ok().filter(|_| text.len() == 32)
}

/// RFC 4648 §4 and §5, with or without padding: 22 digits of 6 bits, the last 4 bits zero.
fn base64(text: &str) -> Option<[u8; 16]> {
    let text = text.strip_suffix("==").unwrap_or(text);
    if text.len() != 22 {
        return None;
    }
    let mut bits: u128 = 0;
    for (index, c) in text.bytes().enumerate() {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        let (digit, width) = match index {
            21 if digit & 0b1111 != 0 => return None,
            21 => (digit >> 4, 2),
            _ => (digit, 6),
        };
        bits = bits << width | u128::from(digit);
    }
    Some(bits.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 16] = *b"0123456789abcdef";

    #[test]
    fn a_key_is_hex_base64_or_raw() {
        for text in ["30313233343536373839616263646566", "MDEyMzQ1Njc4OWFiY2RlZg==", "MDEyMzQ1Njc4OWFiY2RlZg"]
        {
            assert_eq!(KeyText::read(&text.into()), Ok(KEY), "{text}");
            assert_eq!(key_from_bytes(format!("{text}\n").as_bytes()), Some(KEY), "{text}");
        }
        assert_eq!(key_from_bytes(&KEY), Some(KEY));
        assert_eq!(KeyText::read(&"_-__________________-w".into()).map(|key| key[0]), Ok(0xff));
    }

    #[test]
    fn a_bearer_token_is_long_and_of_the_characters_of_its_rfc() {
        for good in ["0123456789abcdef", "MDEyMzQ1Njc4OWFiY2RlZg==", "-._~+/-._~+/-._~"] {
            assert_eq!(
                BearerText::read(&good.into()).map(|token| token.text().to_owned()),
                Ok(good.to_owned())
            );
        }
        for bad in ["", "0123456789abcde", "0123456789abcde=", "0123456789 abcdef", "0123456789abcdef\n"] {
            assert!(BearerText::read(&bad.into()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn other_lengths_and_digits_are_refused() {
        for text in [
            "",
            "3031",
            "3031323334353637383961626364656",
            "303132333435363738396162636465666",
            "3031323334353637383961626364656g",
            "MDEyMzQ1Njc4OWFiY2RlZh==",
            "MDEyMzQ1Njc4OWFiY2RlZg=",
            "MDEyMzQ1Njc4OWFiY2RlZmc=",
        ] {
            assert!(KeyText::read(&text.into()).is_err(), "{text}");
        }
        assert_eq!(key_from_bytes(&[0; 15]), None);
    }
}
