//! Requests without a transaction that no connection took (RFC 3261 §16.9).

use super::memory::Stateless;
use super::response::{read, was_searched};
use crate::reply::own_tag;
use crate::step::Step;
use crate::token::branch::is_hop_branch;
use base::Flow;
use wire::build::ResponseBuilder;
use wire::{Message, Method};

impl Stateless {
    /// A request that began with `quoted` was lost with its connection. Its sender may have sent it over a stream, and
    /// then sends nothing again: it is told at once, as by a response of the next hop (§16.7 step 6: 500 in place of
    /// 503; RFC 5626 §5.3.1: 430 of a client).
    pub(crate) fn failed(&mut self, step: &mut Step<'_>, to: Flow, quoted: &[u8]) {
        let Ok(request) = wire::scan(quoted) else { return };
        let Some(port) = step.edge.topology.ports.get(to.listener) else { return };
        if request.status().is_some() || request.method() == Some(Method::Ack) || was_searched(&request) {
            return;
        }
        let (status, reason) =
            if to.connection.is_some() { (430, "Flow Failed") } else { (500, "Next Hop Unreachable") };
        let (mut bytes, tag) = (Vec::new(), own_tag(step.edge, &request));
        ResponseBuilder::reply(&mut bytes, &request, port.advertised, status, reason, &tag).finish(b"");
        let Ok(response) = wire::scan(&bytes) else { return };
        if let Some(way) = self.way_of_failure(step, &response) {
            step.edge.note_response(&response);
            step.edge.counters.replied(status, reason);
            step.edge.edits.clear();
            step.edge.edits.pop_via(&response);
            step.edge.send_edited(&response, way, step.out);
        }
    }

    /// The way back of a request, if its branch is ours. The balancer learns that it has ended.
    fn way_of_failure(&mut self, step: &mut Step<'_>, response: &Message<'_>) -> Option<Flow> {
        if response.top_via().branch.is_some_and(is_hop_branch) {
            return step.edge.hop_way_back(response).ok().map(|(_, way)| way);
        }
        let (token, transaction, via, to) = read(step, response).ok()?;
        let mark = step.edge.tokens.mark(&transaction, token.direction, token.routing);
        self.note(step, response, token, mark);
        step.edge.topology.ports.way_back_by(token.asked, &via, to)
    }
}
