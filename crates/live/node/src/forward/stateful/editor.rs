//! Messages as bytes: how the proxy's core reads, writes and edits them.

use super::dialogs::{KeptRequest, bye};
use super::form::{Editor, Wire};
use super::received::Received;
use super::targets::Source;
use crate::address::client_flow::ClientFlow;
use crate::address::ports::Ingress;
use crate::address::target::Target;
use crate::forward::onward::{Onward, Refresh, ViaBranch};
use crate::forward::path_header::note_client;
use crate::message::route_header::RouteHeader;
use crate::message::validate::LARGEST;
use crate::outcome::counters::Drop;
use crate::outcome::failure::{Failure, FailureCause};
use crate::site::allowance::allowance;
use crate::site::edit::drop_identity;
use crate::site::marks::{tell_notice, tries_at_once};
use crate::site::names::hop_name;
use crate::site::record::hand_over;
use crate::site::remote_targets::{Side, TargetRefresh, refreshes_target};
use crate::site::reply::{self, own_tag};
use crate::token::KeyIndex;
use crate::token::branch::{BranchKind, peek_ingress};
use crate::token::owner::TokenOwner;
use ::dialog::{DialogSide, HangUp};
use ::proxy::{Answered, Medium, NewBranch};
use balance::{CallKey, RequestFacts};
use base::Flow;
use std::sync::Arc;
use transaction::{Bytes, Keys, Packet, TransactionKey, TransportKind, UNLIMITED_REPEATS};
use wire::{Message, Method, request_source_target};

impl Editor<'_> {
    /// Applies the changes of remote targets by a response.
    fn refresh(&mut self, refresh: &mut Refresh, response: &Message<'_>, led: Option<Target<'_>>) {
        let accepted = response.status().is_some_and(|status| (200..300).contains(&status));
        if let Some(target) = led {
            // The token leads to this target. A caller may use the route set of any of the responses.
            let tokens = &self.site.tokens;
            let before = refresh.receiver.replace(tokens.target_hash(&target, KeyIndex::CURRENT));
            refresh.has_varied |= before.is_some_and(|before| !tokens.is_target(&target, before));
            if accepted && refresh.has_varied {
                self.moved(response, Side::Initiator, &target);
            }
        } else if accepted && refreshes_target(response.cseq().method) {
            if let Some(sender) = refresh.sender {
                self.site.targets.note(sender);
            }
            if let (Some(before), Some(uri)) = (refresh.receiver, response.contact()) {
                let target = Target::of(uri);
                if refresh.has_varied || !self.site.tokens.is_target(&target, before) {
                    self.look_up_later(&target);
                    self.moved(response, Side::of(refresh.by_initiator), &target);
                }
            }
        }
    }

    /// Starts the look-up of a host name, since the ACK to the current response goes to it.
    fn look_up_later(&mut self, target: &Target<'_>) {
        if let Target::Name(name) = *target {
            self.notes.look_up = Some(hop_name(name));
        }
    }

    /// Records that the sender of this response has moved to a new target. `by` sent the request.
    fn moved(&mut self, response: &Message<'_>, by: Side, target: &Target<'_>) {
        let source = self.notes.source;
        let flow = ClientFlow::seen(source, &self.site.topology);
        let refreshed = TargetRefresh::new(&self.site.tokens, response, by.other(), by, target);
        self.site.targets.note(refreshed.seen(target.is_at(source.peer), flow));
    }
}

impl Editor<'_> {
    /// Creates a BYE of this proxy to a side of a dialog.
    pub(super) fn bye(
        &mut self,
        hang_up: &HangUp,
        to: DialogSide,
        hop: Flow,
        serial: u64,
    ) -> (Packet, TransactionKey) {
        let mut via = self.site.topology.ports[hop.listener].via.clone().into_bytes();
        let start = via.len();
        self.site.tokens.write_proxy_branch(Ingress::by(hop), 0, serial, &mut via);
        let key = self.keys.client(&via[start..], Method::Bye, b"");
        let mut bytes = Vec::with_capacity(512);
        bye(hang_up, to, &via, &mut bytes);
        (Packet::new(bytes, hop), key)
    }
}

impl<'a> Editor<'a> {
    /// Returns `request` as already read, if it is the current request.
    fn in_hand(&self, request: &Received) -> Option<&'a Message<'a>> {
        self.in_hand.filter(|message| *message.bytes() == *request.bytes)
    }

