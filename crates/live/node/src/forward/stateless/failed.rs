//! Requests without a transaction whose connection failed (RFC 3261 §16.9).

use super::memory::Stateless;
use super::response::{WayBack, was_searched};
use crate::site::reply::{note_response, own_tag};
use crate::step::Step;
use crate::token::branch::BranchKind;
use base::Flow;
use wire::build::ResponseBuilder;
use wire::{Message, Method};

impl Stateless {
    /// Answers a request that began with `quoted` and was lost with its connection. A sender over a stream retransmits
    /// nothing, so it gets the response of an unreachable next hop at once (§16.7 step 6: 500 in place of 503; RFC 5626
    /// §5.3.1: 430 for a client, or §11.5: 480 for a user).
    pub(crate) fn failed(&mut self, step: &mut Step<'_>, to: Flow, quoted: &[u8]) {
        let Ok(request) = wire::scan(quoted) else { return };
        let Some(port) = step.site.topology.ports.get(to.listener) else { return };
        if request.status().is_some() || request.method() == Some(Method::Ack) || was_searched(&request) {
            return;
        }
        // Outside of dialogs, only users are reached by their connections without a transaction.
        let (status, reason) = match (to.connection, request.to_tag()) {
            (Some(_), Some(_)) => (430, "Flow Failed"),
            (Some(_), None) => (480, "Temporarily Unavailable"),
            (None, _) => (500, "Next Hop Unreachable"),
        };
        let (mut bytes, tag) = (Vec::new(), own_tag(step.site, &request));
        ResponseBuilder::reply(&mut bytes, &request, port.advertised, status, reason, &tag).finish(b"");
        let Ok(response) = wire::scan(&bytes) else { return };
        if let Some(way) = self.way_of_failure(step, &response) {
            note_response(step.site, &response);
            step.site.counters.replied(status, reason);
            step.site.edits.clear();
            step.site.edits.pop_via(&response);
            step.site.send_edited(&response, way, step.out);
        }
    }

    /// Returns the flow of the responses to a request, if its branch is this proxy's. Tells the balancer that the
    /// request has ended.
    fn way_of_failure(&mut self, step: &mut Step<'_>, response: &Message<'_>) -> Option<Flow> {
        let back = WayBack::find(step.site, response).ok()?;
        if let BranchKind::Pool { node, direction } = back.branch.kind {
            let told = back.response(step.site, response, direction);
            self.note(step, node, &told);
        }
        back.way
    }
}
