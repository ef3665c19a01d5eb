//! Requests without a transaction whose connection failed (RFC 3261 §16.9).

use super::memory::Stateless;
use super::response::{WayBack, was_searched};
use crate::outcome::failure::FailureCause;
use crate::site::reply::{note_response, own_tag};
use crate::step::Step;
use crate::token::branch::BranchKind;
use crate::trace::failed::TriedResult;
use base::Flow;
use wire::build::ResponseBuilder;
use wire::{Message, Method};

impl Stateless {
    /// Answers a request that began with `quoted` and was lost with its connection. A sender over a stream retransmits
    /// nothing, so it at once gets the response for an unreachable next hop: 500 in place of 503 (§16.7 step 6). For a
    /// client it is 430 (RFC 5626 §5.3.1), for a user 480 (RFC 5626 §11.5).
    pub(crate) fn failed(&mut self, step: &mut Step<'_>, to: Flow, quoted: &[u8]) {
        let Ok(request) = wire::scan(quoted) else { return };
        let Some(port) = step.site.topology.ports.get(to.listener) else { return };
        if request.status().is_some() || request.method() == Some(Method::Ack) || was_searched(&request) {
            return;
        }
        // Outside dialogs, a request without a transaction that went over a client's connection was for a user.
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
            step.site.tell(to, Some(&response), step.out);
            step.site.counters.replied(status, reason);
            let cause = FailureCause::Refused { status, reason };
            step.site.failed_there(&request, cause, to, TriedResult::Unreachable, way);
            step.site.edits.clear();
            step.site.edits.pop_via(&response);
            step.site.send_edited(&response, way, step.out);
        }
    }

    /// Returns the flow of the responses to a request, if its branch is of this proxy. Reports to the balancer that the
    /// request has ended.
    fn way_of_failure(&mut self, step: &mut Step<'_>, response: &Message<'_>) -> Option<Flow> {
        let back = WayBack::find(step.site, response).ok()?;
        if let BranchKind::Pool { node, direction } = back.branch.kind {
            let failed_response = back.response(step.site, response, direction);
            self.note(step, node, &failed_response);
        }
        back.way
    }
}
