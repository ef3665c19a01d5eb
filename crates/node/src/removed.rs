//! What a node may have relayed that was taken out and whose calls go on.

use crate::Shard;
use crate::route::{RouteInfo, Target};
use crate::targets::{Refreshed, Side, refreshes_target};
use crate::token::route::Held;
use crate::validate::{Refused, refused};
use balance::{Request, Slot};
use wire::Message;

impl Shard {
    /// A member is trusted: what it sends goes wherever it says. One that was taken out may end what it had begun, and
    /// have requests of its dialogs sent to whom the other party has named, as the token says.
    pub(crate) fn check_removed(
        &mut self,
        slot: Option<Slot>,
        message: &Message<'_>,
        (route, held): (&RouteInfo<'_>, Option<&Held>),
        request: &Request<'_>,
    ) -> Result<(), Refused> {
        let is_member = |slot: Slot| self.balancer.nodes()[slot.index()].member;
        if slot.is_none_or(is_member) || self.balancer.is_open(request) {
            return Ok(());
        }
        let held = held.filter(|held| held.is_senders()).ok_or(refused(403, "Forbidden"))?;
        let target = route.target(message);
        let side = (Side::of(!held.by_initiator), held.by_initiator);
        let asked = Refreshed::new(&self.tokens, message, side, &target, false);
        if self.tokens.leads_to(held, &target) || self.targets.leads_to(asked).is_some() {
            return Ok(());
        }
        Err(refused(403, "Target Is Not Of This Dialog"))
    }

    /// Remembers where the far side of a node's dialog is reached, if a request of it says so: for the time when the node
    /// is no member any more.
    pub(crate) fn note_target(&mut self, message: &Message<'_>, held: &Held) {
        // Behind another proxy it is reached by the route set, which no refresh changes.
        if !message.method().is_some_and(refreshes_target) || message.has_lower_vias() {
            return;
        }
        let Some(target) = message.contact().map(Target::of) else { return };
        // Where the token says that the initiator holds as well: nothing to remember, unless it has been elsewhere.
        let is_home = !held.is_senders() && self.tokens.leads_to(held, &target);
        if is_home && self.targets.is_empty() {
            return;
        }
        let side = (Side::of(held.by_initiator), held.by_initiator);
        let refreshed = Refreshed::new(&self.tokens, message, side, &target, false);
        if !is_home || self.targets.knows(refreshed) {
            self.targets.note(refreshed);
        }
    }
}
