use crate::proxy::ProxyShard;
use crate::{Counters, Event, Input, Name, Resolved, Settings, Shard, Tokens, Topology};
use balance::CallKey;
use base::{Instant, Ledger, Outbox};
use std::sync::Arc;

/// What a shard is: the one place where the roles are told apart by whoever runs them.
pub enum Role {
    /// A balancer in front of a pool.
    Balancer(Box<Shard>),
    /// A transaction-stateful proxy.
    Proxy(Box<ProxyShard>),
}

impl Role {
    /// One bounded step; all its effects are in `out` when it returns.
    pub fn handle(&mut self, now: Instant, input: Input<'_>, out: &mut Outbox<Event>) {
        match self {
            Self::Balancer(shard) => shard.handle(now, input, out),
            Self::Proxy(shard) => shard.handle(now, input, out),
        }
    }

    /// Takes the answer to [`Event::LookUp`].
    pub fn learn(&mut self, now: Instant, name: &Name, answer: &Resolved) {
        match self {
            Self::Balancer(shard) => shard.learn(now, name, answer),
            Self::Proxy(shard) => shard.learn(now, name, answer),
        }
    }

    /// When [`Input::Timer`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Balancer(shard) => shard.deadline(),
            Self::Proxy(shard) => shard.deadline(),
        }
    }

    /// Takes over addresses.
    pub fn set_topology(&mut self, topology: Arc<Topology>) {
        match self {
            Self::Balancer(shard) => shard.set_topology(topology),
            Self::Proxy(shard) => shard.set_topology(topology),
        }
    }

    /// Changes the behaviour.
    pub fn set_settings(&mut self, settings: Settings) {
        match self {
            Self::Balancer(shard) => shard.set_settings(settings),
            Self::Proxy(shard) => shard.set_settings(settings),
        }
    }

    /// Changes the secrets of new tokens.
    pub fn set_tokens(&mut self, tokens: &Tokens) {
        match self {
            Self::Balancer(shard) => shard.set_tokens(tokens),
            Self::Proxy(shard) => shard.set_tokens(tokens),
        }
    }

    /// The calls and transactions that are kept here, some more than once.
    pub fn calls(&self, mut visit: impl FnMut(CallKey)) {
        match self {
            Self::Balancer(shard) => {
                shard.balancer().sessions(0, usize::MAX, |session| visit(session.key));
            }
            Self::Proxy(shard) => shard.calls().for_each(visit),
        }
    }

    /// Whether a proxy knows nothing of what this answers, or says of a request. A balancer never does: it keeps none.
    pub fn is_stray(&self, bytes: &[u8]) -> bool {
        matches!(self, Self::Proxy(shard) if !shard.expects(bytes))
    }

    /// The tokens in use: by their call keys the shards share the calls.
    pub fn tokens(&self) -> &Tokens {
        match self {
            Self::Balancer(shard) => shard.tokens(),
            Self::Proxy(shard) => shard.tokens(),
        }
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        match self {
            Self::Balancer(shard) => shard.counters().clone(),
            Self::Proxy(shard) => shard.counters(),
        }
    }

    /// What it cost so far.
    pub fn ledger(&self) -> Ledger {
        match self {
            Self::Balancer(shard) => *shard.ledger(),
            Self::Proxy(shard) => shard.ledger(),
        }
    }

    /// The balancer, if it is one.
    pub fn balancer(&self) -> Option<&Shard> {
        match self {
            Self::Balancer(shard) => Some(shard),
            Self::Proxy(_) => None,
        }
    }

    /// The balancer, if it is one, to be set up.
    pub fn balancer_mut(&mut self) -> Option<&mut Shard> {
        match self {
            Self::Balancer(shard) => Some(shard),
            Self::Proxy(_) => None,
        }
    }

    /// The proxy, if it is one.
    pub fn proxy_mut(&mut self) -> Option<&mut ProxyShard> {
        match self {
            Self::Balancer(_) => None,
            Self::Proxy(shard) => Some(shard),
        }
    }
}
