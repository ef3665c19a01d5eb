//! Messages as bytes: how the proxy's core reads, makes and edits them.

use super::attempts::{Assigned, Assigner};
use super::dialogs::{Dialogs as KeptDialogs, Tracked, bye};
use super::located::Located;
use crate::Drop;
use crate::edge::Edge;
use crate::failure::{Failure, FailureCause};
use crate::forward::{Onward, Stay};
use crate::record::hand_over;
use crate::reply::{self, own_tag};
use crate::route::Target;
use crate::targets::{Refreshed, Side, refreshes_target};
use crate::token::branch::{HopBranch, Transaction, peek_listener};
use crate::token::route::TokenOwner;
use crate::validate::LARGEST;
use ::dialog::{HangUp, Side as Party};
use ::proxy::{Form, Medium, NewBranch, Sink};
use ::route::Dialogs;
use balance::{CallKey, Request};
use base::{Flow, Outbox};
use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use transaction::{Bytes, Keys, Packet, Sending, TransactionKey, TransportKind, UNLIMITED_REPEATS};
use wire::{Message, Method, request_source_target, response_target};

/// Messages as bytes.
pub(crate) enum Wire {}

impl Form for Wire {
    type Message = Packet;
    type Request = Received;
    type Call = CallKey;
    type Hop = Flow;
    type Medium<'a> = Editor<'a>;
    type Router<'a> = Assigner<'a>;
}

/// A request that came in, as it is kept until it is answered.
pub(crate) struct Received {
    /// Exactly the message. What is forwarded shares it.
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) call: CallKey,
    /// What it came by.
    pub(crate) flow: Flow,
    /// Where its responses go (§18.2.2).
    pub(crate) back: Flow,
    pub(crate) way: Way,
    /// Hash of the routing decision, for our Via (RFC 5393 §4.2).
    pub(crate) routing: u32,
    /// Its Max-Breadth (RFC 5393 §5.3.2): every request is asked for it, and need not be read again for that.
    pub(crate) breadth: u8,
    /// What its response may change in the dialog that it belongs to or begins.
    pub(crate) refresh: Refresh,
    /// What the balancer has taken note of it as, but for the Call-ID, which is in the message.
    pub(crate) noted: Option<Box<Request<'static>>>,
    /// What is known of its call, where the state of dialogs is kept.
    pub(crate) tracked: Option<Box<Tracked>>,
    /// Its sender has proved to know a password.
    pub(crate) is_genuine: bool,
    /// Bytes of provisional responses that went back for it.
    pub(crate) told: Cell<u32>,
}

/// What the response to a request tells of where the parties of a dialog are reached.
#[derive(Clone, Copy)]
pub(crate) struct Refresh {
    /// Whether the side that began the dialog sent the request.
    pub(crate) by_initiator: bool,
    /// Where the request's sender is reached once it is accepted.
    pub(crate) sender: Option<Refreshed>,
    /// [`Tokens::target_hash`] of where its receiver is reached, as far as is known: by the Request-URI, or by the
    /// response before.
    pub(crate) receiver: Option<u32>,
    /// Whether two responses have named different places: the token of one of them does not lead to the other's.
    pub(crate) has_varied: bool,
}

impl Refresh {
    /// What changes nothing by itself.
    pub(crate) fn of(by_initiator: bool) -> Self {
        Self { by_initiator, sender: None, receiver: None, has_varied: false }
    }
}

/// Where a request goes.
pub(crate) enum Way {
    /// Where its Route or Request-URI says, and whether that is known to want it.
    There(Flow, bool),
    /// To a member of a pool.
    Pool(Box<Assigned>),
    /// To the contacts of a user.
    Contacts(Box<Located>),
}

/// Where the responses to a request go (§18.2.2): to where it came from, if its Via leads nowhere, or out of every family that
/// there is.
pub(super) fn way_back(edge: &Edge, message: &Message<'_>, flow: Flow) -> Flow {
    let target = request_source_target(message.top_via(), flow.peer);
    target.and_then(|target| edge.topology.way_to(flow.listener, target)).unwrap_or(flow)
}

