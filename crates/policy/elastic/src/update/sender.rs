//! Sending end of a connection.

use super::message::{PROTOCOL, hex, is_hex, read_number, update};
use super::{Key, NONCE_BYTES, ServerName, UpdateRefusal, VERSION};
use core::fmt;

/// Error of a sender's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// The peer answers, but accepts no updates.
    NoReceiver,
    /// The peer uses this version of the protocol instead of [`VERSION`].
    OtherVersion(u64),
    /// The peer has refused an update; `None` for an unknown reason.
    Refused(Option<UpdateRefusal>),
    /// The peer's answer is not part of the protocol.
    InvalidAnswer,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoReceiver => "the peer takes no updates of capacity",
            Self::OtherVersion(theirs) => {
                return write!(
                    f,
                    "the peer speaks version {theirs} of the protocol, and here is version {VERSION}: \
                     run the same release on both sides"
                );
            }
            Self::Refused(Some(UpdateRefusal::WrongCode)) => {
                "the peer has another key for this server, or none (wrong_code)"
            }
            Self::Refused(Some(UpdateRefusal::UnknownServer)) => {
                "the peer has no member with this name or address (unknown_server)"
            }
            Self::Refused(Some(UpdateRefusal::NotItsKey)) => {
                "a member with this name or address has another key; the peer's log names it (not_its_key)"
            }
            Self::Refused(Some(UpdateRefusal::Superseded)) => {
                "another sender sends updates of the same server (superseded)"
            }
            Self::Refused(Some(refusal)) => {
                return write!(f, "the peer has refused an update ({})", refusal.name());
            }
            Self::Refused(None) => "the peer has refused an update",
            Self::InvalidAnswer => "the peer's answer is not one of the protocol",
        })
    }
}

/// Sending end of a connection. Wait for the answer to each update before the next.
#[derive(Debug)]
pub struct UpdateSender {
    key: Key,
    greeting: String,
    /// Number of the last update; 0 before the first.
    number: u64,
}

impl UpdateSender {
    /// Creates the sender of a connection with this first line, given without its end.
    ///
    /// # Errors
    /// If the line is not a greeting, or is a greeting of another version.
    pub fn greeted(key: Key, line: &[u8]) -> Result<Self, SendError> {
        let text = core::str::from_utf8(line).map_err(|_| SendError::NoReceiver)?;
        let words: Vec<_> = text.split(' ').collect();
        match words[..] {
            [PROTOCOL, version, nonce] if version == VERSION.to_string() => {
                if is_hex(nonce, NONCE_BYTES) {
                    Ok(Self { key, greeting: text.to_owned(), number: 0 })
                } else {
                    Err(SendError::NoReceiver)
                }
            }
            [PROTOCOL, version, ..] => {
                Err(read_number(version).map_or(SendError::NoReceiver, SendError::OtherVersion))
            }
            _ => Err(SendError::NoReceiver),
        }
    }

    /// Line of the next update.
    pub fn update(&mut self, server: &ServerName, capacity: f64) -> String {
        self.number += 1;
        let update = update(self.number, server, capacity);
        let code = self.key.code(&self.greeting, &update);
        format!("{update} {}\n", hex(&code))
    }

    /// Reads the answer to the last update, without its line end. Returns the number of calls that the receiver has
    /// sent to the server so far.
    ///
    /// # Errors
    /// If the update was not accepted.
    pub fn answer(&self, line: &[u8]) -> Result<u64, SendError> {
        let text = core::str::from_utf8(line).map_err(|_| SendError::InvalidAnswer)?;
        if let Some(reason) = text.strip_prefix("ERROR ") {
            return Err(SendError::Refused(UpdateRefusal::of(reason)));
        }
        let accepted = text.strip_prefix("OK ").and_then(|rest| rest.split_once(' '));
        let (number, sent) = accepted.ok_or(SendError::InvalidAnswer)?;
        let sent = if sent == "0" { Some(0) } else { read_number(sent) };
        sent.filter(|_| read_number(number) == Some(self.number)).ok_or(SendError::InvalidAnswer)
    }
}
