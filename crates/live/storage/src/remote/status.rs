//! Visible state of a server, and errors of its settings.

use core::fmt;
use core::time::Duration;

/// State of a server, for metrics and logs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoreStatus {
    /// Open connections. Without one, all requests are refused.
    pub connections: usize,
    /// Time since there is a connection, or since there is none.
    pub unchanged: Duration,
    /// Requests that wait for a free connection.
    pub waiting: usize,
    /// Requests since the start that were answered with an error, for any reason.
    pub failed_total: u64,
    /// Connections lost since the start.
    pub lost_total: u64,
    /// Last reason for a lost or failed connection; kept after a recovery.
    pub last_error: Option<String>,
}

impl StoreStatus {
    /// Whether the server can serve requests.
    pub fn is_up(&self) -> bool {
        self.connections > 0
    }
}

/// Error in a setting; the text names the setting and the fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingsError(pub(crate) String);

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for SettingsError {}