impl Received {
    /// Whose token its Record-Route has: where the requests of a dialog go to the member that it began with, a pool's.
    fn element(&self) -> TokenOwner {
        match &self.way {
            Way::Pool(assigned) if assigned.dialogs == Dialogs::Member => TokenOwner::Pool,
            Way::Pool(_) | Way::There(..) | Way::Contacts(_) => TokenOwner::Proxy,
        }
    }

    /// Whether it begins something, of which one proxy of a chain keeps the transaction.
    fn begins(&self) -> bool {
        match &self.way {
            Way::Pool(assigned) => !matches!(assigned.request.method, Method::Ack | Method::Cancel),
            // Whoever is behind us keeps no state of a call to a user: this one does.
            Way::There(..) | Way::Contacts(_) => false,
        }
    }

    /// Whether we stay on the way of the dialog that it begins.
    fn stay(&self) -> Stay {
        match &self.way {
            Way::Pool(assigned) => assigned.stay,
            Way::There(..) | Way::Contacts(_) if self.tracked.is_some() => Stay::WithDialogs,
            Way::There(..) | Way::Contacts(_) => Stay::WithTransactions,
        }
    }

    /// Takes note of a response that goes back to `to`; returns how often timers may repeat it.
    fn tell(&self, edge: &Edge, to: SocketAddr, status: u16, length: usize) -> u8 {
        let told = self.told.get();
        if status < 200 {
            self.told.set(told.saturating_add(length as u32));
        }
        if status < 300 {
            // No timer repeats it.
            return UNLIMITED_REPEATS;
        }
        edge.allowance((self.flow.peer, to), self.is_genuine, self.bytes.len()).repeats(told as usize, length)
    }

    /// The message again.
    fn message(&self) -> Message<'_> {
        wire::scan(&self.bytes).expect("it was read when it came in")
    }
}

/// What leaves.
pub(crate) struct Out<'a, E>(pub(crate) &'a mut Outbox<E>);

impl<E> Sink<Packet> for Out<'_, E> {
    fn send(&mut self, packet: &Packet, _: Sending) {
        self.0.send(packet.flow, |buffer| {
            let start = buffer.len();
            packet.bytes.write(buffer);
            debug_assert!(buffer.len() - start <= LARGEST, "what does not fit was refused");
        });
    }
}

/// What the editing of a message leaves to be done.
pub(crate) struct Notes {
    /// Who sent the message in hand.
    pub(crate) source: SocketAddr,
    /// A host name that the requests of a dialog will go to: it is asked for now, since an ACK does not come again.
    pub(crate) look_up: Option<(Vec<u8>, Option<u16>)>,
    /// Requests that were answered here with a failure, if they are to be told of.
    pub(crate) failures: Vec<Failure>,
}

impl Default for Notes {
    fn default() -> Self {
        Self { source: SocketAddr::from(([0; 4], 0)), look_up: None, failures: Vec::new() }
    }
}

/// Edits messages with what the shard knows at its edge.
pub(crate) struct Editor<'a> {
    pub(crate) edge: &'a mut Edge,
    pub(crate) keys: &'a Keys,
    pub(crate) notes: &'a mut Notes,
    pub(crate) dialogs: Option<&'a mut KeptDialogs>,
}

