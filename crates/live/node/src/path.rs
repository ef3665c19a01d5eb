//! The path of a message through a shard: arrival, destination, admission, forwarding.
//!
//! A request that waits, for a store or for room in a queue, is taken up again from the beginning, with the
//! [`Progress`] that it has made (`waits.rs`).

use crate::admission::NEXT_HOP_OVERLOADED;
use crate::arrival::Arrival;
use crate::assign::{Assignment, NO_SERVER, member_by_call};
use crate::counters::Drop;
use crate::destination::{Destination, To};
use crate::edge::Edge;
use crate::event::ShardEvent;
use crate::forward::contacts::{Contact, NO_CONTACT, contacts};
use crate::forward::onward::{Onward, RecordRoute, Refresh};
use crate::forward::stateful::{Assigned, Located, Stateful};
use crate::forward::stateless::{Stateless, pass, relay, send_to};
use crate::home::{Home, STORE_SILENT};
use crate::limited;
use crate::names::NoHop;
use crate::progress::{Progress, Proof, Stage};
use crate::record::check_from_tag;
use crate::rejection::{OwnResponse, Refused, Rejection, refused};
use crate::reply::{acknowledges_us, is_about_us};
use crate::step::Step;
use crate::token::branch::{is_hop_branch, peek_ingress};
use crate::token::copies::copies_key;
use balance::{PoolId, Request, Slot, Why};
use base::{Flow, Operation, Transport};
use route::{Fork, Forward, RING_TIME, Service};
use std::sync::Arc;
use wire::{Message, Method};

const NOBODY_VERIFIES: Refused =
    Refused { retry_after: Some(1), ..refused(503, "Nobody Verifies Credentials") };
const UNKNOWN_DIALOG: Refused = refused(481, "Call/Transaction Does Not Exist");

/// A step of a shard, with all parts of the shard that a message or a timer may need.
pub(crate) struct Path<'a> {
    pub(crate) step: Step<'a>,
    pub(crate) stateless: &'a mut Stateless,
    /// The transactions; `None` where no pool keeps any.
    pub(crate) stateful: Option<&'a mut Stateful>,
    pub(crate) home: Option<&'a mut Home>,
}

