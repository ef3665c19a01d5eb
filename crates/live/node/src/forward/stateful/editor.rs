//! Messages as bytes: how the proxy's core reads, makes and edits them.

use super::assigned::Assigned;
use super::dialogs::bye;
use super::form::{Editor, Wire};
use super::received::{Received, TargetSet};
use crate::client_flow::ClientFlow;
use crate::counters::Drop;
use crate::failure::{Failure, FailureCause};
use crate::forward::onward::{Onward, Refresh};
use crate::names::hop_name;
use crate::ports::Ingress;
use crate::record::hand_over;
use crate::remote_targets::{Side, TargetRefresh, refreshes_target};
use crate::reply::{self, own_tag};
use crate::target::Target;
use crate::token::branch::{HopBranch, Transaction, peek_ingress};
use crate::token::owner::TokenOwner;
use crate::validate::LARGEST;
use ::dialog::{HangUp, Side as Party};
use ::proxy::{Answered, Medium, NewBranch};
use balance::{CallKey, Request};
use base::Flow;
use std::sync::Arc;
use transaction::{Bytes, Keys, Packet, TransactionKey, TransportKind, UNLIMITED_REPEATS};
use wire::{Message, Method, request_source_target};

impl Editor<'_> {
    /// What a response tells of where the parties are reached.
    fn refresh(&mut self, refresh: &mut Refresh, response: &Message<'_>, led: Option<Target<'_>>) {
        let accepted = response.status().is_some_and(|status| (200..300).contains(&status));
        if let Some(target) = led {
            // The token leads there. A caller keeps the route set of any of the responses.
            let before = refresh.receiver.replace(self.edge.tokens.target_hash(&target, false));
            refresh.has_varied |= before.is_some() && before != refresh.receiver;
            if accepted && refresh.has_varied {
                self.moved(response, true, &target);
            }
        } else if accepted && refreshes_target(response.cseq().method) {
            if let Some(sender) = refresh.sender {
                self.edge.targets.note(sender);
            }
            if let (Some(before), Some(uri)) = (refresh.receiver, response.contact()) {
                let target = Target::of(uri);
                if refresh.has_varied || before != self.edge.tokens.target_hash(&target, false) {
                    self.look_up_later(&target);
                    self.moved(response, refresh.by_initiator, &target);
                }
            }
        }
    }

    /// The ACK to the response in hand goes there.
    fn look_up_later(&mut self, target: &Target<'_>) {
        if let Target::Name(name) = *target {
            self.notes.look_up = Some(hop_name(name));
        }
    }

    /// The sender of this response is reached elsewhere than before. `by_initiator`: the initiator of the dialog sent
    /// the request.
    fn moved(&mut self, response: &Message<'_>, by_initiator: bool, target: &Target<'_>) {
        let (source, side) = (self.notes.source, Side::of(!by_initiator));
        let flow = ClientFlow::of(source, &self.edge.topology);
        let refreshed = TargetRefresh::new(&self.edge.tokens, response, side, by_initiator, target);
        self.edge.targets.note(refreshed.seen(target.is_at(source.peer), flow));
    }
}

impl Editor<'_> {
    /// Our own BYE to a side of a dialog.
    pub(super) fn bye(
        &mut self,
        hang_up: &HangUp,
        to: Party,
        hop: Flow,
        serial: u64,
    ) -> (Packet, TransactionKey) {
        let mut via = self.edge.topology.ports[hop.listener].via.clone().into_bytes();
        let start = via.len();
        self.edge.tokens.write_proxy_branch(Ingress::by(hop), 0, serial, &mut via);
        let key = self.keys.client(&via[start..], Method::Bye, b"");
        let mut bytes = Vec::with_capacity(512);
        bye(hang_up, to, &via, &mut bytes);
        (Packet::new(bytes, hop), key)
    }
}

impl<'a> Editor<'a> {
    /// The request in hand, if it is this one.
    fn in_hand(&self, request: &Received) -> Option<&'a Message<'a>> {
        self.in_hand.filter(|message| *message.bytes() == *request.bytes)
    }

    /// The most bytes of a response of our own.
    fn longest(&self, request: &Received, status: u16) -> usize {
        let length = request.bytes.len();
        let usual = reply::longest(length);
        let allowance = || self.edge.allowance(request.flow, request.back, request.is_genuine, length);
        if status == 100 { allowance().most_of_trying(usual) } else { usual }
    }
}

