//! Reasons to refuse an update.

/// Reason to refuse an update. A sender without the key gets only the first three, and learns nothing from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UpdateRefusal {
    /// The line is longer than any update.
    TooLong,
    /// The line is not an update.
    Malformed,
    /// The code is wrong: another key, another connection, or an altered line.
    WrongCode,
    /// The number is not the next one.
    WrongNumber,
    /// A newer connection brings updates of the same server.
    Superseded,
    /// The receiver has no such server.
    UnknownServer,
    /// The update was made with another key than the key of a member that the server stands for.
    NotItsKey,
}

impl UpdateRefusal {
    /// All refusals.
    pub const ALL: [Self; 7] = [
        Self::TooLong,
        Self::Malformed,
        Self::WrongCode,
        Self::WrongNumber,
        Self::Superseded,
        Self::UnknownServer,
        Self::NotItsKey,
    ];

    /// Name in responses and metrics.
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

    /// Refusal with this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| refusal.name() == name)
    }

    /// Line that reports it.
    pub fn line(self) -> String {
        format!("ERROR {}\n", self.name())
    }
}
