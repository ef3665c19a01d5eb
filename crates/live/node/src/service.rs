//! How the requests of a pool are served.

use ::route::{Dialogs, Fork, Forward};
use core::time::Duration;

/// How requests to a pool are forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolMode {
    /// With or without transactions.
    pub forward: Forward,
    /// Where requests within dialogs go.
    pub dialogs: Dialogs,
    /// Nothing is remembered of calls, and members have no load: for next hops whose policy finds the same one again. Next
    /// hops that requests go to without transactions have to be such.
    pub is_sessionless: bool,
    /// To how many members at once; more than one only with transactions, and where nothing is remembered of calls.
    pub fork: Fork,
    /// Of a pool that forks: how long a group of members rings before the next one does.
    pub ring_time: Duration,
    /// Whether this process stays on the way of the dialogs that begin (RFC 3261 §16.6 step 4). What goes to members always
    /// comes back here.
    pub record_route: bool,
}

impl Default for PoolMode {
    fn default() -> Self {
        let (forward, dialogs) = (Forward::default(), Dialogs::default());
        let (fork, ring_time) = (Fork::default(), Duration::ZERO);
        Self { forward, dialogs, is_sessionless: false, fork, ring_time, record_route: true }
    }
}

impl PoolMode {
    /// Next hops, each found again by its policy, with a transaction of ours.
    pub const HOPS: Self = Self {
        forward: Forward::Transaction,
        dialogs: Dialogs::Route,
        is_sessionless: true,
        fork: Fork::None,
        ring_time: Duration::ZERO,
        record_route: true,
    };

    /// Whether requests go on as the routes of dialogs and transactions say, not as those of members.
    pub(crate) fn is_by_route(self) -> bool {
        self.dialogs == Dialogs::Route
    }
}
