//! Why an update is not accepted.

/// Why an update is not accepted. A sender without the key gets only the first three, and learns nothing from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// The line is longer than any update.
    TooLong,
    /// The line is no update.
    Malformed,
    /// The code is another: another key, another connection, or something was altered on the way.
    WrongCode,
    /// The number is not the next one.
    WrongNumber,
    /// A newer connection brings updates of the same server.
    Superseded,
    /// There is no such server behind the receiver.
    UnknownServer,
    /// The key is not the one of a member that the server stands for.
    NotItsKey,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::TooLong,
        Self::Malformed,
        Self::WrongCode,
        Self::WrongNumber,
        Self::Superseded,
        Self::UnknownServer,
        Self::NotItsKey,
    ];

    /// As the answer and the metrics have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Malformed => "malformed",
            Self::WrongCode => "wrong_code",
            Self::WrongNumber => "wrong_number",
            Self::Superseded => "superseded",
            Self::UnknownServer => "unknown_server",
            Self::NotItsKey => "not_its_key",
        }
    }

    /// The one of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| refusal.name() == name)
    }

    /// The line that says so.
    pub fn line(self) -> String {
        format!("ERROR {}\n", self.name())
    }
}
