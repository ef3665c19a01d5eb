//! What a request carries: for which functions somebody on its path has seen to it.
//!
//! The value of the Via parameter `done` that a node adds to its own Via of a request to a trusted neighbour:
//!
//! ```text
//! done = "done" EQUAL HEXDIG    ; a sum: 1 for state, 2 for authentication, 4 for dialogs,
//!                               ; 8 for a caller who has to be authenticated yet
//! ```
//!
//! It is short, since a message that grows costs each proxy on its way. The digit is one of a `token` (RFC 3261 §25.1), so the
//! parameter is a `via-extension`, and a proxy that does not know it ignores it (§8.2.2 asks no support of parameters).

use core::fmt;

/// What one node of a path does for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Function {
    /// Keeps its state.
    State,
    /// Has authenticated the caller.
    Authentication,
    /// Keeps its dialogs, and writes its call record. Whoever does so keeps its state as well.
    Dialog,
}

impl Function {
    /// All of them, in the order in which they are written.
    pub const ALL: [Self; 3] = [Self::State, Self::Authentication, Self::Dialog];

    /// What it adds to the number of a [`Mark`].
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

/// For which functions somebody has seen to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark(u8);

impl Mark {
    /// Name of the Via parameter of requests.
    pub const PARAMETER: &'static str = "done";

    /// What [`asking`](Self::asking) adds.
    const ASKS: u8 = 8;

    /// Whether somebody has seen to it.
    pub fn has(self, function: Function) -> bool {
        self.0 & function.bit() != 0
    }

    /// The same mark with this function, too.
    #[must_use]
    pub fn with(self, function: Function) -> Self {
        Self(self.0 | function.bit())
    }

    /// The same mark without this function.
    #[must_use]
    pub fn without(self, function: Function) -> Self {
        Self(self.0 & !function.bit())
    }

    /// Whether its sender demands that the caller is authenticated: by us, or by somebody behind us.
    pub fn asks(self) -> bool {
        self.0 & Self::ASKS != 0
    }

    /// The same mark, with that demand or without.
    #[must_use]
    pub fn asking(self, asks: bool) -> Self {
        Self(if asks { self.0 | Self::ASKS } else { self.0 & !Self::ASKS })
    }

    /// Reads the value of the parameter. `None` for what is no such value: the neighbour speaks another language, and
    /// the call counts as one that nobody has seen to.
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
    fn what_is_written_is_read() {
        for (mark, text) in [
            (Mark::default(), "0"),
            (Mark::default().with(Function::State), "1"),
            (Mark::default().with(Function::Authentication).with(Function::State), "3"),
            (Mark::default().with(Function::State).with(Function::Dialog), "5"),
            (Mark::default().with(Function::State).asking(true), "9"),
            (Mark::default().with(Function::Authentication).asking(true).asking(false), "2"),
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
    fn what_is_no_mark_is_none() {
        for wrong in ["", "10", "g", "state", "-1", "\u{e9}", " 1"] {
            assert_eq!(Mark::parse(wrong.as_bytes()), None, "{wrong:?}");
        }
        for both in ["b", "B"] {
            let mark = Mark::default().with(Function::State).with(Function::Authentication).asking(true);
            assert_eq!(Mark::parse(both.as_bytes()), Some(mark), "{both:?}");
        }
    }
}