    /// Returns the maximum length of a response of this process.
    fn longest(&self, request: &Received, status: u16) -> usize {
        let length = request.bytes.len();
        let usual = reply::longest(length);
        let allowance = || allowance(self.site, request.flow, request.back, request.is_genuine, length);
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
        let (from, element) = (request.flow, request.element());
        let via_branch = if let Some(branch) = branch {
            ViaBranch::Transaction(branch.serial)
        } else {
            let kind = BranchKind::Hop { target: 0, by_initiator: request.refresh.by_initiator };
            let back = request_source_target(message.top_via(), from.peer).unwrap_or(from.peer);
            ViaBranch::Stateless { kind, back }
        };
        let onward = Onward {
            from,
            hop,
            route: &RouteHeader::new(&self.site.topology, message, element),
            element,
            rule: request.rule.as_ref().map(|rule| rule.routes.rule(rule.index)),
            record_route: request.stay(),
            contact: request.targets.contact(),
            is_to_client: request.targets.is_client(hop),
            breadth: branch.map(|branch| branch.breadth),
            keeps: request.begins().then_some(true),
            is_search: false,
            proof: request.proof,
            is_at_source: request.is_at_source,
            routing: request.routing,
            branch: via_branch,
            key: KeyIndex::CURRENT,
        };
        let (way, branch_at) = onward.edit(self.site, message, |edits| {
            if let Some(tracked) = &request.tracked {
                tracked.edit_request(message, edits);
            }
        });
        let name = message.cseq().method_name.of(message.bytes());
        let key = self.keys.client(&self.site.scratch[branch_at], message.cseq().method, name);
        let bytes = Bytes::Edited(Arc::clone(&request.bytes), self.site.edits.patch(message));
        (Packet::new(bytes, way), key)
    }

    /// §16.7 steps 3, 8 and 9, §18.2.2: sends a response to the source of the request. The Via below this proxy's Via
    /// is not used, since the responder may have changed it.
    fn relay(&mut self, answered: Answered<'_, Received>, response: &Message<'_>) -> Option<Packet> {
        response.second_via()?;
        let (request, flow) = match answered {
            Answered::Waiting(request) => {
                let back = request.back;
                (Some(request), back)
            }
            Answered::Final(back) => (None, back),
        };
        self.site.edits.clear();
        self.site.edits.pop_via(response);
        drop_identity(self.site, response, self.notes.source);
        tell_notice(self.site, response, flow.peer);
        let led = hand_over(self.site, response, self.notes.source, TokenOwner::Proxy);
        if let Some(target) = &led {
            self.look_up_later(target);
        }
        let (source, dialogs) = (self.notes.source, self.dialogs.as_deref_mut());
        let mut asked = None;
        match (request, dialogs) {
            (Some(request), dialogs) => {
                let clients = request.clients(self.site, source);
                if let (Some(tracked), Some(dialogs)) = (&mut request.tracked, dialogs) {
                    if response.status().is_some_and(|status| status >= 200) {
                        dialogs.tried(tracked, request.targets.tried());
                    }
                    let asked = KeptRequest { bytes: &request.bytes, clients };
                    dialogs.relayed(self.site, tracked, asked, response, source);
                }
                self.refresh(&mut request.refresh, response, led);
                asked = Some(&*request);
            }
            (None, Some(dialogs)) => dialogs.relayed_late(self.site, response, source),
            (None, None) => {}
        }
        let bytes = &mut self.notes.response;
        bytes.clear();
        self.site.edits.render(response, bytes);
        self.site.admission.overload.tell(bytes, 0, flow);
        let status = response.status().unwrap_or_default();
        if let Some(request) = asked.filter(|_| (200..300).contains(&status)) {
            request.end(false);
            if response.cseq().method == Method::Register {
                note_client(self.site, request.flow, &request.message());
            }
        }
        let repeats = asked.map_or(UNLIMITED_REPEATS, |of| of.tell(self.site, flow, status, bytes.len()));
        Some(Packet { repeats, ..Packet::new(&bytes[..], flow) })
    }

    /// RFC 5393 §5.3.2.
    fn breadth(&self, request: &Received) -> u8 {
        request.breadth
    }