impl Path<'_> {
    /// Processes a message that came in.
    pub(crate) fn message(&mut self, flow: Flow, bytes: &[u8]) {
        self.stateless.search_limits.heard(self.step.edge.now);
        let message = self.step.edge.read(bytes);
        if let Some(message) = &message
            && !self.is_of_transactions(flow, message)
        {
            if acknowledges_us(self.step.edge, message) {
                // Little work, so that it tells nothing of how many requests can be taken.
                self.step.edge.discard(Drop::Ack);
            } else if message.status().is_none() {
                let refused = self.step.edge.gate.overload.refused();
                self.request(flow, message);
                let Edge { gate, now, .. } = &mut *self.step.edge;
                gate.overload.handled(*now, flow, message, refused);
            } else if message.top_via().branch.is_some_and(is_hop_branch) {
                relay(&mut self.step, flow, message);
            } else {
                self.stateless.response(&mut self.step, flow, message);
            }
        }
        self.step.edge.tell(flow, message.as_ref(), self.step.out);
    }

    /// Time has passed.
    pub(crate) fn expire(&mut self) {
        // Transactions first: what they find unanswered they can try elsewhere.
        if let Some(stateful) = self.stateful.as_deref_mut() {
            stateful.expire(&mut self.step);
        }
        self.expire_waiting();
        for _ in 0..self.step.balancer.expire(self.step.edge.now) {
            self.step.edge.ledger.charge(Operation::Expire);
        }
    }

    /// ICMP says that a datagram to this address, which began with `quoted`, did not arrive (RFC 3261 §16.9), or a
    /// connection is gone.
    pub(crate) fn unreachable(&mut self, to: Flow, quoted: &[u8]) {
        if let Some(queues) = self.step.queues.as_deref_mut() {
            queues.gone(&self.step.edge.topology.ports, to, quoted);
        }
        if to.transport == Transport::Tcp && self.sends_over_udp(to, quoted) {
            return;
        }
        if let Some(stateful) = self.stateful.as_deref_mut() {
            stateful.unreachable(&mut self.step, to, quoted);
        }
        if to.transport.is_reliable() {
            self.stateless.failed(&mut self.step, to, quoted);
        }
    }

    /// RFC 3261 §18.1.1: what was to leave by a connection for its length, which nobody took, goes over UDP instead. Whether
    /// there is nothing left to be told of it. What a connection had taken before it broke fails as over any other.
    fn sends_over_udp(&mut self, lost: Flow, quoted: &[u8]) -> bool {
        let step = &mut self.step;
        if quoted.is_empty() {
            return false;
        }
        if self.stateful.as_deref_mut().is_some_and(|stateful| stateful.send_over_udp(step, lost, quoted)) {
            return true;
        }
        // Its transaction has ended meanwhile, unless it is an ACK, which has none.
        let has_ended = |message: &Message<'_>| {
            let is_proxys = message.top_via().branch.and_then(peek_ingress).is_some();
            is_proxys && message.method() != Some(Method::Ack)
        };
        if wire::scan(quoted).is_ok_and(|message| has_ended(&message)) {
            return false;
        }
        let Some((bytes, way)) = step.edge.over_udp(lost, quoted) else {
            return step.edge.has_left_by_udp(lost, quoted);
        };
        step.out.send(way, |buffer| buffer.extend_from_slice(&bytes));
        true
    }

    /// Ends a step: queued calls go to members that have room, and the events of the step are reported.
    pub(crate) fn conclude(&mut self) {
        self.serve_queues();
        for sign in self.step.balancer.drain_signs() {
            self.step.out.event(ShardEvent::Sign(sign));
        }
        if let Some(stateful) = self.stateful.as_deref_mut() {
            stateful.tell(self.step.out);
            stateful.tell_calls(&mut self.step);
        }
    }

    /// Whether a message belongs to a transaction, or is a copy of a refused request. If so, it has been processed.
    fn is_of_transactions(&mut self, flow: Flow, message: &Message<'_>) -> bool {
        let step = &mut self.step;
        if self.stateful.as_deref_mut().is_some_and(|stateful| stateful.takes(step, flow, message)) {
            return true;
        }
        if message.status().is_some() || message.fault().is_some() {
            return false;
        }
        let Some(refusal) = step.edge.refusals.of(message) else { return false };
        step.reject(flow, message, refusal.into());
        true
    }

    /// Processes a request that belongs to no transaction here.
    fn request(&mut self, flow: Flow, message: &Message<'_>) {
        if self.is_of_waiting(flow, message) {
            return;
        }
        let arrival = Arrival::read(self.step.edge, self.step.pools, flow, message);
        if let Err(rejection) = self.arrived(&arrival) {
            if let (Rejection::Answered(own), Some(stateful)) = (&rejection, self.stateful.as_deref_mut()) {
                stateful.refused_bye(self.step.edge, &arrival, own.status());
            }
            self.step.reject(flow, message, rejection);
        }
    }

    /// Forwards a request within a dialog by its proxy token, and any other request by [`go`](Self::go).
    fn arrived(&mut self, arrival: &Arrival<'_>) -> Result<(), Rejection> {
        arrival.lets_in(&self.step.edge.routes.access)?;
        arrival.check(&self.step.edge.topology.ports)?;
        // Whose sender a neighbour has not authenticated goes past no authentication here, whatever its Route says.
        if self.step.edge.is_asked(arrival.message, arrival.flow.peer) {
            return self.go_or_refuse(arrival, Progress::default());
        }
        if let Some(stateful) = self.stateful.as_deref_mut()
            && stateful.within(&mut self.step, arrival)?
        {
            return Ok(());
        }
        if arrival.route.flow.is_some() && self.go_by_flow(arrival)? {
            return Ok(());
        }
        self.go_or_refuse(arrival, Progress::default())
    }

    /// Takes up a request again after its wait, with its progress.
    pub(crate) fn take(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        mut progress: Progress,
    ) -> Result<(), Rejection> {
        let arrival = Arrival::read(self.step.edge, self.step.pools, flow, message);
        if let Err(refused) = arrival.check(&self.step.edge.topology.ports) {
            progress.refuse();
            return Err(refused.into());
        }
        self.go_or_refuse(&arrival, progress)
    }

    /// Forwards a request, or answers it. The ticket of a rejected request ends here.
    fn go_or_refuse(&mut self, arrival: &Arrival<'_>, mut progress: Progress) -> Result<(), Rejection> {
        let gone = self.go(arrival, &mut progress);
        if let Err(rejection) = &gone {
            if let (Rejection::Dropped(_), Some(charge)) = (rejection, &progress.charge) {
                self.step.edge.gate.drops(self.step.edge.now, charge);
            }
            progress.refuse();
        }
        gone
    }

    fn go(&mut self, arrival: &Arrival<'_>, progress: &mut Progress) -> Result<(), Rejection> {
        let destination = self.step.destination(arrival, self.stateless, self.home.as_deref())?;
        if let To::Outside(Err(rejection)) = destination.to {
            // A node that hangs up has done with the call, whoever hears of it.
            if arrival.method == Method::Bye {
                self.step.balancer.request(self.step.edge.now, &destination.request);
            }
            return Err(rejection);
        }
        if self.at_home(arrival, &destination, progress)? == Stage::Done {
            return Ok(());
        }
        match destination.to {
            To::Contacts => self.locate(arrival, &destination, progress),
            To::Address(hop) => self.relay(arrival, &destination, hop, progress),
            To::Onward => self.onward(arrival, &destination, progress),
            To::Followed(slot) => {
                self.step.follow(arrival, &destination.request, progress)?;
                self.pass(arrival, &destination, slot, RecordRoute::Stateless, progress);
                Ok(())
            }
            To::Member | To::Outside(_) | To::Orphan | To::Registrar => {
                self.balance(arrival, &destination, progress)
            }
        }
    }

    /// Whether a request that goes there is a copy of one that went on without a transaction, or belongs to one: it is not
    /// refused for what has changed since.
    fn has_gone(&self, arrival: &Arrival<'_>, to: &To) -> bool {
        let (stateless, edge) = (&self.stateless, &self.step.edge);
        let (message, from) = (arrival.message, arrival.flow.peer);
        match to {
            To::Contacts => stateless.recent_contacts.of(edge, message, from).is_some(),
            To::Address(_) => stateless.recent_relays.of(edge, message, from).is_some(),
            _ => stateless.recent_hops.of(edge, message, from).is_some(),
        }
    }

    /// The services of the home domain: authentication of the sender, where a route asks for it, and the registrar.
    fn at_home(
        &mut self,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        progress: &mut Progress,
    ) -> Result<Stage, Rejection> {
        let is_located = matches!(destination.to, To::Contacts);
        let is_for_registrar = matches!(destination.to, To::Registrar);
        let is_new = arrival.message.to_tag().is_none();
        let is_asked = self.step.edge.is_asked(arrival.message, arrival.flow.peer);
        // The ACK to a challenge has the Via of its INVITE (RFC 3261 §17.1.1.3), and takes its way.
        let follows = || self.has_gone(arrival, &destination.to);
        let can_verify = is_new && self.home.as_ref().is_some_and(|home| home.realm().is_some());
        if is_asked && !can_verify && !(arrival.method == Method::Ack && follows()) {
            return Err(NOBODY_VERIFIES.into());
        }
        if is_new && self.step.edge.is_vouched(arrival.message, arrival.flow.peer) {
            progress.proof = Proof::Before;
        }
        if self.home.is_none() && !is_located {
            return Ok(Stage::GoesOn);
        }
        let step = &mut self.step;
        // [22.1-3] Neither is challenged. What belongs to a transaction or dialog of ours has been taken already.
        let is_about = !arrival.begins_transaction();
        let from_member = arrival.member.is_some();
        let is_passed = match self.home.as_ref().map(|home| home.forward()) {
            // Nobody remembers where the INVITE went: the same question has the same answer.
            Some(Forward::Stateless) => true,
            Some(Forward::Distributed) => {
                let recent = &self.stateless.recent_contacts;
                recent.of(step.edge, arrival.message, arrival.flow.peer).is_some()
            }
            Some(Forward::Transaction | Forward::Dialog) | None => false,
        };
        if is_about && is_located && is_passed {
            return Ok(Stage::GoesOn);
        }
        if !is_new || is_about {
            // A To tag that somebody made up would stand for a password.
            let is_doubtful = step.edge.realm.is_some() && arrival.held().is_none() && !from_member;
            return match arrival.method {
                Method::Ack if is_located => Err(Rejection::Dropped(Drop::Orphan)),
                _ if is_located || (is_doubtful && !is_about) => Err(UNKNOWN_DIALOG.into()),
                _ => Ok(Stage::GoesOn),
            };
        }
        let asks = destination.rule.is_some_and(|rule| step.edge.routes.rule(rule).authenticate);
        let authenticates = is_for_registrar || is_asked || (asks && !from_member);
        if !(authenticates || is_located) {
            return Ok(Stage::GoesOn);
        }
        let has_gone = self.has_gone(arrival, &destination.to);
        let step = &mut self.step;
        if has_gone {
            step.take_copy(arrival, &destination.request, progress)?;
        } else {
            step.admit(arrival, &destination.request, progress)?;
        }
        let Some(home) = self.home.as_deref_mut() else { return Ok(Stage::GoesOn) };
        if is_for_registrar {
            // A neighbour vouches for a caller, and not for who may register.
            if progress.user().is_none() && home.authenticate(step, arrival, progress)? == Stage::Done {
                return Ok(Stage::Done);
            }
            home.register(step, arrival, progress)?;
            return Ok(Stage::Done);
        }
        if authenticates && home.authenticate_caller(step, arrival, destination, progress)? == Stage::Done {
            return Ok(Stage::Done);
        }
        home.check_from(step.edge, arrival.message, progress)?;
        Ok(Stage::GoesOn)
    }

    /// Sends a request to the contacts of the address-of-record in its Request-URI. Asks the store for them first.
    fn locate(
        &mut self,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        let forward = self.home.as_ref().map(|home| home.forward()).unwrap_or_default();
        let Arrival { flow, message, .. } = *arrival;
        if matches!(forward, Forward::Stateless | Forward::Distributed)
            && let Some(contact) = self.stateless.recent_contacts.of(self.step.edge, message, flow.peer)
        {
            self.pass_to_contact(arrival, destination, &contact, progress);
            return Ok(());
        }
        let step = &mut self.step;
        let Some(bindings) = progress.bindings.take() else {
            let aor = step.edge.sought(destination.rule, arrival)?;
            let Some(home) = self.home.as_deref_mut() else { return Err(STORE_SILENT.into()) };
            return home.look_up(step, arrival, aor, progress);
        };
        let Some(stateful) = self.stateful.as_deref_mut() else { return Err(NO_CONTACT.into()) };
        let is_shared = forward == Forward::Distributed;
        let mut forward = kept_as(step.edge, arrival, forward);
        check_from_tag(arrival.message, forward == Forward::Dialog)?;
        if forward != Forward::Stateless && !is_shared {
            stateful.check_new(step, arrival, destination, forward)?;
        }
        let mut contacts = match contacts(step, arrival, &bindings, &progress.resolved) {
            Ok(contacts) => contacts,
            Err(NoHop::Unresolved(name)) => {
                let Some(home) = self.home.as_deref_mut() else { return Err(NO_CONTACT.into()) };
                progress.bindings = Some(bindings);
                return home.wait_for_name(step, arrival, name, progress);
            }
            Err(NoHop::Refused(refused)) => return Err(refused.into()),
        };
        let mut may_go = limited::hop_filter(step, arrival, &destination.request, progress.begins());
        if forward == Forward::Stateless {
            contacts = contacts.into_iter().find(move |contact| may_go(contact.hop)).into_iter().collect();
        } else {
            contacts.retain(move |contact| may_go(contact.hop));
        }
        let Some(first) = contacts.first() else { return Err(NEXT_HOP_OVERLOADED.into()) };
        if is_shared {
            let has_room = has_room(stateful, step.edge, message);
            // A request that forks needs state (RFC 3261 §16.11).
            let may_pass = contacts.len() == 1;
            if may_pass && !step.edge.keeps(message, flow.peer, first.hop.peer, has_room, step.out) {
                forward = Forward::Stateless;
            } else {
                stateful.check_new(step, arrival, destination, forward)?;
            }
        }
        if forward == Forward::Stateless {
            let contact = Arc::new(contacts.remove(0));
            if arrival.begins_transaction() {
                let key = copies_key(&step.edge.tokens, message, flow.peer);
                self.stateless.recent_contacts.note(step.edge.now, key, Arc::clone(&contact));
            }
            self.pass_to_contact(arrival, destination, &contact, progress);
            return Ok(());
        }
        step.goes_on(progress);
        let rule = destination.rule.map(|rule| (Arc::clone(&step.edge.routes), rule));
        let located = Located::new(contacts, RING_TIME, rule);
        stateful.begin_located(step, arrival, destination, located, forward == Forward::Dialog, progress)
    }

    /// Sends a request to the address that it names, as a stateless proxy. The requests of its dialogs go from end to end.
    fn relay(
        &mut self,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        hop: Flow,
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        let Arrival { flow, message, .. } = *arrival;
        let step = &mut self.step;
        let recent = &mut self.stateless.recent_relays;
        if recent.of(step.edge, message, flow.peer).is_some() {
            step.follow(arrival, &destination.request, progress)?;
        } else {
            step.admit(arrival, &destination.request, progress)?;
            let begins = progress.begins();
            if !limited::hop_filter(step, arrival, &destination.request, begins)(hop) {
                return Err(NEXT_HOP_OVERLOADED.into());
            }
            step.goes_on(progress);
        }
        if arrival.begins_transaction() {
            recent.note(step.edge.now, copies_key(&step.edge.tokens, message, flow.peer), ());
        }
        let routes = destination.rule.map(|rule| (Arc::clone(&step.edge.routes), rule));
        let onward = Onward {
            rule: routes.as_ref().map(|(routes, rule)| routes.rule(*rule)),
            ..Onward::of(flow, hop, RecordRoute::No)
        };
        let older = recent.is_older_than_key(step.edge, message, flow.peer);
        pass(step, message, &onward, destination.routing, &Refresh::of(true), older);
        progress.pass();
        Ok(())
    }

    /// Sends a request to the contact of a user without a transaction.
    fn pass_to_contact(
        &mut self,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        contact: &Contact,
        progress: &mut Progress,
    ) {
        let (step, message) = (&mut self.step, arrival.message);
        step.goes_on(progress);
        let routes = destination.rule.map(|rule| (Arc::clone(&step.edge.routes), rule));
        let onward = Onward {
            contact: Some(contact),
            rule: routes.as_ref().map(|(routes, rule)| routes.rule(*rule)),
            keeps: arrival.begins_transaction().then_some(false),
            proof: progress.proof.told(),
            ..Onward::of(arrival.flow, contact.hop, RecordRoute::Stateless)
        };
        let older = self.stateless.recent_contacts.is_older_than_key(step.edge, message, arrival.flow.peer);
        pass(step, message, &onward, destination.routing, &Refresh::of(true), older);
        progress.pass();
    }

    /// Asks the balancer for a member or next hop, and sends the request there, with a transaction or without.
    fn onward(
        &mut self,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        let step = &mut self.step;
        let (message, request) = (arrival.message, &destination.request);
        let service = step.pools.service(request.pool);
        let forward = service.forward();
        let begins = arrival.begins_transaction();
        // A CANCEL or ACK of what is kept has found its transaction by now.
        let may_keep = service.has_transactions() || (forward == Forward::Distributed && begins);
        let named = if service.has_hops() { step.named_member(arrival, destination)? } else { None };
        let has_members = step.balancer.members(request.pool).next().is_some();
        self.check_onward(arrival, destination, has_members)?;
        let step = &mut self.step;
        // With a transaction that is found by now, unless it began without one.
        let may_be_passed = !service.has_transactions() || !self.stateless.recent_hops.is_empty();
        let key = may_be_passed.then(|| copies_key(&step.edge.tokens, message, arrival.flow.peer));
        let followed = key.filter(|_| named.is_none());
        let follows = followed.and_then(|key| self.stateless.recent_hops.hop(key, step.balancer));
        let (slot, pool, why) = if let Some(slot) = follows {
            step.follow(arrival, request, progress)?;
            (slot, request.pool, Why::Session)
        } else {
            match step.assign(arrival, destination, progress, named) {
                Ok(Assignment::Member { slot, pool, why }) => (slot, pool, why),
                Ok(Assignment::Waits) => return Ok(()),
                Ok(Assignment::Search) => return Err(NO_SERVER.into()),
                // Its INVITE has gone to one of them, and nobody remembers which.
                Err(_) if !begins && !may_keep && has_members => {
                    let slot = member_by_call(step.balancer, request).ok_or(NO_SERVER)?;
                    (slot, request.pool, Why::Session)
                }
                Err(rejection) => return Err(rejection),
            }
        };
        let is_unproved = matches!(progress.proof, Proof::Behind);
        if is_unproved && !step.edge.verifies_behind(step.edge.topology.node(slot).peer) {
            return Err(NOBODY_VERIFIES.into());
        }
        if !(may_keep && follows.is_none() && self.keeps(arrival, service, slot)) {
            if let Some(key) = key.filter(|_| begins) {
                self.stateless.recent_hops.note(self.step.edge.now, key, slot);
            }
            let record_route = if service.records_route() { RecordRoute::Stateless } else { RecordRoute::No };
            self.pass(arrival, destination, slot, record_route, progress);
            return Ok(());
        }
        let (step, Some(stateful)) = (&mut self.step, self.stateful.as_deref_mut()) else {
            return Err(NO_SERVER.into());
        };
        let kept_as = kept_as(step.edge, arrival, forward);
        if forward == Forward::Distributed {
            stateful.check_new(step, arrival, destination, kept_as)?;
        }
        // Another one might be none that verifies.
        let is_fixed = request.in_dialog || named.is_some() || is_unproved;
        // What comes again with credentials is for the member that asked for them.
        let may_move = !is_fixed && arrival.method == Method::Invite && why == Why::Policy;
        let patience = step.queues.as_deref().filter(|_| may_move).and_then(|queues| queues.patience(pool));
        let assigned = Assigned {
            patience,
            ..assigned(step.edge, destination, (service, kept_as), pool, slot, is_fixed)
        };
        stateful.begin(step, arrival, destination, assigned, service.counts_calls(), progress)
    }

    /// Checks whether a request may go to a next hop, or on with a transaction, by the request and its pool alone.
    fn check_onward(
        &mut self,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        has_members: bool,
    ) -> Result<(), Rejection> {
        let step = &mut self.step;
        let service = step.pools.service(destination.request.pool);
        let forward = kept_as(step.edge, arrival, service.forward());
        let is_counted = forward == Forward::Dialog || (service.has_hops() && service.counts_calls());
        check_from_tag(arrival.message, is_counted)?;
        let Some(stateful) = self.stateful.as_deref_mut() else { return Err(NO_SERVER.into()) };
        if service.has_transactions() {
            stateful.check_new(step, arrival, destination, forward)?;
        }
        if service.has_hops() && has_members && is_about_us(step.edge, arrival.message) {
            return Err(Rejection::Answered(OwnResponse::Capabilities));
        }
        Ok(())
    }

    /// Sends a request without a transaction: to the member that the balancer chooses, or out of the pool where a
    /// member sends it.
    fn balance(
        &mut self,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        let step = &mut self.step;
        match step.assign(arrival, destination, progress, None)? {
            Assignment::Member { slot, .. } => {
                if let Some(refreshed) = destination.refreshed {
                    step.edge.targets.note(refreshed);
                }
                send_to(step, arrival, destination, slot, false);
            }
            Assignment::Search => self.stateless.search(step, arrival, destination)?,
            Assignment::Waits => return Ok(()),
        }
        progress.pass();
        Ok(())
    }

    /// Sends a request to a next hop without a transaction.
    fn pass(
        &mut self,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        slot: Slot,
        record_route: RecordRoute,
        progress: &mut Progress,
    ) {
        let (step, message) = (&mut self.step, arrival.message);
        let routes = destination.rule.map(|rule| (Arc::clone(&step.edge.routes), rule));
        let onward = Onward {
            rule: routes.as_ref().map(|(routes, rule)| routes.rule(*rule)),
            keeps: arrival.begins_transaction().then_some(false),
            proof: progress.proof.told(),
            ..Onward::of(arrival.flow, step.edge.topology.node(slot), record_route)
        };
        let older = self.stateless.recent_hops.is_older_than_key(step.edge, message, arrival.flow.peer);
        pass(step, message, &onward, destination.routing, &Refresh::of(true), older);
        step.balancer.count_request(step.edge.now, slot, &destination.request);
        progress.pass();
    }

    /// Whether this proxy of the chain keeps the transaction of a request.
    fn keeps(&mut self, arrival: &Arrival<'_>, service: Service, slot: Slot) -> bool {
        let hop = self.step.edge.topology.node(slot).peer;
        let (edge, message) = (&*self.step.edge, arrival.message);
        let has_room = self.stateful.as_ref().is_some_and(|stateful| has_room(stateful, edge, message));
        let Step { edge, out, .. } = &mut self.step;
        service.has_transactions() || edge.keeps(arrival.message, arrival.flow.peer, hop, has_room, out)
    }
}

