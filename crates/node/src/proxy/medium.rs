//! Messages as bytes: how the proxy's core reads, edits and routes them.

use crate::Topology;
use crate::failure::{Cause, Failure};
use crate::record::{hand_over, initiator_target, record, wants_record_route};
use crate::reply::{self, own_tag};
use crate::route::{RouteInfo, Target, edit_hop};
use crate::targets::{Refreshed, Side, Targets, refreshes_target};
use crate::token::Tokens;
use crate::token::branch::{Transaction, peek_listener};
use crate::token::route::{Element, RouteToken};
use crate::topology::node_id;
use crate::validate::LARGEST;
use ::proxy::{Medium, Refusal, Sink};
use balance::{CallKey, NodeId};
use base::{Flow, Instant, Outbox};
use core::time::Duration;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use transaction::{Bytes, Key, Keys, Packet, Sending, TransportKind};
use wire::{Edits, Message, Method, request_source_target, response_target};

/// How long a next hop that failed is the last to be asked: as long as a call takes to be tried elsewhere, or every one
/// would wait for it.
const REST: Duration = Duration::from_secs(32);

/// How much longer a rest has to be than the one that was told of before it is told of.
const TELL_EACH: Duration = Duration::from_secs(1);

/// A next hop that has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopFailure {
    /// Where it is.
    pub hop: SocketAddr,
    /// Until then it is the last to be asked.
    pub until: Instant,
    /// The network said so (ICMP); else it answered 503, or nothing in time.
    pub is_unreachable: bool,
}

/// How often a request is sent again to an address that is no next hop and that nothing came from: enough for a loss or
/// two, and what somebody else pays who was named there without being asked.
const UNHEARD_REPEATS: u8 = 2;

/// A request that came in, as it is kept until it is answered.
pub(crate) struct Received {
    /// Exactly the message. What is forwarded shares it.
    pub(crate) bytes: Arc<[u8]>,
    /// What it came by.
    pub(crate) flow: Flow,
    pub(crate) way: Way,
    /// Hash of the routing decision, for our Via (RFC 5393 §4.2).
    pub(crate) routing: u32,
    /// What its response may change in the dialog that it belongs to or begins.
    pub(crate) refresh: Refresh,
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
#[derive(Clone, Copy)]
pub(crate) enum Way {
    /// Where its Route or Request-URI says, and whether that is known to want it.
    There(Flow, bool),
    /// To the next hops, beginning with this one.
    Hops(usize),
}

impl Received {
    /// The message again.
    fn message(&self) -> Message<'_> {
        wire::scan(&self.bytes).expect("it was read when it came in")
    }
}

/// A next hop.
#[derive(Clone, Copy)]
struct Hop {
    node: Flow,
    /// Since it has failed.
    rests_until: Instant,
    /// The rest that the other shards know of.
    told_until: Instant,
}

