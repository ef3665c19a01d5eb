//! The path of a message through a shard: recall, read, decide, admit, act.
//!
//! A request may wait for a store, a host name or room in a queue. After its wait it is read and processed again from
//! the beginning, with its [`Progress`] (`events.rs`).

use crate::address::contact::Contact;
use crate::admission::{NEXT_HOP_OVERLOADED, Novelty, Ticket};
use crate::decide::destination::{Destination, To};
use crate::decide::limited;
use crate::decide::member::{Assignment, NO_SERVER, assign, member_by_call, named_member};
use crate::forward::contacts::{NO_CONTACT, contacts, sought};
use crate::forward::onward::{Onward, RecordRoute};
use crate::forward::stateful::{PoolTargets, Source, Stateful, Targets};
use crate::forward::stateless::{Stateless, send_to};
use crate::gate;
use crate::outcome::Outcome;
use crate::outcome::counters::Drop;
use crate::outcome::rejection::{CREDENTIALS_NOT_VERIFIED, OwnResponse, Rejection, refused};
use crate::queue::CALL_WAITS_TOO_LONG;
use crate::read::arrival::Arrival;
use crate::read::progress::{Progress, Proof, Stage};
use crate::registrar::serve::{find_caller, serve};
use crate::registrar::{Registrar, STORE_SILENT};
use crate::seen::{Hop, RequestResult};
use crate::shard::plan::{Plan, plan};
use crate::shard::recall::{Recalled, recall};
use crate::site::Site;
use crate::site::marks::{has_record_elsewhere, keeps, shares_dialogs, verifies_behind};
use crate::site::names::NoHop;
use crate::site::record::check_from_tag;
use crate::site::reply::{acknowledges_us, is_about_us, is_acknowledgement_of_us};
use crate::step::Step;
use balance::{RequestFacts, Slot, Why};
use base::Flow;
use route::{Forward, Service};
use std::sync::Arc;
use transaction::ServerKey;
use wire::{Message, Method};

/// One step of a shard, with all parts of the shard that a message or a timer may need.
pub(crate) struct Pipeline<'a> {
    pub(crate) step: Step<'a>,
    pub(crate) stateless: &'a mut Stateless,
    /// The transactions; `None` if no pool keeps any.
    pub(crate) stateful: Option<&'a mut Stateful>,
    pub(crate) registrar: Option<&'a mut Registrar>,
}