impl Editor<'_> {
    /// What a response tells of where the parties are reached.
    fn refresh(&mut self, refresh: &mut Refresh, response: &Message<'_>, led: Option<Target<'_>>) {
        let accepted = response.status().is_some_and(|status| (200..300).contains(&status));
        if let Some(target) = led {
            // The token leads there. A caller keeps the route set of any of the responses.
            let before = refresh.receiver.replace(self.edge.tokens.target_hash(&target, false));
            refresh.has_varied |= before.is_some() && before != refresh.receiver;
            if accepted && refresh.has_varied {
                self.moved(response, (Side::Peer, true), &target);
            }
        } else if accepted && refreshes_target(response.cseq().method) {
            if let Some(sender) = refresh.sender {
                self.edge.targets.note(sender);
            }
            if let (Some(before), Some(uri)) = (refresh.receiver, response.contact()) {
                let target = Target::of(uri);
                if refresh.has_varied || before != self.edge.tokens.target_hash(&target, false) {
                    self.look_up_later(&target);
                    self.moved(response, (Side::of(!refresh.by_initiator), refresh.by_initiator), &target);
                }
            }
        }
    }

    /// The ACK to the response in hand goes there.
    fn look_up_later(&mut self, target: &Target<'_>) {
        if let Target::Name(host, port) = *target {
            self.notes.look_up = Some((host.to_vec(), port));
        }
    }

    /// Who sent this response is reached elsewhere than before.
    fn moved(&mut self, response: &Message<'_>, side: (Side, bool), target: &Target<'_>) {
        let heard = target.is_at(self.notes.source);
        self.edge.targets.note(Refreshed::new(&self.edge.tokens, response, side, target, heard));
    }
}

impl Editor<'_> {
    /// Our own BYE to a side of a dialog.
    pub(super) fn bye(
        &mut self,
        hang_up: &HangUp,
        (to, hop): (Party, Flow),
        serial: u64,
    ) -> (Packet, TransactionKey) {
        let mut via = self.edge.topology.listeners[usize::from(hop.listener)].via.clone().into_bytes();
        let start = via.len();
        self.edge.tokens.write_proxy_branch(hop.listener as u8, 0, serial, &mut via);
        let key = self.keys.client(&via[start..], Method::Bye, b"");
        let mut bytes = Vec::with_capacity(512);
        bye(hang_up, to, &via, &mut bytes);
        (Packet::new(bytes, hop), key)
    }
}

impl Editor<'_> {
    /// The most bytes of a response of our own, to be sent there.
    fn longest(&self, request: &Received, to: SocketAddr, status: u16) -> usize {
        let length = request.bytes.len();
        let usual = reply::longest(length);
        let allowance = || self.edge.allowance((request.flow.peer, to), request.is_genuine, length);
        if status == 100 { allowance().most_of_trying(usual) } else { usual }
    }
}

