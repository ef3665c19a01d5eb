//! What can be seen of a server from outside, and errors of its settings.

use core::fmt;
use core::time::Duration;

/// How a server does, for metrics and logs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// Connections that stand. Without one, all that is asked is refused.
    pub connections: usize,
    /// For how long it has been so that there is one, or none.
    pub unchanged: Duration,
    /// Questions that wait for a connection to be free.
    pub waiting: usize,
    /// Questions since the start that got an error for an answer, whoever is to blame.
    pub failed_total: u64,
    /// Connections since the start that were lost.
    pub lost_total: u64,
    /// The last reason for which a connection was lost or could not be made; it stays when all is well again.
    pub last_error: Option<String>,
}

impl Status {
    /// Whether the server can be asked.
    pub fn is_up(&self) -> bool {
        self.connections > 0
    }
}

/// Why something cannot be started: what is wrong with which setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingsError(pub(crate) String);

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for SettingsError {}