impl Pipeline<'_> {
    pub(crate) fn message(&mut self, flow: Flow, bytes: &[u8]) -> Outcome {
        self.stateless.search_limits.heard(self.step.site.now);
        let site = &mut *self.step.site;
        if self.stateful.is_none() && site.seen.has_refused() && is_acknowledgement_of_us(site, bytes) {
            site.drop_acknowledgement();
            return Outcome::Handled;
        }
        let message = self.step.site.read(bytes);
        let outcome = message.as_ref().map_or(Outcome::Handled, |message| self.process(flow, message));
        self.step.site.tell(flow, message.as_ref(), self.step.out);
        outcome
    }

    fn process(&mut self, flow: Flow, message: &Message<'_>) -> Outcome {
        let step = &mut self.step;
        let is_request = message.status().is_none();
        let key = |step: &Step<'_>| step.site.seen.keys.request(message);
        let known = (is_request && self.stateful.is_some()).then(|| key(step));
        if self.stateful.as_deref_mut().is_some_and(|stateful| stateful.takes(step, flow, message, known)) {
            return Outcome::Handled;
        }
        if acknowledges_us(step.site, message) {
            // An ACK to our own response takes little work, so it does not count for the number of requests that this
            // thread can handle.
            step.site.discard(Drop::Ack);
        } else if is_request {
            let known = known.or_else(|| (!step.site.seen.is_empty()).then(|| key(step)));
            return self.request(flow, message, known);
        } else if !step.site.keep_alives.hear(flow, message) {
            self.stateless.response(step, flow, message);
        }
        Outcome::Handled
    }

    /// Processes a request that belongs to no transaction here.
    fn request(&mut self, flow: Flow, message: &Message<'_>, key: Option<ServerKey>) -> Outcome {
        match recall(&mut self.step, self.registrar.as_deref_mut(), flow, message, key) {
            None => {}
            Some(Recalled::Repetition) => return self.handled(flow, message),
            Some(Recalled::Cancelled(mut waiter)) => {
                waiter.progress.refuse();
                let terminated = refused(487, "Request Terminated").into();
                self.refuse_waiter(waiter.flow, &waiter.bytes, waiter.progress.got_trying, terminated);
                return self.handled(flow, message);
            }
        }
        let arrival = Arrival::read(self.step.site, self.step.pools, flow, message, key);
        // A copy of a refused request gets the same response. It takes little work, so it does not count for the number
        // of requests that this thread can handle.
        if let Some(refused) = arrival.refused()
            && arrival.check(&self.step.site.topology.ports).is_ok()
        {
            self.step.reject(flow, message, arrival.seen, refused.into());
            return Outcome::Handled;
        }
        if let Err(rejection) = self.arrived(&arrival) {
            if let (Rejection::Answered(own), Some(stateful)) = (&rejection, self.stateful.as_deref_mut()) {
                stateful.refused_bye(self.step.site, &arrival, own.status());
            }
            self.step.reject(flow, message, arrival.seen, rejection);
            if matches!(rejection, Rejection::Overloaded(_)) {
                return Outcome::Overloaded;
            }
        }
        self.handled(flow, message)
    }

    /// Reports to overload control a request that has caused work.
    fn handled(&mut self, flow: Flow, message: &Message<'_>) -> Outcome {
        let Site { admission, now, .. } = &mut *self.step.site;
        admission.overload.handled(*now, flow, message);
        Outcome::Handled
    }

    fn arrived(&mut self, arrival: &Arrival<'_>) -> Result<(), Rejection> {
        arrival.lets_in(&self.step.site.routes.access)?;
        arrival.check(&self.step.site.topology.ports)?;
        self.go_or_refuse(arrival, Progress::default())
    }

    /// Continues a request after its wait, with its progress.
    pub(crate) fn take(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        mut progress: Progress,
    ) -> Result<(), Rejection> {
        let arrival = Arrival::read(self.step.site, self.step.pools, flow, message, None);
        if let Err(refused) = arrival.check(&self.step.site.topology.ports) {
            progress.refuse();
            return Err(refused.into());
        }
        self.go_or_refuse(&arrival, progress)
    }

    /// Refuses a call that has waited for a member. `got_trying`: the caller got a 100, so it sends no copies (RFC 3261
    /// §17.1.1.2), and a lost answer could not be repeated. Such a caller always gets an answer, which is retransmitted
    /// until the ACK.
    pub(crate) fn refuse_waiter(&mut self, flow: Flow, bytes: &[u8], got_trying: bool, rejection: Rejection) {
        let Ok(message) = wire::scan(bytes) else { return };
        let rejection = match rejection {
            Rejection::Dropped(Drop::QueueFull) if got_trying => CALL_WAITS_TOO_LONG.into(),
            rejection => rejection,
        };
        match (rejection, self.stateful.as_deref_mut()) {
            (Rejection::Answered(own), Some(stateful)) if got_trying && stateful.has_room(&message) => {
                stateful.answer_waiter(&mut self.step, flow, &message, own);
            }
            (rejection, _) => self.step.reject(flow, &message, None, rejection),
        }
        self.step.site.tell(flow, Some(&message), self.step.out);
    }

    /// Forwards or answers a request, and records the result. The ticket of a rejected request ends here.
    fn go_or_refuse(&mut self, arrival: &Arrival<'_>, mut progress: Progress) -> Result<(), Rejection> {
        let gone = self.go(arrival, &mut progress);
        let is_silent = match gone {
            Err(Rejection::Dropped(_)) => true,
            Err(Rejection::By(refuser)) => self.step.site.routes.answer(refuser).is_err(),
            _ => false,
        };
        if is_silent && progress.novelty() != Novelty::Part {
            self.note(arrival, RequestResult::Dropped);
        }
        if gone.is_err() {
            progress.refuse();
        }
        gone
    }

    fn go(&mut self, arrival: &Arrival<'_>, progress: &mut Progress) -> Result<(), Rejection> {
        let Self { step, stateless, stateful, registrar } = self;
        let early = |step: &mut Step<'_>, request: &RequestFacts<'_>, goes_by_rule: bool| {
            gate::admit_early(step, arrival, request, goes_by_rule, progress)
        };
        let plan = plan(step, arrival, stateless, stateful.as_deref(), registrar.as_deref(), early)?;
        match (plan, stateful) {
            (Plan::Dialog(hop), Some(stateful)) => stateful.forward_within(step, arrival, hop),
            (Plan::Flow(hop), Some(stateful)) => {
                stateful.check_limit(step.site, arrival.message, false)?;
                let request = arrival.request(step.site);
                gate::admit(step, arrival, &request, progress)?;
                stateful.begin_by_flow(step, arrival, &hop, progress);
                Ok(())
            }
            (Plan::To(destination), _) => {
                let rule = destination.rule;
                self.go_to(arrival, destination, progress)
                    .inspect_err(|_| self.step.site.failed_by_rule(rule))
            }
            (Plan::Dialog(_) | Plan::Flow(_), None) => Err(NO_SERVER.into()),
        }
    }

    /// Sends a request that no token of a proxy directs to its destination.
    fn go_to(
        &mut self,
        arrival: &Arrival<'_>,
        mut destination: Destination<'_>,
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        if let To::Outside(Err(rejection)) = destination.to {
            // A member that sends a BYE has finished its part of the call, even if the BYE cannot be delivered.
            if arrival.method == Method::Bye {
                self.step.balancer.request(self.step.site.now, &destination.request);
            }
            return Err(rejection);
        }
        if matches!(destination.to, To::Onward) {
            self.check_onward(arrival, &destination)?;
        }
        gate::admit(&mut self.step, arrival, &destination.request, progress)?;
        let novelty = progress.novelty();
        if serve(&mut self.step, self.registrar.as_deref_mut(), arrival, &destination, progress)?
            == Stage::Done
        {
            return Ok(());
        }
        if find_caller(&mut self.step, self.registrar.as_deref_mut(), arrival, &destination, progress)
            == Stage::Done
        {
            return Ok(());
        }
        destination.is_at_source = progress.is_at_source == Some(true);
        let stage = match destination.to {
            To::Contacts => self.locate(arrival, &destination, progress),
            To::Address(hop) => self.relay(arrival, &destination, hop, progress),
            To::Onward => self.onward(arrival, &destination, progress),
            To::Followed(slot) => {
                Ok(self.pass(arrival, &destination, slot, RecordRoute::Stateless, progress))
            }
            To::Member | To::Outside(_) | To::Orphan | To::Registrar => {
                self.balance(arrival, &destination, progress)
            }
        };
        if let Act::Forwarded(hop) = stage?
            && (hop.is_some() || novelty != Novelty::Part)
        {
            self.note(arrival, RequestResult::Forwarded(hop));
        }
        Ok(())
    }

    /// Records where a request went without a transaction. If sources are charged, also records requests with a
    /// transaction.
    fn note(&mut self, arrival: &Arrival<'_>, became: RequestResult) {
        let Site { seen, tokens, admission, now, .. } = &mut *self.step.site;
        if matches!(became, RequestResult::Forwarded(Some(_))) || admission.is_charging() {
            let new = || seen.request_key(tokens, arrival.message, arrival.key, arrival.flow.peer);
            let key = arrival.seen.unwrap_or_else(new);
            seen.note(*now, key, became);
        }
    }

    /// Sends a request to the contacts of the address-of-record in its Request-URI, after asking the store for them.
    fn locate(
        &mut self,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        progress: &mut Progress,
    ) -> Result<Act, Rejection> {
        let forward = self.registrar.as_ref().map(|registrar| registrar.forward()).unwrap_or_default();
        let Arrival { flow, message, .. } = *arrival;
        if matches!(forward, Forward::Stateless | Forward::Distributed)
            && let Some(Hop::Contact(contact)) = arrival.hop()
        {
            return Ok(self.pass_to_contact(arrival, destination, contact, progress));
        }
        let step = &mut self.step;
        let Some(bindings) = progress.bindings.take() else {
            let aor = sought(step.site, destination.rule, arrival)?;
            let Some(registrar) = self.registrar.as_deref_mut() else { return Err(STORE_SILENT.into()) };
            return registrar.look_up(step, arrival, aor, progress).map(|()| Act::Waits);
        };
        let Some(stateful) = self.stateful.as_deref_mut() else { return Err(NO_CONTACT.into()) };
        let is_shared = forward == Forward::Distributed;
        let mut forward = kept_as(step.site, arrival, forward);
        check_from_tag(arrival.message, forward == Forward::Dialog)?;
        if forward != Forward::Stateless && !is_shared {
            stateful.check_new(step, arrival, destination, forward)?;
        }
        let mut contacts = match contacts(step, arrival, &bindings, &progress.resolved) {
            Ok(contacts) => contacts,
            Err(NoHop::Unresolved(name)) => {
                let Some(registrar) = self.registrar.as_deref_mut() else { return Err(NO_CONTACT.into()) };
                progress.bindings = Some(bindings);
                return registrar.wait_for_name(step, arrival, name, progress).map(|()| Act::Waits);
            }
            Err(NoHop::Refused(refused)) => return Err(refused.into()),
        };
        let mut may_go = limited::hop_filter(step, &destination.request, progress.novelty());
        if forward == Forward::Stateless {
            contacts = contacts.into_iter().find(move |contact| may_go(contact.hop)).into_iter().collect();
        } else {
            contacts.retain(move |contact| may_go(contact.hop));
        }
        let Some(first) = contacts.first() else { return Err(NEXT_HOP_OVERLOADED.into()) };
        if is_shared {
            let has_room = has_room(stateful, step.site, message);
            // A request that forks needs state (RFC 3261 §16.11).
            let may_pass = contacts.len() == 1;
            if may_pass && !keeps(step.site, message, flow.peer, first.hop.peer, has_room, step.out) {
                forward = Forward::Stateless;
            } else {
                stateful.check_new(step, arrival, destination, forward)?;
            }
        }
        if forward == Forward::Stateless {
            return Ok(self.pass_to_contact(arrival, destination, &Arc::new(contacts.remove(0)), progress));
        }
        let targets = Targets::new(Source::Contacts(contacts));
        stateful.begin(step, arrival, destination, forward, targets, progress)?;
        Ok(Act::Forwarded(None))
    }

    /// Sends a request to the address that it names, as a stateless proxy. Later requests of its dialog do not pass
    /// this proxy.
    fn relay(
        &mut self,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        hop: Flow,
        progress: &mut Progress,
    ) -> Result<Act, Rejection> {
        let (step, request) = (&mut self.step, &destination.request);
        let is_copy = matches!(arrival.hop(), Some(Hop::Address));
        if !is_copy && !limited::hop_filter(step, request, progress.novelty())(hop) {
            return Err(NEXT_HOP_OVERLOADED.into());
        }
        let onward = Onward::of(arrival, hop, RecordRoute::No);
        Ok(self.send(arrival, destination, &onward, Hop::Address, progress.hand_over()))
    }

    /// Sends a request to the contact of a user without a transaction.
    fn pass_to_contact(
        &mut self,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        contact: &Arc<Contact>,
        progress: &mut Progress,
    ) -> Act {
        let onward = Onward {
            contact: Some(contact),
            is_to_client: contact.is_registered,
            keeps: arrival.begins_transaction().then_some(false),
            proof: progress.proof.mark(),
            ..Onward::of(arrival, contact.hop, RecordRoute::Stateless)
        };
        self.send(arrival, destination, &onward, Hop::Contact(Arc::clone(contact)), progress.hand_over())
    }

    fn send(
        &mut self,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        onward: &Onward<'_>,
        hop: Hop,
        ticket: Ticket,
    ) -> Act {
        let Step { site, out, .. } = &mut self.step;
        let routes = Arc::clone(&site.routes);
        let onward = Onward {
            rule: destination.rule.map(|rule| routes.rule(rule)),
            is_at_source: destination.is_at_source,
            routing: destination.routing,
            key: arrival.key(site),
            ..*onward
        };
        onward.send(site, arrival.message, out, &ticket);
        ticket.pass();
        Act::Forwarded(Some(hop).filter(|_| arrival.begins_transaction()))
    }

    /// Asks the balancer for a member or next hop, and sends the request there with or without a transaction.
    fn onward(
        &mut self,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        progress: &mut Progress,
    ) -> Result<Act, Rejection> {
        let step = &mut self.step;
        let request = &destination.request;
        let service = step.pools.service(request.pool);
        let forward = service.forward();
        let begins = arrival.begins_transaction();
        // A CANCEL or ACK for a kept transaction has already found that transaction.
        let may_keep = service.has_transactions() || (forward == Forward::Distributed && begins);
        let named = if service.has_hops() { named_member(step, arrival, destination)? } else { None };
        let follows = arrival.hop().filter(|_| named.is_none()).and_then(|hop| hop.member(step.balancer));
        let (slot, pool, why) = if let Some(slot) = follows {
            (slot, request.pool, Why::Session)
        } else {
            match assign(step, arrival, destination, progress, named) {
                Ok(Assignment::Member { slot, pool, why }) => (slot, pool, why),
                Ok(Assignment::Waits) => return Ok(Act::Waits),
                // The INVITE of this request went to one of the members, and no record shows to which one.
                Ok(Assignment::Search) | Err(_) if arrival.method == Method::Ack || !begins && !may_keep => {
                    let slot = member_by_call(step.balancer, request).ok_or(NO_SERVER)?;
                    (slot, request.pool, Why::Session)
                }
                Ok(Assignment::Search) => return Err(NO_SERVER.into()),
                Err(rejection) => return Err(rejection),
            }
        };
        let is_unproved = matches!(progress.proof, Proof::Behind);
        if is_unproved && !verifies_behind(step.site, step.site.topology.node(slot).peer) {
            return Err(CREDENTIALS_NOT_VERIFIED.into());
        }
        if !(may_keep && follows.is_none() && self.keeps(arrival, service, slot)) {
            let record_route = if service.records_route() { RecordRoute::Stateless } else { RecordRoute::No };
            return Ok(self.pass(arrival, destination, slot, record_route, progress));
        }
        let (step, Some(stateful)) = (&mut self.step, self.stateful.as_deref_mut()) else {
            return Err(NO_SERVER.into());
        };
        let kept_as = kept_as(step.site, arrival, forward);
        if forward == Forward::Distributed {
            stateful.check_new(step, arrival, destination, kept_as)?;
        }
        // Another member might not verify credentials.
        let is_fixed = request.in_dialog || named.is_some() || is_unproved;
        // A request repeated with credentials belongs to the member that asked for them.
        let may_move = !is_fixed && arrival.method == Method::Invite && why == Why::Policy;
        let patience = may_move.then(|| step.invite_timeout(destination.rule, pool)).flatten();
        let request = RequestFacts { pool, call_id: &[], ..destination.request };
        let record_route = record_route_of(service, kept_as);
        let targets = PoolTargets { request, service, record_route, is_fixed, patience, pools: 1 };
        stateful.begin(step, arrival, destination, kept_as, Targets::of_pool(targets, slot), progress)?;
        Ok(Act::Forwarded(None))
    }

    /// Checks whether a request may go to a next hop or get a transaction, by the request and its pool alone.
    fn check_onward(
        &mut self,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
    ) -> Result<(), Rejection> {
        let step = &mut self.step;
        let service = step.pools.service(destination.request.pool);
        let forward = kept_as(step.site, arrival, service.forward());
        let is_counted = forward == Forward::Dialog || (service.has_hops() && service.counts_calls());
        check_from_tag(arrival.message, is_counted)?;
        let Some(stateful) = self.stateful.as_deref_mut() else { return Err(NO_SERVER.into()) };
        if service.has_transactions() {
            stateful.check_new(step, arrival, destination, forward)?;
        }
        let has_members = || step.balancer.members(destination.request.pool).next().is_some();
        if service.has_hops() && is_about_us(step.site, arrival.message) && has_members() {
            return Err(Rejection::Answered(OwnResponse::Capabilities));
        }
        Ok(())
    }

    /// Sends a request without a transaction: to the member that the balancer chooses, or out of the pool if a member
    /// sent it.
    fn balance(
        &mut self,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        progress: &mut Progress,
    ) -> Result<Act, Rejection> {
        let step = &mut self.step;
        match assign(step, arrival, destination, progress, None)? {
            Assignment::Member { slot, .. } => {
                if let Some(refreshed) = destination.refreshed {
                    step.site.targets.note(refreshed);
                }
                let ticket = progress.hand_over();
                send_to(step, arrival, destination, slot, false, &ticket);
                ticket.pass();
            }
            Assignment::Search => {
                let ticket = progress.hand_over();
                self.stateless.search(step, arrival, destination, &ticket)?;
                ticket.pass();
            }
            Assignment::Waits => return Ok(Act::Waits),
        }
        Ok(Act::Forwarded(None))
    }

    fn pass(
        &mut self,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        slot: Slot,
        record_route: RecordRoute,
        progress: &mut Progress,
    ) -> Act {
        let onward = Onward {
            keeps: arrival.begins_transaction().then_some(false),
            proof: progress.proof.mark(),
            ..Onward::of(arrival, self.step.site.topology.node(slot), record_route)
        };
        let act = self.send(arrival, destination, &onward, Hop::Member(slot), progress.hand_over());
        let Step { site, balancer, .. } = &mut self.step;
        balancer.count_request(site.now, slot, &destination.request);
        act
    }

    /// Returns whether this proxy of the chain keeps the transaction of a request.
    fn keeps(&mut self, arrival: &Arrival<'_>, service: Service, slot: Slot) -> bool {
        let hop = self.step.site.topology.node(slot).peer;
        let (site, message) = (&*self.step.site, arrival.message);
        let has_room = self.stateful.as_ref().is_some_and(|stateful| has_room(stateful, site, message));
        let Step { site, out, .. } = &mut self.step;
        service.has_transactions() || keeps(site, arrival.message, arrival.flow.peer, hop, has_room, out)
    }
}

