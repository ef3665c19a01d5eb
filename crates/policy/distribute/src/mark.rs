//! What a request carries: for which functions somebody on its path has seen to it.
//!
//! The value of the Via parameter `done` that a node adds to its own Via of a request to a trusted neighbour:
//!
//! ```text
//! done     = "done" EQUAL ( "none" / function *( "." function ) )
//! function = "state" / "auth"
//! ```
//!
//! Every character is one of a `token` (RFC 3261 §25.1), so the parameter is a `via-extension`, and a proxy that does
//! not know it ignores it (§8.2.2 asks no support of parameters).

use core::fmt;

/// What one node of a path does for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Function {
    /// Keeps its state.
    State,
    /// Has authenticated the caller.
    Authentication,
}

impl Function {
    /// All of them, in the order in which they are written.
    pub const ALL: [Self; 2] = [Self::State, Self::Authentication];

    const fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Authentication => "auth",
        }
    }

    /// Name of the Via parameter of responses with the [`Notice`](crate::Notice) of this function.
    pub const fn notice_parameter(self) -> &'static str {
        match self {
            Self::State => "room",
            Self::Authentication => "room-auth",
        }
    }
}

/// For which functions somebody has seen to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    done: [bool; Function::ALL.len()],
}

impl Mark {
    /// Name of the Via parameter of requests.
    pub const PARAMETER: &'static str = "done";

    /// Longest value that is read, in bytes: more than any that is written.
    const LENGTH_MAX: usize = 32;

    /// Whether somebody has seen to it.
    pub fn has(self, function: Function) -> bool {
        self.done[function as usize]
    }

    /// The same mark with this function, too.
    #[must_use]
    pub fn with(mut self, function: Function) -> Self {
        self.done[function as usize] = true;
        self
    }

    /// Reads the value of the parameter. `None` for what is no such value: the neighbour speaks another language, and
    /// the call counts as one that nobody has seen to. A name that this version does not know is passed over.
    pub fn parse(value: &[u8]) -> Option<Self> {
        if value.is_empty() || value.len() > Self::LENGTH_MAX {
            return None;
        }
        let mut mark = Self::default();
        for name in value.split(|byte| *byte == b'.') {
            if name.is_empty() || !name.iter().all(u8::is_ascii_alphabetic) {
                return None;
            }
            // RFC 3261 §7.3.1: parameter values that are tokens are case-insensitive.
            if let Some(function) =
                Function::ALL.iter().find(|it| name.eq_ignore_ascii_case(it.name().as_bytes()))
            {
                mark = mark.with(*function);
            }
        }
        Some(mark)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lead = "";
        for function in Function::ALL.into_iter().filter(|function| self.has(*function)) {
            write!(f, "{lead}{}", function.name())?;
            lead = ".";
        }
        if lead.is_empty() { f.write_str("none") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (mark, text) in [
            (Mark::default(), "none"),
            (Mark::default().with(Function::State), "state"),
            (Mark::default().with(Function::Authentication).with(Function::State), "state.auth"),
        ] {
            assert_eq!(mark.to_string(), text);
            assert_eq!(Mark::parse(text.as_bytes()), Some(mark));
            assert_eq!(Mark::parse(text.to_uppercase().as_bytes()), Some(mark));
        }
    }

    #[test]
    fn what_is_no_mark_is_none_and_what_is_unknown_is_passed_over() {
        for wrong in ["", ".", "state.", "state..auth", "state auth", "stat\u{e9}", "state=1"] {
            assert_eq!(Mark::parse(wrong.as_bytes()), None, "{wrong:?}");
        }
        assert_eq!(Mark::parse(&[b'a'; 33]), None);
        assert_eq!(Mark::parse(b"billing.state"), Some(Mark::default().with(Function::State)));
    }
}
