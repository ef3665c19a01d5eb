//! Room for further transactions, and the use of the reserve.

use super::limits::{LONGEST_PART, with_reserve};
use super::transactions::Stateful;
use crate::outcome::rejection::{Refused, refused};
use crate::site::Site;
use base::Instant;
use core::time::Duration;
use wire::{Message, Method};

/// The proxy counts as full if it has no room for a request of this length. Most requests are shorter: without a known
/// path MTU, RFC 3261 §18.1.1 requires another transport for longer requests.
const USUAL_LENGTH: usize = 1_300;

/// Refusal when the proxy is full (RFC 3261 §21.5.4). Its Retry-After is about a third of the time for which ended
/// transactions are kept, so many of them are gone by then.
const FULL: Refused = Refused { retry_after: Some(10), ..refused(503, "Too Many Transactions") };

/// Refusal of a request that is too long for the remaining memory. It has no Retry-After, which would keep the previous
/// hop from sending short requests as well (RFC 3261 §21.5.4).
const TOO_LONG: Refused = refused(503, "Too Long For The Memory Left");

/// Requests that one call may begin from the reserve within [`RESERVED_FOR`], so that it cannot exhaust the reserve.
/// They are enough for the BYE, a change of the media before it, and one repetition of each to another target.
const RESERVED: u8 = 4;

/// Duration of a transaction that is answered at once.
const RESERVED_FOR: Duration = Duration::from_secs(32);

impl Stateful {
    /// Refuses new calls early if there is no room. For requests of a dialog with a valid token there is a reserve, so
    /// that calls can end.
    pub(crate) fn check_limit(
        &mut self,
        site: &Site,
        message: &Message<'_>,
        within: bool,
    ) -> Result<(), Refused> {
        // An ACK takes no room, and a CANCEL frees some.
        if matches!(message.method(), Some(Method::Ack | Method::Cancel)) {
            return Ok(());
        }
        let length = message.bytes().len();
        if length <= self.longest(false) {
            return Ok(());
        }
        match self.longest(within) {
            longest if length <= longest && self.may_use_reserve(site, message.call_id()) => Ok(()),
            longest if longest >= USUAL_LENGTH && length > longest => Err(TOO_LONG),
            _ => Err(FULL),
        }
    }

    pub(crate) fn has_room(&self, message: &Message<'_>) -> bool {
        message.bytes().len() <= self.longest(false)
    }

    /// Returns whether there is room for the dialogs of the call that a request may begin.
    pub(crate) fn has_room_for_call(&self, site: &Site, message: &Message<'_>) -> bool {
        let dialogs = self.dialogs.as_ref().filter(|_| message.method() == Some(Method::Invite));
        dialogs.is_none_or(|dialogs| dialogs.has_room(site, message))
    }

    /// Returns the maximum length of a request for which there is room.
    fn longest(&self, within: bool) -> usize {
        let most = |limit| if within { with_reserve(limit) } else { limit };
        if self.proxy.transactions() >= most(self.limits.transactions) {
            return 0;
        }
        most(self.limits.memory).saturating_sub(self.proxy.memory()) / LONGEST_PART
    }

    /// Returns whether this call may begin another request from the reserve.
    fn may_use_reserve(&mut self, site: &Site, call_id: &[u8]) -> bool {
        let (call, now) = (site.tokens.call_key(call_id), site.now);
        let is_young = |&&(since, _): &&(Instant, u8)| now.saturating_since(since) < RESERVED_FOR;
        let (since, taken) = self.reserved.get(&call).filter(is_young).copied().unwrap_or((now, 0));
        self.reserved.insert(call, (since, taken.saturating_add(1)));
        taken < RESERVED
    }
}
