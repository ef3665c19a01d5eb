//! How a pool's requests are forwarded, to how many members, and where those within its dialogs go.

use core::time::Duration;

/// How a request to a pool is forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Forward {
    /// As a stateless proxy does (RFC 3261 §16.11): what is lost, the two parties send again.
    #[default]
    Stateless,
    /// As a transaction-stateful proxy does (RFC 3261 §16): 100 at once, repeats, CANCEL, and another member where one fails.
    Transaction,
    /// As a transaction-stateful proxy, which keeps the state of the dialogs as well: what becomes of each call is known, and
    /// written down; only to next hops.
    Dialog,
    /// With a transaction for some requests and without for the others, so that one proxy of a chain keeps the transactions of
    /// each call; only to next hops.
    Distributed,
}

impl Forward {
    /// Whether every request that begins something gets a transaction.
    pub fn has_transactions(self) -> bool {
        matches!(self, Self::Transaction | Self::Dialog)
    }
}

/// Where the requests within the dialogs of a pool go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Dialogs {
    /// To the member that the dialog began with.
    #[default]
    Member,
    /// Where Route and Request-URI lead: the members are next hops, which may take themselves out of the way.
    Route,
}

/// How long a group of targets is tried before the next one is, unless it is said: five or six rings.
pub const RING_TIME: Duration = Duration::from_secs(20);

/// How many members of a pool get a request (RFC 3261 §16.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fork {
    /// One, and another only where that one fails.
    #[default]
    None,
    /// All at once: a ring group.
    Parallel,
    /// One after the other, until one accepts: a hunt group.
    Sequential,
}
