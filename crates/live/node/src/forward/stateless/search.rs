//! CANCELs and ACKs of an unknown INVITE, which go to every member, within limits.

use super::memory::Stateless;
use super::searches::{LENGTH_MAX, Search, source_of};
use super::send::send_to;
use crate::admission::Ticket;
use crate::decide::destination::Destination;
use crate::outcome::counters::Drop;
use crate::outcome::rejection::{Refused, refused};
use crate::read::arrival::Arrival;
use crate::step::Step;
use balance::{CallKey, RequestFacts, Slot};
use wire::Method;

impl Stateless {
    /// Sends a request to every member. RFC 3261 §16.10: a CANCEL without a known INVITE MUST be forwarded, and only
    /// the member with the INVITE knows the INVITE. The same holds for an ACK to a failure. A request above the limits
    /// is not sent, so that no sender can flood the members.
    pub(crate) fn search(
        &mut self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        ticket: &Ticket,
    ) -> Result<(), Refused> {
        let RequestFacts { key: call, cseq, branch, method, .. } = destination.request;
        // A member that is considered dead may have the INVITE, so it gets the request as well, and its response is
        // awaited.
        let nodes = step.balancer.nodes().iter().enumerate().filter(|(_, node)| node.member);
        let (slots, asked): (Vec<_>, Vec<_>) =
            nodes.map(|(index, node)| (Slot(index as u16), node.id)).unzip();
        if asked.is_empty() {
            return Err(refused(481, "Call/Transaction Does Not Exist"));
        }
        // The source is hashed like a Call-ID under a secret, so that no sender can choose its bucket.
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
            self.searches.wait_for(Search { call, cseq, branch }, asked);
        }
        Ok(())
    }
}
