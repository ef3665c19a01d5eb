//! How a pool's requests are forwarded, to how many members, and where those within its dialogs go.

use core::time::Duration;

/// How a request to a pool is forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Forward {
    /// As a stateless proxy does (RFC 3261 §16.11): UAC and UAS retransmit lost messages.
    Stateless,
    /// As a transaction-stateful proxy does (RFC 3261 §16): 100 at once, repeats, CANCEL, and another member where
    /// one fails.
    #[default]
    Transaction,
    /// As a transaction-stateful proxy, which keeps the state of the dialogs as well: what becomes of each call is
    /// known, and written down; only to next hops.
    Dialog,
    /// With a transaction for some requests and without for the others, so that one proxy of a chain keeps the
    /// transactions of each call; only to next hops.
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

/// How long a member may leave an INVITE without a response before another one gets it, unless it is said: the copies
/// that leave after 0.5, 1.5 and 3.5 s have been answered by then if it works.
pub const INVITE_TIMEOUT: Duration = Duration::from_secs(4);

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

/// How a request that begins something is given to the next hops of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// To one, which the policy finds again for what follows: nothing is remembered of calls.
    Found,
    /// To one; its calls are counted.
    Counted,
    /// To all at once (RFC 3261 §16.6): a ring group. Until somebody accepts, a call is nobody's, so that none is
    /// counted.
    Parallel {
        /// How long the hops of one pool ring before those of the next one do.
        ring_time: Duration,
    },
    /// To one after the other, until one accepts: a hunt group.
    Sequential {
        /// How long one hop rings before the next one does.
        ring_time: Duration,
    },
}

/// How the requests of a pool are served: the combinations that there are, and no other can be said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Service {
    /// Members get calls without a transaction, and the requests of a dialog go to its member. Calls are counted.
    #[default]
    Balance,
    /// The same with a transaction for each request.
    BalanceTransactions,
    /// Next hops, found again by their policy, get requests without a transaction.
    Relay {
        /// Whether this process stays on the way of dialogs (RFC 3261 §16.6 step 4).
        record_route: bool,
    },
    /// Next hops get requests with a transaction each.
    Proxy {
        /// To which of them.
        spread: Spread,
        /// Whether this process stays on the way of dialogs. Where it does not, it sees no call end.
        record_route: bool,
    },
    /// Next hops get requests with a transaction each, and the state of each call is kept, from its INVITE to its
    /// BYE.
    Calls(Spread),
    /// Next hops, found again by their policy, get requests with a transaction or without: one proxy of a chain keeps
    /// the transactions of each call.
    Distribute {
        /// Whether this process stays on the way of dialogs that it keeps no transactions of.
        record_route: bool,
    },
}

/// Keys of a pool that do not go together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoService;

impl Service {
    /// Next hops, each found again by its policy, with a transaction for each request.
    pub const HOPS: Self = Self::Proxy { spread: Spread::Found, record_route: true };

    /// The service that these keys of a pool ask for together. Whether calls are counted, follows from policy and
    /// members: [`found_again`](Self::found_again).
    ///
    /// # Errors
    /// When they do not go together: only next hops (`dialogs` by Route) are forked to, kept calls of, and passed by
    /// without Record-Route, and only with transactions a request forks.
    pub fn of(
        (forward, dialogs): (Forward, Dialogs),
        (fork, ring_time): (Fork, Duration),
        record_route: bool,
    ) -> Result<Self, NoService> {
        let spread = match fork {
            Fork::None => Spread::Counted,
            Fork::Parallel => Spread::Parallel { ring_time },
            Fork::Sequential => Spread::Sequential { ring_time },
        };
        match (dialogs, forward, spread) {
            (Dialogs::Member, Forward::Stateless, Spread::Counted) if record_route => Ok(Self::Balance),
            (Dialogs::Member, Forward::Transaction, Spread::Counted) if record_route => {
                Ok(Self::BalanceTransactions)
            }
            (Dialogs::Route, Forward::Stateless, Spread::Counted) => Ok(Self::Relay { record_route }),
            (Dialogs::Route, Forward::Transaction, spread) => Ok(Self::Proxy { spread, record_route }),
            (Dialogs::Route, Forward::Dialog, spread) if record_route => Ok(Self::Calls(spread)),
            (Dialogs::Route, Forward::Distributed, Spread::Counted) => Ok(Self::Distribute { record_route }),
            _ => Err(NoService),
        }
    }