impl Medium<Wire> for Editor<'_> {
    fn call(&self, request: &Received) -> CallKey {
        request.call
    }

    fn transport(&self, _: &Received, _: Flow, message: &Packet) -> TransportKind {
        message.flow.transport.into()
    }

    /// RFC 3261 §16.6.
    fn forward(
        &mut self,
        request: &Received,
        hop: Flow,
        branch: Option<NewBranch>,
    ) -> (Packet, TransactionKey) {
        let read;
        let message = if let Some(message) = self.in_hand(request) {
            message
        } else {
            read = request.message();
            &read
        };
        let (rule, contact) = match &request.way {
            TargetSet::Uri(..) => (None, None),
            TargetSet::Pool(assigned) => (assigned.rule.as_ref(), None),
            TargetSet::Contacts(located) => (located.rule.as_ref(), Some(located.contact())),
        };
        let onward = Onward {
            from: request.flow,
            hop,
            element: request.element(),
            rule: rule.map(|(routes, rule)| routes.rule(*rule)),
            record_route: request.stay(),
            contact,
            breadth: branch.map(|branch| branch.breadth),
            keeps: request.begins().then_some(true),
            proof: request.proof,
        };
        let (routing, asked) = (request.routing, Ingress::by(request.flow));
        let (receiver, by_initiator) = (0, request.refresh.by_initiator);
        let (way, branch_at) = self.edge.edit_onward(message, &onward, |tokens, via| {
            if let Some(branch) = branch {
                tokens.write_proxy_branch(asked, routing, branch.serial, via);
            } else {
                let from = onward.from.peer;
                let target = request_source_target(message.top_via(), from).unwrap_or(from);
                let of = Transaction::new(message, message.top_via(), target);
                let branch = HopBranch { asked, routing, receiver, by_initiator };
                tokens.write_hop_branch(branch, &of, via);
            }
        });
        if let Some(tracked) = &request.tracked {
            tracked.edit_request(message, &mut self.edge.edits);
        }
        let name = message.cseq().method_name.of(message.bytes());
        let key = self.keys.client(&self.edge.scratch[branch_at], message.cseq().method, name);
        let bytes = Bytes::Edited(Arc::clone(&request.bytes), self.edge.edits.patch(message));
        (Packet::new(bytes, way), key)
    }

    /// §16.7 steps 3, 8 and 9, §18.2.2: to where the request came from. The responder may have written another Via
    /// below ours.
    fn relay(&mut self, answered: Answered<'_, Received>, response: &Message<'_>) -> Option<Packet> {
        response.second_via()?;
        let (request, flow) = match answered {
            Answered::Waiting(request) => {
                let back = request.back;
                (Some(request), back)
            }
            Answered::Final(back) => (None, back),
        };
        self.edge.edits.clear();
        self.edge.edits.pop_via(response);
        self.edge.drop_identity(response, self.notes.source);
        self.edge.tell_notice(response, flow.peer);
        let led = hand_over(self.edge, response, self.notes.source, TokenOwner::Proxy);
        if let Some(target) = &led {
            self.look_up_later(target);
        }
        let (source, dialogs) = (self.notes.source, self.dialogs.as_deref_mut());
        let mut asked = None;
        match (request, dialogs) {
            (Some(request), dialogs) => {
                if let (Some(tracked), Some(dialogs)) = (&mut request.tracked, dialogs) {
                    dialogs.relayed(self.edge, tracked, (&request.bytes, request.flow), response, source);
                }
                self.refresh(&mut request.refresh, response, led);
                asked = Some(&*request);
            }
            (None, Some(dialogs)) => dialogs.relayed_late(self.edge, response, source),
            (None, None) => {}
        }
        let mut bytes = Vec::with_capacity(response.bytes().len());
        self.edge.edits.render(response, &mut bytes);
        self.edge.gate.overload.tell(&mut bytes, 0, flow);
        let status = response.status().unwrap_or_default();
        if let Some(request) = asked.filter(|_| (200..300).contains(&status)) {
            request.end(false);
        }
        let repeats = asked.map_or(UNLIMITED_REPEATS, |of| of.tell(self.edge, flow, status, bytes.len()));
        Some(Packet { repeats, ..Packet::new(bytes, flow) })
    }

    /// RFC 5393 §5.3.2.
    fn breadth(&self, request: &Received) -> u8 {
        request.breadth
    }

    /// §16.7 step 7. What would not fit into a datagram is left out: the caller hears of it at its next attempt.
    fn add_challenges(&mut self, best: &mut Packet, response: &Message<'_>) {
        let whole = best.bytes.whole();
        let message = wire::scan(&whole).expect("it was made here");
        self.edge.edits.clear();
        for name in ["WWW-Authenticate", "Proxy-Authenticate"] {
            for challenge in response.headers(name) {
                self.edge.edits.add_header(&message, name, challenge);
            }
        }
        let mut bytes = Vec::with_capacity(whole.len() + 512);
        self.edge.edits.render(&message, &mut bytes);
        if bytes.len() <= LARGEST {
            let repeats = match best.repeats {
                UNLIMITED_REPEATS => UNLIMITED_REPEATS,
                // No more bytes than they were.
                repeats => ((usize::from(repeats) + 1) * whole.len() / bytes.len()).saturating_sub(1) as u8,
            };
            *best = Packet { repeats, ..Packet::new(bytes, best.flow) };
        }
    }

    fn tries_at_once(&self, request: &Received) -> bool {
        self.edge.tries_at_once(request.flow.peer)
    }

    fn respond(&mut self, request: &Received, status: u16) -> Option<Packet> {
        let read;
        let message = if let Some(message) = self.in_hand(request) {
            message
        } else {
            read = request.message();
            &read
        };
        // RFC 5626 §11.5: no endpoint is to see that a flow has failed. Whoever names a client as his target is told.
        let is_users = matches!(request.way, TargetSet::Contacts(_));
        let status = if status == 430 && is_users { 480 } else { status };
        let tag = own_tag(self.edge, message);
        let mut bytes = Vec::with_capacity(request.bytes.len());
        wire::write_response(message, request.flow.peer, status, reason(status), &tag, &[], &mut bytes);
        if bytes.len() > self.longest(request, status) {
            if status >= 200 {
                self.edge.counters.dropped(Drop::TooLong);
            }
            return None;
        }
        self.edge.gate.overload.tell(&mut bytes, 0, request.back);
        if status >= 200 {
            self.edge.counters.replied(status, reason(status));
        }
        if status >= 300 && self.edge.settings.tell_failures {
            let cause = FailureCause::Refused { status, reason: reason(status) };
            self.notes.failures.push(Failure::new(Some(message), request.flow.peer, cause));
        }
        let repeats = request.tell(self.edge, request.back, status, bytes.len());
        Some(Packet { repeats, ..Packet::new(bytes, request.back) })
    }

    fn memory(&self, request: &Received) -> usize {
        let assigned = match &request.way {
            TargetSet::Uri(..) => 0,
            TargetSet::Pool(_) => size_of::<Assigned>(),
            TargetSet::Contacts(located) => located.memory(),
        };
        let noted = request.noted.as_ref().map_or(0, |_| size_of::<Request<'_>>());
        let tracked = request.tracked.as_ref().map_or(0, |tracked| tracked.memory());
        request.bytes.len() + assigned + noted + tracked
    }

    fn concluded(&mut self, request: &Received, status: u16, is_own: bool) {
        request.end(is_own);
        if let (Some(tracked), Some(dialogs)) = (&request.tracked, self.dialogs.as_deref_mut()) {
            dialogs.concluded(self.edge.now, tracked, status, is_own);
        }
    }

    fn cancel(&mut self, invite: &Packet) -> (Packet, TransactionKey) {
        let invite_bytes = invite.bytes.whole();
        let message = wire::scan(&invite_bytes).expect("it was made here");
        let mut bytes = Vec::with_capacity(512);
        transaction::cancel_for(&message, &mut bytes);
        let branch = message.top_via().branch.unwrap_or_default();
        let key = self.keys.client(branch, Method::Cancel, b"");
        (Packet::new(bytes, invite.flow), key)
    }
}

/// The reason phrases of RFC 3261 §21 for what a proxy says of its own.
fn reason(status: u16) -> &'static str {
    match status {
        100 => "Trying",
        200 => "OK",
        408 => "Request Timeout",
        430 => "Flow Failed",
        440 => "Max-Breadth Exceeded",
        480 => "Temporarily Unavailable",
        500 => "Server Internal Error",
        _ => "Refused",
    }
}

/// The key of the client transaction whose request ICMP has sent back, cut off as it may be.
pub(crate) fn quoted_key(keys: &Keys, quoted: &[u8]) -> Option<TransactionKey> {
    let request = wire::scan(quoted).ok()?;
    let branch = request.top_via().branch?;
    let name = request.cseq().method_name.of(request.bytes());
    peek_ingress(branch)?;
    Some(keys.client(branch, request.method()?, name))
}