/// Whether there is room for the state of another request, and of the call that it may begin.
fn has_room(stateful: &Stateful, edge: &Edge, message: &Message<'_>) -> bool {
    stateful.has_room(message) && (!edge.shares_dialogs() || stateful.has_room_for_call(edge, message))
}

/// What is kept of a request whose state is kept here. A call that has its record at a proxy before us gets no second one.
fn kept_as(edge: &Edge, arrival: &Arrival<'_>, forward: Forward) -> Forward {
    let has_record = || edge.has_record_elsewhere(arrival.message, arrival.flow.peer);
    match forward {
        Forward::Distributed if edge.shares_dialogs() => Forward::Dialog,
        Forward::Distributed => Forward::Transaction,
        Forward::Dialog if has_record() => Forward::Transaction,
        Forward::Stateless | Forward::Transaction | Forward::Dialog => forward,
    }
}

/// A request that goes to this member of a pool first; with `is_fixed`, to no other member.
fn assigned(
    edge: &Edge,
    destination: &Destination<'_>,
    (service, kept_as): (Service, Forward),
    pool: PoolId,
    slot: Slot,
    is_fixed: bool,
) -> Assigned {
    let (fork, ring_time) = service.fork();
    Assigned {
        request: Request { pool, call_id: &[], ..destination.request },
        dialogs: service.dialogs(),
        record_route: record_route_of(service, kept_as),
        is_fixed,
        fork: if is_fixed { Fork::None } else { fork },
        ring_time,
        rule: destination.rule.map(|rule| (Arc::clone(&edge.routes), rule)),
        tried: [slot].into_iter().collect(),
        pools: 1,
        since: edge.now,
        failed: None,
        patience: None,
        moved: None,
    }
}

/// The Record-Route of a dialog whose first transaction is kept here.
fn record_route_of(service: Service, kept_as: Forward) -> RecordRoute {
    match (kept_as, service.forward()) {
        (Forward::Dialog, _) => RecordRoute::WithDialogs,
        // Who keeps the transactions of a call sees its dialogs, too.
        (_, Forward::Distributed) => RecordRoute::WithTransactions,
        _ if service.records_route() => RecordRoute::WithTransactions,
        _ => RecordRoute::No,
    }
}