    fn spread(self) -> Spread {
        match self {
            Self::Balance | Self::BalanceTransactions => Spread::Counted,
            Self::Relay { .. } | Self::Distribute { .. } => Spread::Found,
            Self::Proxy { spread, .. } | Self::Calls(spread) => spread,
        }
    }

    fn with(self, spread: Spread) -> Self {
        match (self, self.spread()) {
            (Self::Proxy { record_route, .. }, Spread::Found | Spread::Counted) => {
                Self::Proxy { spread, record_route }
            }
            (Self::Calls(_), Spread::Found | Spread::Counted) => Self::Calls(spread),
            _ => self,
        }
    }

    /// The same where the policy finds the next hop of a call again, so that nothing need be remembered of calls.
    #[must_use]
    pub fn found_again(self) -> Self {
        self.with(Spread::Found)
    }

    /// The same where calls are counted, as far as they can be.
    #[must_use]
    pub fn counted(self) -> Self {
        self.with(Spread::Counted)
    }

    /// Whether calls are counted: the session store knows them, and members have a load.
    pub fn counts_calls(self) -> bool {
        self.spread() == Spread::Counted
    }

    /// With or without transactions.
    pub fn forward(self) -> Forward {
        match self {
            Self::Balance | Self::Relay { .. } => Forward::Stateless,
            Self::BalanceTransactions | Self::Proxy { .. } => Forward::Transaction,
            Self::Calls(_) => Forward::Dialog,
            Self::Distribute { .. } => Forward::Distributed,
        }
    }

    /// Whether every request that begins something gets a transaction.
    pub fn has_transactions(self) -> bool {
        self.forward().has_transactions()
    }

    /// Where requests within dialogs go.
    pub fn dialogs(self) -> Dialogs {
        match self {
            Self::Balance | Self::BalanceTransactions => Dialogs::Member,
            Self::Relay { .. } | Self::Proxy { .. } | Self::Calls(_) | Self::Distribute { .. } => {
                Dialogs::Route
            }
        }
    }

    /// Whether the members are next hops.
    pub fn has_hops(self) -> bool {
        self.dialogs() == Dialogs::Route
    }

    /// To how many next hops a request goes, and how long each of them, or all together, ring.
    pub fn fork(self) -> (Fork, Duration) {
        match self.spread() {
            Spread::Found | Spread::Counted => (Fork::None, Duration::ZERO),
            Spread::Parallel { ring_time } => (Fork::Parallel, ring_time),
            Spread::Sequential { ring_time } => (Fork::Sequential, ring_time),
        }
    }

    /// Whether this process stays on the way of dialogs (RFC 3261 §16.6 step 4). What goes to members always comes
    /// back here.
    pub fn records_route(self) -> bool {
        match self {
            Self::Balance | Self::BalanceTransactions | Self::Calls(_) => true,
            Self::Relay { record_route }
            | Self::Proxy { record_route, .. }
            | Self::Distribute { record_route } => record_route,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_make_a_service_that_says_them_again_or_none() {
        let (mut services, ring_time) = (0, Duration::from_secs(9));
        for forward in [Forward::Stateless, Forward::Transaction, Forward::Dialog, Forward::Distributed] {
            for dialogs in [Dialogs::Member, Dialogs::Route] {
                for fork in [Fork::None, Fork::Parallel, Fork::Sequential] {
                    for record_route in [false, true] {
                        let time = if fork == Fork::None { Duration::ZERO } else { ring_time };
                        let Ok(service) = Service::of((forward, dialogs), (fork, time), record_route) else {
                            continue;
                        };
                        services += 1;
                        assert_eq!((service.forward(), service.dialogs()), (forward, dialogs));
                        assert_eq!((service.fork(), service.records_route()), ((fork, time), record_route));
                        let may_count = forward.has_transactions() && fork == Fork::None;
                        assert_eq!(service.counted().counts_calls(), may_count || dialogs == Dialogs::Member);
                        assert_eq!(service.found_again().counts_calls(), dialogs == Dialogs::Member);
                    }
                }
            }
        }
        assert_eq!(services, 2 + 2 + 6 + 3 + 2, "members; relay; proxy; calls; distribute");
    }
}