    /// §16.7 step 7. If the result is too long for a datagram, the new challenges are left out. The caller gets them at
    /// its next attempt.
    fn add_challenges(&mut self, best: &mut Packet, response: &Message<'_>) {
        let whole = best.bytes.whole();
        let message = wire::scan(&whole).expect("this process wrote the message");
        self.site.edits.clear();
        for name in ["WWW-Authenticate", "Proxy-Authenticate"] {
            for challenge in response.headers(name) {
                self.site.edits.add_header(&message, name, challenge);
            }
        }
        let mut bytes = Vec::with_capacity(whole.len() + 512);
        self.site.edits.render(&message, &mut bytes);
        if bytes.len() <= LARGEST {
            let repeats = match best.repeats {
                UNLIMITED_REPEATS => UNLIMITED_REPEATS,
                // All repetitions together take no more bytes than before, but one repetition is always allowed.
                repeats => {
                    ((usize::from(repeats) + 1) * whole.len() / bytes.len()).saturating_sub(1).max(1) as u8
                }
            };
            *best = Packet { repeats, ..Packet::new(bytes, best.flow) };
        }
    }

    fn tries_at_once(&self, request: &Received) -> bool {
        tries_at_once(self.site, request.flow.peer)
    }

    fn respond(&mut self, request: &Received, status: u16) -> Option<Packet> {
        let read;
        let message = if let Some(message) = self.in_hand(request) {
            message
        } else {
            read = request.message();
            &read
        };
        let status = own_status(request, status);
        let tag = own_tag(self.site, message);
        let longest = self.longest(request, status);
        let bytes = &mut self.notes.response;
        bytes.clear();
        wire::write_response(message, request.flow.peer, status, reason(status), &tag, &[], bytes);
        if bytes.len() > longest {
            if status >= 200 {
                self.site.counters.dropped(Drop::TooLong);
            }
            return None;
        }
        self.site.admission.overload.tell(bytes, 0, request.back);
        if status >= 200 {
            self.site.counters.replied(status, reason(status));
        }
        if status >= 300 && self.site.settings.tell_failures {
            let cause = FailureCause::Refused { status, reason: reason(status) };
            self.notes.failures.push(Failure::new(Some(message), request.flow.peer, cause));
        }
        let repeats = request.tell(self.site, request.back, status, bytes.len());
        Some(Packet { repeats, ..Packet::new(&bytes[..], request.back) })
    }

    fn memory(&self, request: &Received) -> usize {
        let within = request.within.as_ref().map_or(0, |_| size_of::<RequestFacts<'_>>());
        let tracked = request.tracked.as_ref().map_or(0, |tracked| tracked.memory());
        request.bytes.len() + request.targets.memory() + within + tracked
    }

    fn concluded(&mut self, request: &Received, status: u16, is_own: bool) {
        request.end(is_own);
        let shown = if is_own { own_status(request, status) } else { status };
        self.note_failure(request, shown, is_own.then(|| reason(shown)));
        if let (Some(tracked), Some(dialogs)) = (&request.tracked, self.dialogs.as_deref_mut()) {
            dialogs.tried(tracked, request.targets.tried());
            dialogs.concluded(self.site.now, tracked, status, is_own);
        }
    }

    fn cancel(&mut self, invite: &Packet) -> (Packet, TransactionKey) {
        let invite_bytes = invite.bytes.whole();
        let message = wire::scan(&invite_bytes).expect("this process wrote the message");
        let mut bytes = Vec::with_capacity(512);
        transaction::cancel_for(&message, &mut bytes);
        let branch = message.top_via().branch.unwrap_or_default();
        let key = self.keys.client(branch, Method::Cancel, b"");
        (Packet::new(bytes, invite.flow), key)
    }
}

/// Returns the status of a response of this proxy. RFC 5626 §5.3.1: 430 if the flow of a client has failed. §11.5:
/// endpoints must not see that a flow has failed. Only a sender that names a client as its target gets a 430. For an
/// unreachable user the answer is 480 (RFC 3261 §21.4.18) and not 500, since it is no error of this proxy.
fn own_status(request: &Received, status: u16) -> u16 {
    match (&request.targets.source, status) {
        (Source::Uri(target), 500) if target.is_by_path => 430,
        (Source::Contacts(_), 430) => 480,
        (Source::Contacts(_), 500) if request.targets.is_away() => 480,
        _ => status,
    }
}

/// Returns the reason phrases of RFC 3261 §21 for responses that a proxy generates.
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

/// Returns the key of the client transaction whose request an ICMP error quotes, perhaps cut off.
pub(crate) fn quoted_key(keys: &Keys, quoted: &[u8]) -> Option<TransactionKey> {
    let request = wire::scan(quoted).ok()?;
    let branch = request.top_via().branch?;
    let name = request.cseq().method_name.of(request.bytes());
    peek_ingress(branch)?;
    Some(keys.client(branch, request.method()?, name))
}
