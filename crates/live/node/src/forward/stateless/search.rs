//! CANCELs and ACKs whose INVITE nobody here knows: they go to every member, within bounds.

use super::memory::Stateless;
use super::searches::{LENGTH_MAX, Search, source_of};
use super::send::send_to;
use crate::admission::Ticket;
use crate::decide::destination::Destination;
use crate::outcome::counters::Drop;
use crate::outcome::rejection::{Refused, refused};
use crate::read::arrival::Arrival;
use crate::step::Step;
use balance::{CallKey, Request, Slot};
use wire::Method;

impl Stateless {
    /// RFC 3261 §16.10: a CANCEL that nothing is known about MUST go on, and where it went only its member knows; so
    /// does an ACK to a failure. Whoever begins none of this must not have the members flooded: what is above the
    /// bounds is not searched for.
    pub(crate) fn search(
        &mut self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        ticket: &Ticket,
    ) -> Result<(), Refused> {
        let Request { key: call, cseq, branch, method, .. } = destination.request;
        // A member that is only believed dead may have the INVITE: it is asked and waited for as well.
        let nodes = step.balancer.nodes().iter().enumerate().filter(|(_, node)| node.member);
        let (slots, asked): (Vec<_>, Vec<_>) =
            nodes.map(|(index, node)| (Slot(index as u16), node.id)).unzip();
        if asked.is_empty() {
            return Err(refused(481, "Call/Transaction Does Not Exist"));
        }
        // Keyed as calls are, so that nobody can choose whom he meets in a bucket.
        let CallKey(source) = step.site.tokens.call_key(&source_of(arrival.flow.peer));
        let settings = step.balancer.settings();
        let invites_last = settings.invite_timeout + settings.transaction_timeout;
        let may = arrival.message.bytes().len() <= LENGTH_MAX
            && self.search_limits.take(step.site.now, source as u64, asked.len() as u32, invites_last);
        if !may {
            if method == Method::Cancel {
                return Err(refused(481, "Unknown INVITE Not Searched For"));
            }
            step.site.discard(Drop::SearchLimit);
            return Ok(());
        }
        for slot in slots {
            send_to(step, arrival, destination, slot, true, ticket);
        }
        if method == Method::Cancel {
            self.searches.asked(Search { call, cseq, branch }, asked);
        }
        Ok(())
    }
}
