//! Parts of a line: reading and writing.

use super::key::CODE_BYTES;
use core::fmt::{self, Write as _};
use core::str::FromStr;
use std::net::{IpAddr, SocketAddr};

/// Version of the protocol.
pub const VERSION: u32 = 2;
/// Bytes of a nonce: enough that it never repeats.
pub const NONCE_BYTES: usize = 16;
/// Largest capacity in an update, in calls a second.
pub const CAPACITY_MAX: f64 = 999_999_999.0;

/// First word of a greeting.
pub(super) const PROTOCOL: &str = "sarabande-capacity";
/// Characters of the longest host name, with some for a port.
const NAME_MAX: usize = 261;
/// Default port of SIP (RFC 3261 section 19.1.2).
const SIP_PORT: u16 = 5060;

/// A server as its monitor names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerName {
    /// An address at which it takes requests.
    Address(SocketAddr),
    /// Its name in the configuration of the receiver.
    Name(String),
}

/// Error: text that is neither an address nor a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAServer;

impl fmt::Display for NotAServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write an address such as 10.0.0.1:5060, or a name such as sip1.example.com")
    }
}

impl FromStr for ServerName {
    type Err = NotAServer;

    fn from_str(text: &str) -> Result<Self, NotAServer> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        if !(1..=NAME_MAX).contains(&text.len()) || !text.bytes().all(fits) {
            return Err(NotAServer);
        }
        // Case, a final dot and leading zeros of a port do not distinguish names (RFC 4343; RFC 1034 section 3.1).
        let no_dot = |name: &str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let text = match text.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>())) {
            Some((host, Ok(port))) if !host.contains(':') || host.ends_with(']') => {
                format!("{}:{port}", no_dot(host))
            }
            _ => no_dot(text),
        };
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(&text);
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return Ok(Self::Address(SocketAddr::new(ip, SIP_PORT)));
        }
        let is_name = !text.is_empty() && !text.contains(['[', ']']);
        is_name.then_some(Self::Name(text)).ok_or(NotAServer)
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// Greeting with this nonce, without its line end.
pub(super) fn greeting(nonce: [u8; NONCE_BYTES]) -> String {
    format!("{PROTOCOL} {VERSION} {}", hex(&nonce))
}

/// Part of an update that the code authenticates.
pub(super) fn update(number: u64, server: &ServerName, capacity: f64) -> String {
    // NaN and negative zero have no readable text.
    let capacity = if capacity > 0.0 { capacity.min(CAPACITY_MAX) } else { 0.0 };
    format!("UPDATE {number} {server} {capacity:.3}")
}

/// Number, server and capacity of an update without its code; `None` for text that [`update`] would not write.
pub(super) fn read_update(text: &str) -> Option<(u64, ServerName, f64)> {
    let mut words = text.split(' ');
    let (verb, number, server, capacity) = (words.next()?, words.next()?, words.next()?, words.next()?);
    if verb != "UPDATE" || words.next().is_some() {
        return None;
    }
    Some((read_number(number)?, server.parse().ok()?, read_capacity(capacity)?))
}

/// Server named in an update, whatever else it contains.
pub(super) fn named(text: &str) -> Option<ServerName> {
    text.split(' ').nth(2)?.parse().ok()
}

/// Parses a counting number: no sign, no leading zeros.
pub(super) fn read_number(text: &str) -> Option<u64> {
    let digits = (1..=19).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits && !text.starts_with('0'))
}

fn read_capacity(text: &str) -> Option<f64> {
    let is_number = |text: &str, most: usize| {
        (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    // Nine digits never exceed `CAPACITY_MAX` with its fraction.
    text.parse().ok().filter(|_| is_number(whole, 9) && is_number(part, 3))
}

/// Lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a String takes any text");
    }
    text
}

/// Code from its lower-case digits; a code has only one text.
pub(super) fn read_code(digits: &str) -> Option<[u8; CODE_BYTES]> {
    let mut code = [0; CODE_BYTES];
    is_hex(digits, CODE_BYTES).then_some(())?;
    for (byte, pair) in code.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(code)
}

/// Whether these are the lower-case hexadecimal digits of `bytes` bytes.
pub(super) fn is_hex(digits: &str, bytes: usize) -> bool {
    digits.len() == 2 * bytes && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
