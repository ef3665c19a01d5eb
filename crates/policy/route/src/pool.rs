//! Forwarding mode of a pool: with or without transactions, forking, and the path of requests within dialogs.

use core::time::Duration;

/// Mode in which a request to a pool is forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Forward {
    /// As a stateless proxy (RFC 3261 §16.11): UAC and UAS retransmit lost messages.
    Stateless,
    /// As a transaction-stateful proxy (RFC 3261 §16): sends 100 at once, retransmits, handles CANCEL, and tries
    /// another member when one fails.
    #[default]
    Transaction,
    /// As a transaction-stateful proxy that also keeps the state of dialogs, so that it can record the end of each
    /// call. Only to next hops.
    Dialog,
    /// With a transaction for some requests and without one for others, so that one proxy of a chain keeps the
    /// transactions of each call. Only to next hops.
    Distributed,
}

impl Forward {
    /// Whether every request outside dialogs gets a transaction.
    pub fn has_transactions(self) -> bool {
        matches!(self, Self::Transaction | Self::Dialog)
    }
}

/// Destination of requests within the dialogs of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Dialogs {
    /// The member with which the dialog started.
    #[default]
    Member,
    /// The destination in Route and Request-URI: members are next hops, which need not stay on the path.
    Route,
}

/// Default time for which a group of targets rings before the next one is tried: five or six rings.
pub const RING_TIME: Duration = Duration::from_secs(20);

/// Default time without any response after which an INVITE goes to another member. By then a working member has
/// answered the retransmissions sent after 0.5, 1.5 and 3.5 s.
pub const INVITE_TIMEOUT: Duration = Duration::from_secs(4);

/// Number of members of a pool that get a request (RFC 3261 §16.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fork {
    /// One member. Another member gets the request only if the first one fails.
    #[default]
    None,
    /// All members at once: a ring group.
    Parallel,
    /// One member after the other, until one accepts: a hunt group.
    Sequential,
}

/// Distribution of new requests to the next hops of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// To one hop, which the policy finds again for later requests. No call is recorded.
    Found,
    /// To one hop; its calls are counted.
    Counted,
    /// To all hops at once (RFC 3261 §16.6): a ring group. A call has no hop until one accepts, so it is not counted.
    Parallel {
        /// Time for which the hops of one pool ring before the next pool is tried.
        ring_time: Duration,
    },
    /// To one hop after the other, until one accepts: a hunt group.
    Sequential {
        /// Time for which one hop rings before the next is tried.
        ring_time: Duration,
    },
}

/// Mode of service of a pool. Only valid combinations can be represented.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Service {
    /// Members get calls without a transaction, and requests within a dialog go to the dialog's member. Calls are
    /// counted.
    #[default]
    Balance,
    /// Like [`Balance`](Self::Balance), with a transaction for each request.
    BalanceTransactions,
    /// Next hops, found again by their policy, get requests without a transaction.
    Relay {
        /// Whether this process stays on the path of dialogs (RFC 3261 §16.6 step 4).
        record_route: bool,
    },
    /// Next hops get requests with a transaction each.
    Proxy {
        /// Distribution to the hops.
        spread: Spread,
        /// Whether this process stays on the path of dialogs. If not, it does not see the ends of calls.
        record_route: bool,
    },
    /// Next hops get requests with a transaction each. The state of each call is kept from its INVITE to its BYE.
    Calls(Spread),
    /// Next hops, found again by their policy, get requests with or without a transaction: one proxy of a chain keeps
    /// the transactions of each call.
    Distribute {
        /// Whether this process stays on the path of dialogs for which it keeps no transactions.
        record_route: bool,
    },
}

/// Error: keys of a pool that cannot be combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoService;

impl Service {
    /// Next hops, each found again by its policy, with a transaction for each request.
    pub const HOPS: Self = Self::Proxy { spread: Spread::Found, record_route: true };

    /// Service for these keys of a pool. Policy and members decide whether calls are counted; see
    /// [`found_again`](Self::found_again).
    ///
    /// # Errors
    /// If the keys cannot be combined. Forking, call state and paths without Record-Route need next hops (`dialogs` by
    /// Route), and forking needs transactions.
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

    /// Same service for a policy that finds the next hop of a call again, so that calls need not be recorded.
    #[must_use]
    pub fn found_again(self) -> Self {
        self.with(Spread::Found)
    }

    /// Same service with calls counted, as far as possible.
    #[must_use]
    pub fn counted(self) -> Self {
        self.with(Spread::Counted)
    }

    /// Whether calls are counted: the session store records them, and members have a load.
    pub fn counts_calls(self) -> bool {
        self.spread() == Spread::Counted
    }

    /// Forwarding mode.
    pub fn forward(self) -> Forward {
        match self {
            Self::Balance | Self::Relay { .. } => Forward::Stateless,
            Self::BalanceTransactions | Self::Proxy { .. } => Forward::Transaction,
            Self::Calls(_) => Forward::Dialog,
            Self::Distribute { .. } => Forward::Distributed,
        }
    }

    /// Whether every request outside dialogs gets a transaction.
    pub fn has_transactions(self) -> bool {
        self.forward().has_transactions()
    }

    /// Destination of requests within dialogs.
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

    /// Number of next hops that get a request, and the time for which each of them, or all together, ring.
    pub fn fork(self) -> (Fork, Duration) {
        match self.spread() {
            Spread::Found | Spread::Counted => (Fork::None, Duration::ZERO),
            Spread::Parallel { ring_time } => (Fork::Parallel, ring_time),
            Spread::Sequential { ring_time } => (Fork::Sequential, ring_time),
        }
    }

    /// Whether this process stays on the path of dialogs (RFC 3261 §16.6 step 4). Always true for members that are not
    /// next hops.
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
    fn each_valid_combination_of_keys_is_a_service_and_read_back() {
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
