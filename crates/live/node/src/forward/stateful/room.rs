//! Is there room for one more transaction, and who may have of the reserve?

use super::limits::{LONGEST_PART, with_reserve};
use super::transactions::Stateful;
use crate::outcome::rejection::{Refused, refused};
use crate::site::Site;
use base::Instant;
use core::time::Duration;
use wire::{Message, Method};

/// Where a request of this length finds no room, the proxy is full. Most are shorter: RFC 3261 §18.1.1 has longer
/// ones go by another transport where nothing is known of the path's MTU.
const USUAL_LENGTH: usize = 1_300;

/// RFC 3261 §21.5.4. A third of the time that ended transactions are kept for: many have gone by then.
const FULL: Refused = Refused { retry_after: Some(10), ..refused(503, "Too Many Transactions") };

/// Without Retry-After, which would keep the previous hop from sending short requests as well (RFC 3261 §21.5.4).
const TOO_LONG: Refused = refused(503, "Too Long For The Memory Left");

/// Of the reserve, how many requests a call may begin within [`RESERVED_FOR`], or who has one call could fill it:
/// enough for the BYE, a change of the media before it, and a repetition of each elsewhere.
const RESERVED: u8 = 4;

/// As long as a transaction lasts that was answered at once.
const RESERVED_FOR: Duration = Duration::from_secs(32);

impl Stateful {
    /// New calls are refused early where there is no room. Requests of a dialog whose token holds have a reserve, so
    /// that calls can end.
    pub(crate) fn check_limit(
        &mut self,
        site: &Site,
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
            longest if length <= longest && self.takes_of_reserve(site, message.call_id()) => Ok(()),
            longest if longest >= USUAL_LENGTH && length > longest => Err(TOO_LONG),
            _ => Err(FULL),
        }
    }

    /// Whether there is room for a new request.
    pub(crate) fn has_room(&self, message: &Message<'_>) -> bool {
        message.bytes().len() <= self.longest(false)
    }

    /// Whether there is room for the dialogs of the call that a request may begin.
    pub(crate) fn has_room_for_call(&self, site: &Site, message: &Message<'_>) -> bool {
        let dialogs = self.dialogs.as_ref().filter(|_| message.method() == Some(Method::Invite));
        dialogs.is_none_or(|dialogs| dialogs.has_room(site, message))
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
    fn takes_of_reserve(&mut self, site: &Site, call_id: &[u8]) -> bool {
        let (call, now) = (site.tokens.call_key(call_id), site.now);
        let is_young = |&&(since, _): &&(Instant, u8)| now.saturating_since(since) < RESERVED_FOR;
        let (since, begun) = self.reserved.get(&call).filter(is_young).copied().unwrap_or((now, 0));
        self.reserved.insert(call, (since, begun.saturating_add(1)));
        begun < RESERVED
    }
}