/// The live medium: addresses, secrets, next hops.
pub(crate) struct Live {
    pub(crate) topology: Arc<Topology>,
    pub(crate) tokens: Tokens,
    pub(crate) keys: Keys,
    pub(crate) now: Instant,
    /// Unix time now, in seconds.
    pub(crate) unix: u32,
    /// Who sent the message in hand.
    pub(crate) source: SocketAddr,
    pub(crate) targets: Targets,
    /// A host name that the requests of a dialog will go to: it is asked for now, since an ACK does not come again.
    pub(crate) look_up: Option<(Vec<u8>, Option<u16>)>,
    /// Answers of our own, by status and reason phrase.
    pub(crate) replies: BTreeMap<(u16, &'static str), u64>,
    /// Final answers of our own that would have been much longer than their requests.
    pub(crate) too_long: u64,
    /// Requests that were answered here with a failure, if they are to be told of.
    pub(crate) failures: Vec<Failure>,
    pub(crate) tell_failures: bool,
    hops: Vec<Hop>,
    /// Next hops whose failure the other shards are to hear of.
    pub(crate) hop_failures: Vec<HopFailure>,
    edits: Edits,
    /// Texts of the headers being added, kept for their memory.
    scratch: Vec<u8>,
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

impl Live {
    pub(crate) fn new(topology: Arc<Topology>, tokens: Tokens, keys: Keys) -> Self {
        Self {
            topology,
            tokens,
            keys,
            now: Instant::ZERO,
            unix: 0,
            source: SocketAddr::from(([0; 4], 0)),
            targets: Targets::default(),
            look_up: None,
            replies: BTreeMap::new(),
            too_long: 0,
            failures: Vec::new(),
            tell_failures: false,
            hops: Vec::new(),
            hop_failures: Vec::new(),
            edits: Edits::new(),
            scratch: Vec::new(),
        }
    }

    /// Changes the next hops; what is known of those that stay is kept.
    pub(crate) fn set_hops(&mut self, nodes: &[Flow]) {
        let hop = |&node: &Flow| {
            let before = self.hops.iter().find(|hop| hop.node.peer == node.peer);
            let (rests_until, told_until) =
                before.map_or((Instant::ZERO, Instant::ZERO), |hop| (hop.rests_until, hop.told_until));
            Hop { node, rests_until, told_until }
        };
        self.hops = nodes.iter().map(hop).collect();
    }

    pub(crate) fn hop_at(&self, address: SocketAddr) -> Option<Flow> {
        self.hops.iter().map(|hop| hop.node).find(|node| node.peer == address)
    }

    /// The next hop that a token names.
    pub(crate) fn hop_of(&self, id: NodeId) -> Option<Flow> {
        self.hops.iter().map(|hop| hop.node).find(|node| node_id(node.transport, node.peer) == id)
    }

    pub(crate) fn has_hops(&self) -> bool {
        !self.hops.is_empty()
    }

    /// Each next hop, and whether it rests.
    pub(crate) fn hops(&self, now: Instant) -> impl Iterator<Item = (SocketAddr, bool)> {
        self.hops.iter().map(move |hop| (hop.node.peer, hop.rests_until > now))
    }

    /// This one has failed. The other shards hear of it, but not again for each request that finds it so.
    pub(crate) fn rest(&mut self, address: SocketAddr, is_unreachable: bool) {
        let until = self.now + REST;
        for hop in self.hops.iter_mut().filter(|hop| hop.node.peer == address) {
            hop.rests_until = until;
            if until.saturating_since(hop.told_until) >= TELL_EACH {
                hop.told_until = until;
                self.hop_failures.push(HopFailure { hop: address, until, is_unreachable });
            }
        }
        // Going on to the next hop comes before why this one failed is known here.
        for failure in self.hop_failures.iter_mut().filter(|failure| failure.hop == address) {
            failure.is_unreachable |= is_unreachable;
        }
    }

    /// Another shard has found that this one has failed.
    pub(crate) fn rest_as_told(&mut self, address: SocketAddr, until: Instant) {
        for hop in self.hops.iter_mut().filter(|hop| hop.node.peer == address) {
            hop.rests_until = hop.rests_until.max(until);
            hop.told_until = hop.told_until.max(until);
        }
    }

    /// The way of the requests of a call over the next hops: by its Call-ID, which spreads calls evenly and takes an
    /// INVITE that answers a challenge to the challenger; those that rest are left out unless all do.
    pub(crate) fn first_hop(&self, call_id: &[u8]) -> Way {
        let awake = |hop: &Hop| hop.rests_until <= self.now;
        // Not the bits that the shards are chosen by.
        let hash = (self.tokens.call_key(call_id).0 >> 96) as usize;
        match self.hops.iter().filter(|hop| awake(hop)).count() {
            0 => Way::Hops(hash % self.hops.len().max(1)),
            count => {
                let all = self.hops.iter().enumerate().filter(|(_, hop)| awake(hop));
                Way::Hops(all.map(|(index, _)| index).nth(hash % count).unwrap_or_default())
            }
        }
    }

    /// Records us and a token, which leads the requests of the callee to whom the caller has named.
    fn record_route(&mut self, message: &Message<'_>, request: &Received, hop: Flow) {
        let (target, is_contact) = initiator_target(&self.topology, message, Element::Proxy);
        let token = RouteToken {
            node: node_id(hop.transport, hop.peer),
            outbound: false,
            target: self.tokens.target_hash(&target, false),
            heard: target.is_at(request.flow.peer),
            home: self.tokens.home_hash(is_contact.then_some(&target), false),
        };
        let (tokens, unix) = (&self.tokens, self.unix);
        let write = |out: &mut Vec<u8>| tokens.write_route(Element::Proxy, token, message, unix, false, out);
        let (edits, scratch) = (&mut self.edits, &mut self.scratch);
        let listeners = [request.flow.listener, hop.listener];
        record(message, &self.topology, listeners, edits, scratch, (Element::Proxy, write));
    }

    /// What a response tells of where the parties are reached.
    fn refresh(&mut self, refresh: &mut Refresh, response: &Message<'_>, led: Option<Target<'_>>) {
        let accepted = response.status().is_some_and(|status| (200..300).contains(&status));
        if let Some(target) = led {
            // The token leads there. A caller keeps the route set of any of the responses.
            let before = refresh.receiver.replace(self.tokens.target_hash(&target, false));
            refresh.has_varied |= before.is_some() && before != refresh.receiver;
            if accepted && refresh.has_varied {
                self.moved(response, (Side::Peer, true), &target);
            }
        } else if accepted && refreshes_target(response.cseq().method) {
            if let Some(sender) = refresh.sender {
                self.targets.note(sender);
            }
            if let (Some(before), Some(uri)) = (refresh.receiver, response.contact()) {
                let target = Target::of(uri);
                if refresh.has_varied || before != self.tokens.target_hash(&target, false) {
                    self.look_up_later(&target);
                    self.moved(response, (Side::of(!refresh.by_initiator), refresh.by_initiator), &target);
                }
            }
        }
    }

    /// The ACK to the response in hand goes there.
    fn look_up_later(&mut self, target: &Target<'_>) {
        if let Target::Name(host, port) = *target {
            self.look_up = Some((host.to_vec(), port));
        }
    }

    /// Who sent this response is reached elsewhere than before.
    fn moved(&mut self, response: &Message<'_>, side: (Side, bool), target: &Target<'_>) {
        let heard = target.is_at(self.source);
        self.targets.note(Refreshed::new(&self.tokens, response, side, target, heard));
    }
}

impl Medium for Live {
    type Message = Packet;
    type Request = Received;
    type Call = CallKey;
    type Hop = Flow;

    fn call(&self, request: &Received) -> CallKey {
        self.tokens.call_key(wire::peek_call_id(&request.bytes).unwrap_or_default())
    }

    fn next_hop(&mut self, request: &Received, attempt: u8) -> Result<Flow, Refusal> {
        let first = match request.way {
            Way::There(node, _) => return if attempt == 0 { Ok(node) } else { Err(Refusal(500)) },
            Way::Hops(first) => first,
        };
        let (count, attempt) = (self.hops.len(), usize::from(attempt));
        if attempt >= count {
            // After a reload there may be fewer.
            return Err(Refusal(500));
        }
        if attempt > 0 {
            self.rest(self.hops[(first + attempt - 1) % count].node.peer, false);
        }
        Ok(self.hops[(first + attempt) % count].node)
    }

    fn has_alternate(&self, request: &Received, attempt: u8) -> bool {
        matches!(request.way, Way::Hops(_)) && usize::from(attempt) + 1 < self.hops.len()
    }

    fn transport(&self, hop: Flow) -> TransportKind {
        hop.transport.into()
    }

    fn most_repeats(&self, request: &Received) -> Option<u8> {
        matches!(request.way, Way::There(_, false)).then_some(UNHEARD_REPEATS)
    }

    /// RFC 3261 §16.6.
    fn forward(&mut self, request: &Received, hop: Flow, serial: Option<u64>) -> (Packet, Key) {
        let message = request.message();
        self.edits.clear();
        edit_hop(&message, request.flow.peer, &mut self.edits);
        let route = RouteInfo::new(&self.topology, &message, Element::Proxy);
        route.edit(&message, &mut self.edits, &mut self.scratch);
        if wants_record_route(&message) {
            self.record_route(&message, request, hop);
        }
        // Step 8.
        let via = self.topology.listeners[usize::from(hop.listener)].via.as_bytes();
        self.scratch.clear();
        self.scratch.extend_from_slice(via);
        let target = request_source_target(message.top_via(), request.flow.peer).unwrap_or(request.flow.peer);
        let transaction = Transaction::new(&message, message.top_via(), target);
        let of = serial.ok_or(&transaction);
        self.tokens.write_proxy_branch(request.flow.listener as u8, request.routing, of, &mut self.scratch);
        self.edits.push_via(&message, &self.scratch);
        let name = message.cseq().method_name.of(message.bytes());
        let key = self.keys.client(&self.scratch[via.len()..], message.cseq().method, name);
        let bytes = Bytes::Edited(Arc::clone(&request.bytes), self.edits.patch(&message));
        (Packet { bytes, flow: hop }, key)
    }

    /// §16.7 steps 3, 8 and 9, §18.2.2: by the next Via, from where the request came in.
    fn relay(&mut self, request: Option<&mut Received>, response: &Message<'_>) -> Option<Packet> {
        let to = response_target(&response.second_via()?)?;
        let asked = response.top_via().branch.and_then(peek_listener).unwrap_or_default();
        let flow = self.topology.way_to(asked.into(), to)?;
        self.edits.clear();
        self.edits.pop_via(response);
        let of = (&*self.topology, &self.tokens);
        let to_edit = (&mut self.edits, &mut self.scratch);
        let led = hand_over(response, self.source, Element::Proxy, of, to_edit);
        if let Some(target) = &led {
            self.look_up_later(target);
        }
        if let Some(request) = request {
            self.refresh(&mut request.refresh, response, led);
        }
        let mut bytes = Vec::with_capacity(response.bytes().len());
        self.edits.render(response, &mut bytes);
        Some(Packet { bytes: bytes.into(), flow })
    }

    fn respond(&mut self, request: &Received, status: u16) -> Option<Packet> {
        let message = request.message();
        let tag = own_tag(&self.tokens, &message);
        let mut bytes = Vec::with_capacity(request.bytes.len());
        wire::write_response(&message, request.flow.peer, status, reason(status), &tag, &[], &mut bytes);
        if bytes.len() > reply::longest(request.bytes.len()) {
            self.too_long += u64::from(status >= 200);
            return None;
        }
        if status >= 200 {
            *self.replies.entry((status, reason(status))).or_default() += 1;
        }
        if status >= 300 && self.tell_failures {
            let cause = Cause::Refused { status, reason: reason(status) };
            self.failures.push(Failure::new(Some(&message), request.flow.peer, cause));
        }
        let to = request_source_target(message.top_via(), request.flow.peer).unwrap_or(request.flow.peer);
        // A Via with `maddr` may lead out of every family that there is.
        let flow = self.topology.way_to(request.flow.listener, to).unwrap_or(request.flow);
        Some(Packet { bytes: bytes.into(), flow })
    }

    fn memory(request: &Received) -> usize {
        request.bytes.len()
    }

    fn cancel(&mut self, invite: &Packet) -> (Packet, Key) {
        let invite_bytes = invite.bytes.whole();
        let message = wire::scan(&invite_bytes).expect("it was made here");
        let mut bytes = Vec::with_capacity(512);
        transaction::cancel_for(&message, &mut bytes);
        let branch = message.top_via().branch.unwrap_or_default();
        let key = self.keys.client(branch, Method::Cancel, b"");
        (Packet { bytes: bytes.into(), flow: invite.flow }, key)
    }
}

/// The reason phrases of RFC 3261 §21 for what a proxy says of its own.
fn reason(status: u16) -> &'static str {
    match status {
        100 => "Trying",
        200 => "OK",
        408 => "Request Timeout",
        500 => "Server Internal Error",
        _ => "Refused",
    }
}

/// The key of the client transaction whose request ICMP has sent back, cut off as it may be.
pub(crate) fn quoted_key(keys: &Keys, quoted: &[u8]) -> Option<Key> {
    let request = wire::scan(quoted).ok()?;
    let branch = request.top_via().branch?;
    let name = request.cseq().method_name.of(request.bytes());
    peek_listener(branch)?;
    Some(keys.client(branch, request.method()?, name))
}
