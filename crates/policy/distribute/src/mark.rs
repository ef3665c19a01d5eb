//! Marks in requests: the functions that earlier nodes of the path perform.
//!
//! Value of the Via parameter `done`, which a node adds to its own Via of a request to a trusted neighbour:
//!
//! ```text
//! done = "done" EQUAL HEXDIG    ; a sum: 1 for state, 2 for authentication, 4 for dialogs,
//!                               ; 8 if the caller still has to be authenticated
//! ```
//!
//! It is short, since each proxy on the path pays for a longer message. The digit is valid in a `token` (RFC 3261
//! §25.1), so the parameter is a `via-extension`. A proxy that does not know it ignores it (§8.2.2 requires no support
//! of parameters).

use core::fmt;

/// Function that one node of a path performs for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Function {
    /// Keeps the transaction state.
    State,
    /// Has authenticated the caller.
    Authentication,
    /// Keeps the dialogs, and writes the call record. Such a node keeps the transaction state as well.
    Dialog,
}

impl Function {
    /// All functions, in the order in which they are written.
    pub const ALL: [Self; 3] = [Self::State, Self::Authentication, Self::Dialog];

    /// Bit in the number of a [`Mark`].
    const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Name of the Via parameter of responses with the [`Notice`](crate::Notice) of this function.
    pub const fn notice_parameter(self) -> &'static str {
        match self {
            Self::State => "room",
            Self::Authentication => "room-auth",
            Self::Dialog => "room-dialog",
        }
    }
}

/// Functions that earlier nodes perform for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark(u8);

impl Mark {
    /// Name of the Via parameter of requests.
    pub const PARAMETER: &'static str = "done";

    /// Value added by [`with_authentication_required`](Self::with_authentication_required).
    const ASKS: u8 = 8;

    /// Whether an earlier node performs this function.
    pub fn has(self, function: Function) -> bool {
        self.0 & function.bit() != 0
    }

    /// Mark with this function added.
    #[must_use]
    pub fn with(self, function: Function) -> Self {
        Self(self.0 | function.bit())
    }

    /// Mark with this function removed.
    #[must_use]
    pub fn without(self, function: Function) -> Self {
        Self(self.0 & !function.bit())
    }

    /// Whether its sender requires the caller to be authenticated by this node or a later one.
    pub fn requires_authentication(self) -> bool {
        self.0 & Self::ASKS != 0
    }

    /// Mark with or without the requirement of [`requires_authentication`](Self::requires_authentication).
    #[must_use]
    pub fn with_authentication_required(self, asks: bool) -> Self {
        Self(if asks { self.0 | Self::ASKS } else { self.0 & !Self::ASKS })
    }

    /// Parses the value of the parameter; `None` if it is invalid. The call then counts as unmarked.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let [digit] = value else { return None };
        char::from(*digit).to_digit(16).map(|number| Self(number as u8))
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_marks_are_read_back() {
        for (mark, text) in [
            (Mark::default(), "0"),
            (Mark::default().with(Function::State), "1"),
            (Mark::default().with(Function::Authentication).with(Function::State), "3"),
            (Mark::default().with(Function::State).with(Function::Dialog), "5"),
            (Mark::default().with(Function::State).with_authentication_required(true), "9"),
            (
                Mark::default()
                    .with(Function::Authentication)
                    .with_authentication_required(true)
                    .with_authentication_required(false),
                "2",
            ),
            (
                Mark::default().with(Function::State).with(Function::Authentication).without(Function::State),
                "2",
            ),
        ] {
            assert_eq!(mark.to_string(), text);
            assert_eq!(Mark::parse(text.as_bytes()), Some(mark));
        }
    }

    #[test]
    fn invalid_marks_are_ignored() {
        for wrong in ["", "10", "g", "state", "-1", "\u{e9}", " 1"] {
            assert_eq!(Mark::parse(wrong.as_bytes()), None, "{wrong:?}");
        }
        for both in ["b", "B"] {
            let mark = Mark::default()
                .with(Function::State)
                .with(Function::Authentication)
                .with_authentication_required(true);
            assert_eq!(Mark::parse(both.as_bytes()), Some(mark), "{both:?}");
        }
    }
}
