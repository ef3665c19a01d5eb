//! How much the transactions may hold, and who may have of the reserve.

use super::Stateful;
use crate::edge::Edge;
use crate::validate::{Refused, refused};
use ::proxy::{MOST_BRANCHES, ProxyTimers};
use base::Instant;
use core::time::Duration;
use wire::{Message, Method};

/// How transactions are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProxySettings {
    /// Timers of the transactions, and Timer C.
    pub timers: ProxyTimers,
    /// What it may hold; beyond it what is new is refused.
    pub limits: ProxyLimits,
}

/// What a proxy may hold, or one of its shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProxyLimits {
    /// Most transactions at a time.
    pub transactions: usize,
    /// Most bytes of memory for transactions and their messages.
    pub memory: usize,
    /// Most branches of a request (RFC 3261 §16.6), from 1 to 15.
    pub branches: u8,
}

impl Default for ProxyLimits {
    /// Those of a configuration that says nothing of them.
    fn default() -> Self {
        Self { transactions: 1_000_000, memory: 256 << 20, branches: MOST_BRANCHES }
    }
}

impl ProxyLimits {
    /// The limits of one of so many shards.
    #[must_use]
    pub fn share(self, shards: usize) -> Self {
        let share = |all: usize| all.div_ceil(shards.max(1));
        Self {
            transactions: share(self.transactions),
            memory: share(self.memory).max(SHARD_MEMORY_MIN.min(self.memory)),
            ..self
        }
    }
}

/// Of the limits, what is kept beyond them for requests within dialogs, so that calls can end.
const RESERVE: usize = 4;

pub(super) fn with_reserve(limit: usize) -> usize {
    limit.saturating_add(limit / RESERVE)
}

/// A request may have this part of the memory that is left. So long requests are refused while there is room for many short
/// ones: whoever floods the proxy with long ones does not shut out calls of the usual length.
const LONGEST_PART: usize = 256;

/// Least memory of a shard, so that it takes a request of any length while it is empty.
const SHARD_MEMORY_MIN: usize = LONGEST_PART << 16;

/// Where a request of this length finds no room, the proxy is full. Most are shorter: RFC 3261 §18.1.1 has longer ones go by
/// another transport where nothing is known of the path's MTU.
const USUAL_LENGTH: usize = 1_300;

/// RFC 3261 §21.5.4. A third of the time that ended transactions are kept for: many have gone by then.
const FULL: Refused = Refused { retry_after: Some(10), ..refused(503, "Too Many Transactions") };

/// Without Retry-After, which would keep the previous hop from sending short requests as well (RFC 3261 §21.5.4).
const TOO_LONG: Refused = refused(503, "Too Long For The Memory Left");

/// Of the reserve, how many requests a call may begin within [`RESERVED_FOR`], or who has one call could fill it: enough for
/// the BYE, a change of the media before it, and a repetition of each elsewhere.
const RESERVED: u8 = 4;

/// As long as a transaction lasts that was answered at once.
const RESERVED_FOR: Duration = Duration::from_secs(32);

/// Calls that the reserve is counted for. To have them forgotten takes as many other calls.
pub(super) const RESERVED_CALLS: usize = 65_536;

impl Stateful {
    /// New calls are refused early where there is no room. Requests of a dialog whose token holds have a reserve, so that calls
    /// can end.
    pub(super) fn check_limit(
        &mut self,
        edge: &mut Edge,
        message: &Message<'_>,
        within: bool,
    ) -> Result<(), Refused> {
        // An ACK takes no room, and a CANCEL makes some.
        if matches!(message.method(), Some(Method::Ack | Method::Cancel)) {
            return Ok(());
        }
        let length = message.bytes().len();
        if length <= self.longest(false) {
            return Ok(());
        }
        match self.longest(within) {
            longest if length <= longest && self.takes_of_reserve(edge, message.call_id()) => Ok(()),
            longest if longest >= USUAL_LENGTH && length > longest => Err(TOO_LONG),
            _ => Err(FULL),
        }
    }

    /// Whether there is room for a new request.
    pub(crate) fn has_room(&self, message: &Message<'_>) -> bool {
        message.bytes().len() <= self.longest(false)
    }

    /// How long a request may be that there is room for.
    fn longest(&self, within: bool) -> usize {
        let most = |limit| if within { with_reserve(limit) } else { limit };
        if self.proxy.transactions() >= most(self.limits.transactions) {
            return 0;
        }
        most(self.limits.memory).saturating_sub(self.proxy.memory()) / LONGEST_PART
    }

    /// Whether this call may begin one more request out of the reserve.
    fn takes_of_reserve(&mut self, edge: &mut Edge, call_id: &[u8]) -> bool {
        let (call, now) = (edge.tokens.call_key(call_id), edge.now);
        let is_young = |&&(since, _): &&(Instant, u8)| now.saturating_since(since) < RESERVED_FOR;
        let (since, begun) = self.reserved.get(&call).filter(is_young).copied().unwrap_or((now, 0));
        self.reserved.insert(call, (since, begun.saturating_add(1)));
        begun < RESERVED
    }
}