enum Act {
    /// The request was sent. `Some`: the hop that a copy, CANCEL or ACK must follow, since it finds no transaction and
    /// no session.
    Forwarded(Option<Hop>),
    Waits,
}

/// Returns whether there is room for the state of another request and of a call that it may begin.
fn has_room(stateful: &Stateful, site: &Site, message: &Message<'_>) -> bool {
    stateful.has_room(message) && (!shares_dialogs(site) || stateful.has_room_for_call(site, message))
}

/// Returns the kind of state to keep for a request that is kept here. A call with a record at a proxy before this one
/// gets no second record.
fn kept_as(site: &Site, arrival: &Arrival<'_>, forward: Forward) -> Forward {
    let has_record = || has_record_elsewhere(site, arrival.message, arrival.flow.peer);
    match forward {
        Forward::Distributed if shares_dialogs(site) => Forward::Dialog,
        Forward::Distributed => Forward::Transaction,
        Forward::Dialog if has_record() => Forward::Transaction,
        Forward::Stateless | Forward::Transaction | Forward::Dialog => forward,
    }
}

/// Returns the Record-Route for a dialog whose first transaction is kept here.
fn record_route_of(service: Service, kept_as: Forward) -> RecordRoute {
    match (kept_as, service.forward()) {
        (Forward::Dialog, _) => RecordRoute::WithDialogs,
        // The proxy that keeps the transactions of a call must also see the requests of its dialogs.
        (_, Forward::Distributed) => RecordRoute::WithTransactions,
        _ if service.records_route() => RecordRoute::WithTransactions,
        _ => RecordRoute::No,
    }
}