impl Medium<Wire> for Editor<'_> {
    fn call(&self, request: &Received) -> CallKey {
        request.call
    }

    fn transport(&self, _: &Received, hop: Flow) -> TransportKind {
        hop.transport.into()
    }

    /// RFC 3261 §16.6.
    fn forward(
        &mut self,
        request: &Received,
        hop: Flow,
        branch: Option<NewBranch>,
    ) -> (Packet, TransactionKey) {
        let message = request.message();
        let (rule, contact) = match &request.way {
            Way::There(..) => (None, None),
            Way::Pool(assigned) => (assigned.rule.as_ref(), None),
            Way::Contacts(located) => (located.rule.as_ref(), Some(located.contact())),
        };
        let onward = Onward {
            from: request.flow,
            hop,
            element: request.element(),
            rule: rule.map(|(routes, rule)| routes.rule(*rule)),
            stay: request.stay(),
            contact,
            breadth: branch.map(|branch| branch.breadth),
            keeps: request.begins().then_some(true),
        };
        let (routing, listener) = (request.routing, request.flow.listener as u8);
        let (receiver, by_initiator) = (0, request.refresh.by_initiator);
        let branch_at = self.edge.edit_onward(&message, &onward, |tokens, via| {
            if let Some(branch) = branch {
                tokens.write_proxy_branch(listener, routing, branch.serial, via);
            } else {
                let from = onward.from.peer;
                let target = request_source_target(message.top_via(), from).unwrap_or(from);
                let of = Transaction::new(&message, message.top_via(), target);
                let branch = HopBranch { listener, routing, receiver, by_initiator };
                tokens.write_hop_branch(branch, &of, via);
            }
        });
        if let Some(tracked) = &request.tracked {
            tracked.edit_request(&message, &mut self.edge.edits);
        }
        let name = message.cseq().method_name.of(message.bytes());
        let key = self.keys.client(&self.edge.scratch[branch_at], message.cseq().method, name);
        let bytes = Bytes::Edited(Arc::clone(&request.bytes), self.edge.edits.patch(&message));
        (Packet::new(bytes, hop), key)
    }

    /// §16.7 steps 3, 8 and 9, §18.2.2: to where the request came from, as long as that is known: whoever answers may have written
    /// another Via. Else by the next Via.
    fn relay(&mut self, request: Option<&mut Received>, response: &Message<'_>) -> Option<Packet> {
        let via = response.second_via()?;
        let flow = if let Some(request) = &request {
            request.back
        } else {
            let asked = response.top_via().branch.and_then(peek_listener).unwrap_or_default();
            self.edge.topology.way_to(asked.into(), response_target(&via)?)?
        };
        let to = flow.peer;
        self.edge.edits.clear();
        self.edge.edits.pop_via(response);
        self.edge.drop_identity(response, self.notes.source);
        self.edge.tell_notice(response, to);
        let of = (&*self.edge.topology, &self.edge.tokens);
        let to_edit = (&mut self.edge.edits, &mut self.edge.scratch);
        let led = hand_over(response, self.notes.source, TokenOwner::Proxy, of, to_edit);
        if let Some(target) = &led {
            self.look_up_later(target);
        }
        let (source, dialogs) = (self.notes.source, self.dialogs.as_deref_mut());
        let mut asked = None;
        match (request, dialogs) {
            (Some(request), dialogs) => {
                if let (Some(tracked), Some(dialogs)) = (&mut request.tracked, dialogs) {
                    dialogs.relayed(self.edge, tracked, (&request.bytes, response), source);
                }
                self.refresh(&mut request.refresh, response, led);
                asked = Some(&*request);
            }
            (None, Some(dialogs)) => dialogs.relayed_late(self.edge, response, source),
            (None, None) => {}
        }
        let mut bytes = Vec::with_capacity(response.bytes().len());
        self.edge.edits.render(response, &mut bytes);
        let status = response.status().unwrap_or_default();
        let repeats = asked.map_or(UNLIMITED_REPEATS, |of| of.tell(self.edge, to, status, bytes.len()));
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

    fn respond(&mut self, request: &Received, status: u16) -> Option<Packet> {
        let message = request.message();
        let tag = own_tag(&self.edge.tokens, &message);
        let mut bytes = Vec::with_capacity(request.bytes.len());
        wire::write_response(&message, request.flow.peer, status, reason(status), &tag, &[], &mut bytes);
        let to = request.back.peer;
        if bytes.len() > self.longest(request, to, status) {
            if status >= 200 {
                self.edge.counters.dropped(Drop::TooLong);
            }
            return None;
        }
        if status >= 200 {
            self.edge.counters.replied(status, reason(status));
        }
        if status >= 300 && self.edge.settings.tell_failures {
            let cause = FailureCause::Refused { status, reason: reason(status) };
            self.notes.failures.push(Failure::new(Some(&message), request.flow.peer, cause));
        }
        let repeats = request.tell(self.edge, to, status, bytes.len());
        Some(Packet { repeats, ..Packet::new(bytes, request.back) })
    }

    fn memory(&self, request: &Received) -> usize {
        let assigned = match &request.way {
            Way::There(..) => 0,
            Way::Pool(_) => size_of::<Assigned>(),
            Way::Contacts(located) => located.memory(),
        };
        let noted = request.noted.as_ref().map_or(0, |_| size_of::<Request<'_>>());
        let tracked = request.tracked.as_ref().map_or(0, |tracked| tracked.memory());
        request.bytes.len() + assigned + noted + tracked
    }

    fn concluded(&mut self, request: &Received, status: u16, is_own: bool) {
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
        440 => "Max-Breadth Exceeded",
        500 => "Server Internal Error",
        _ => "Refused",
    }
}

/// The key of the client transaction whose request ICMP has sent back, cut off as it may be.
pub(crate) fn quoted_key(keys: &Keys, quoted: &[u8]) -> Option<TransactionKey> {
    let request = wire::scan(quoted).ok()?;
    let branch = request.top_via().branch?;
    let name = request.cseq().method_name.of(request.bytes());
    peek_listener(branch)?;
    Some(keys.client(branch, request.method()?, name))
}
