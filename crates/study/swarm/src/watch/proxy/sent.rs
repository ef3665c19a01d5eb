//! Rules for each message that a stateful proxy sends.

use super::super::balancer::grows_little;
use super::super::dialogs::address_of;
use super::super::hop::{self, scanned};
use super::super::transactions::{Cancelled, Client, ClientId, Server, ServerId, method_of};
use super::{ProcessRule, ProxyWatch, SendCause, Sent};
use crate::call::{call_of, is_initial_invite};
use std::net::SocketAddr;
use wire::{Message, Method, SipUri, Via, response_target};

impl ProxyWatch {
    pub(super) fn all_sent(&mut self, sent: &[Sent], cause: SendCause<'_, '_>) {
        for one in sent {
            self.sent(one, cause);
        }
    }

    fn sent(&mut self, sent: &Sent, cause: SendCause<'_, '_>) {
        let message = scanned(sent);
        if let Some(status) = message.status() {
            let waited = self.waits_for(&message);
            self.answer(sent, &message, status, cause);
            self.concluded(&message, status, waited);
        } else {
            self.hop.top_via(sent, &message);
            let branch = message.top_via().branch.unwrap_or_default().to_ascii_lowercase();
            let id = (branch, method_of(&message).to_vec());
            if let Some(client) = self.clients.get_mut(&id) {
                ProcessRule::RetransmissionWithoutTimer
                    .holds(matches!(cause, SendCause::Timer), format_args!("to {}", sent.to));
                client.repeated(self.now, &sent.bytes, sent.to);
            } else if message.has_lower_vias() {
                self.forwarded(sent, &message, id, cause);
            } else {
                self.own(sent, &message, id, cause);
            }
        }
    }

    /// Returns true if the response belongs to a forwarded request that awaits its final response.
    fn waits_for(&self, response: &Message<'_>) -> bool {
        let id = ServerId::new(response.top_via(), method_of(response));
        id.and_then(|id| self.servers.get(&id)).is_some_and(Server::waits)
    }

    /// A response was sent. `waited`: its request had no final response before.
    fn concluded(&mut self, response: &Message<'_>, status: u16, waited: bool) {
        let Some(calls) = &mut self.calls else { return };
        match (response.cseq().method, status) {
            (Method::Bye, 200..) if waited => calls.bye_answered(self.now, response),
            (Method::Invite, 200..) => {
                let id = ServerId::new(response.top_via(), method_of(response));
                let Some(server) = id.and_then(|id| self.servers.get(&id)) else { return };
                let is_first = wire::scan(&server.request).is_ok_and(|request| is_initial_invite(&request));
                if is_first && status < 300 {
                    calls.accepted(self.now, response);
                } else if is_first && waited {
                    let call = call_of(response);
                    let is_its = |server: &&Server| {
                        wire::scan(&server.request)
                            .is_ok_and(|request| is_initial_invite(&request) && call_of(&request) == call)
                    };
                    let all = || self.servers.values().filter(is_its);
                    // A call that came by two ways, or again with credentials, ends with its last INVITE.
                    let others = all().map(|other| other.cancelled.min(Cancelled::Perhaps)).max();
                    let cancelled = server.cancelled.max(others.unwrap_or(Cancelled::No));
                    calls.failed(response, cancelled, all().any(Server::waits));
                }
            }
            _ => {}
        }
    }

    /// §18.2.2: checks that a response goes to the source of its request, whatever the Via left on top says. Once the
    /// request is answered, and perhaps forgotten, that Via may decide.
    fn check_way_back(&self, to: SocketAddr, server: Option<&Server>, via: &Via<'_>) {
        let is_expected = |back: &SocketAddr| *back == to;
        let came_from_there = match server {
            Some(server) if !server.is_answered() => {
                return ProcessRule::ForwardedResponseTarget.equal(to, server.back);
            }
            Some(server) => is_expected(&server.back),
            None => self.unnamed.iter().any(|(_, back)| is_expected(back)),
        };
        let named = response_target(via);
        ProcessRule::ResponseTarget
            .holds(came_from_there || named == Some(to), format_args!("{to}, not {named:?}"));
    }

    fn answer(&mut self, sent: &Sent, message: &Message<'_>, status: u16, cause: SendCause<'_, '_>) {
        let id = ServerId::new(message.top_via(), method_of(message));
        let forked =
            id.as_ref().and_then(|id| self.servers.get(id)).filter(|_| self.hop.forks && status >= 300);
        if let Some(server) = forked.filter(|server| server.attempts > 0 && !server.is_answered()) {
            self.check_best(server, status);
        }
        if let SendCause::Response { response, status: heard, client } = cause {
            // §16.7 step 5; §17.1.1.1: a 100 concerns this hop only.
            ProcessRule::Forwarded100.holds(status != 100, format_args!("to {}", sent.to));
            if let Some(via) = response.second_via()
                && status == heard
            {
                hop::passed_back(response, message);
                // §16.7 step 6.
                ProcessRule::Forwarded503.holds(status != 503, format_args!("to {}", sent.to));
                let server = self.clients[client].server.as_ref().and_then(|of| self.servers.get(of));
                self.check_way_back(sent.to, server, &via);
                self.answered(response, message);
                let Some(of) = self.clients[client].server.clone() else { return };
                let Some(server) = self.servers.get_mut(&of) else { return };
                if of.is_invite() && (200..300).contains(&status) && !server.is_answered() {
                    self.unacknowledged.insert(message.call_id().to_vec(), self.now);
                }
                return server.answered(self.now, status, &sent.bytes, true);
            }
        }
        let Some(server) = id.as_ref().and_then(|id| self.servers.get_mut(id)) else {
            // The request came from a client of RFC 2543.
            let is_expected = self.unnamed.iter().any(|(_, back)| *back == sent.to);
            return ProcessRule::ResponseWithoutRequest
                .holds(id.is_none() && is_expected, format_args!("{}", sent.to));
        };
        ProcessRule::OwnResponseTarget.equal(sent.to, server.back);
        let at_once = matches!(cause, SendCause::Request { .. });
        if let (true, Some(passing)) = (at_once, &self.passing) {
            passing.check_room(self.now, &self.hops, &sent.bytes);
        }
        if let (Some(passing), Some(id), 300..) = (&mut self.passing, &id, status) {
            passing.refuses(id, message);
        }
        let may_503 = at_once && server.attempts == 0;
        ProcessRule::Late503.holds(status != 503 || may_503, format_args!("to {}", sent.to));
        // A repeated response may be one of the next hop.
        let is_new = server.last.as_ref().is_none_or(|(_, last)| *last != sent.bytes);
        server.answered(self.now, status, &sent.bytes, false);
        // The best response of several branches may have come earlier.
        let is_it = |branch: &ClientId| self.clients.get(branch).is_some_and(|it| it.status == status);
        if is_new && !(self.hop.forks && server.branches.iter().any(is_it)) {
            grows_little(&server.request, sent);
        }
    }

    /// Checks an ACK to a failure, or a CANCEL. The proxy generates both for the next hop, from the forwarded INVITE
    /// (§17.1.1.3, §9.1).
    fn own(&mut self, sent: &Sent, message: &Message<'_>, id: ClientId, cause: SendCause<'_, '_>) {
        let of_invite = (id.0.clone(), b"INVITE".to_vec());
        let name = message.cseq().method.name();
        let invite = self.clients.get(&of_invite);
        let invite = invite.unwrap_or_else(|| ProcessRule::OwnBranch.is_broken(format_args!("{name}")));
        ProcessRule::OwnHop.equal(sent.to, invite.to);
        let sent_invite = wire::scan(&invite.bytes).expect("it was parsed when it was sent");
        ProcessRule::OwnUri.equal(message.uri(), sent_invite.uri());
        ProcessRule::OwnCseq.equal(message.cseq().number, sent_invite.cseq().number);
        ProcessRule::OwnCallId.equal(message.call_id(), sent_invite.call_id());
        match message.method() {
            Some(Method::Ack) => {
                let SendCause::Response { response, status: 300.., client } = cause else {
                    ProcessRule::AckWithoutFailure.is_broken(format_args!("to {}", sent.to));
                };
                ProcessRule::AckToOtherInvite.equal(client, &of_invite);
                let tag = message.to_tag() == response.to_tag();
                let first = self.clients.get_mut(&of_invite).map(|invite| &mut invite.ack);
                match first.expect("the INVITE was found above") {
                    Some(first) => ProcessRule::AckDiffers.equal(&sent.bytes, &*first),
                    first => {
                        ProcessRule::AckTag.holds(tag, format_args!("{:?}", message.to_tag()));
                        *first = Some(sent.bytes.clone());
                    }
                }
            }
            Some(Method::Cancel) => {
                let server = invite.server.as_ref().and_then(|server| self.servers.get(server));
                let declined =
                    |branch: &ClientId| self.clients.get(branch).is_some_and(|it| it.status >= 600);
                // The CANCEL waits for a provisional response, which may come after the ring time.
                let rung_out = |server: &Server| server.branches[..server.rung_out].contains(&of_invite);
                let has_lost = |server: &Server| {
                    let is_over = server.is_accepted() || server.branches.iter().any(declined);
                    self.hop.forks && (is_over || rung_out(server))
                };
                let may = |server: &Server| server.cancelled != Cancelled::No || has_lost(server);
                let is_expected = matches!(cause, SendCause::Timer) || server.is_none_or(may);
                ProcessRule::CancelWithoutCause.holds(is_expected, format_args!("to {}", sent.to));
                let in_time = invite.provisional && invite.status == 0;
                ProcessRule::CancelUntimely.holds(in_time, format_args!("its INVITE has {}", invite.status));
                let client = self.client(invite.server.clone(), message, sent.to);
                self.clients.insert(id, client);
                let now = self.now;
                if let Some(invite) = self.clients.get_mut(&of_invite) {
                    invite.cancelled = Some(now);
                }
            }
            _ => ProcessRule::OwnMethod.is_broken(format_args!("{name}")),
        }
    }

    fn forwarded(&mut self, sent: &Sent, message: &Message<'_>, id: ClientId, cause: SendCause<'_, '_>) {
        let below = message.second_via().expect("it has lower Vias");
        let of = ServerId::new(&below, &id.1);
        let is_ack_or_cancel = matches!(message.method(), Some(Method::Ack | Method::Cancel));
        if message.method() == Some(Method::Cancel) {
            let is_known = of.as_ref().is_some_and(|of| self.is_under_way(of));
            ProcessRule::CancelForwarded.holds(!is_known, format_args!("to {}", sent.to));
        }
        let server = of.as_ref().and_then(|of| self.servers.get(of)).filter(|_| !is_ack_or_cancel);
        let Some(server) = server else {
            if let SendCause::Request { request, from } = cause {
                self.passed_on(sent, message, (request, from));
                if is_ack_or_cancel {
                    if message.method() == Some(Method::Ack) {
                        self.unacknowledged.remove(message.call_id());
                    }
                    return self.same_branch(request, from, &id.0);
                }
            } else {
                // Sent to an alternate next hop, for a request whose transaction is unknown.
                ProcessRule::ForwardedWithoutRequest
                    .holds(of.is_none(), format_args!("{}", message.cseq().method.name()));
                if message.to_tag().is_none() {
                    self.dialogs.recorded(self.now + self.token_lifetime, message, 1);
                }
            }
            let client = self.client(None, message, sent.to);
            self.clients.insert(id, client);
            return;
        };
        let to = format_args!("to {}", sent.to);
        ProcessRule::ForwardedAfterFinal.holds(!server.is_answered(), to);
        if server.attempts == 0 {
            ProcessRule::ForwardedLate.holds(matches!(cause, SendCause::Request { .. }), to);
        } else {
            ProcessRule::AlternateCancelled.holds(server.cancelled != Cancelled::Yes, to);
            let failed = match cause {
                SendCause::Response { status, .. } => status == 503 || self.hop.forks && status >= 300,
                SendCause::Timer | SendCause::Unreachable => true,
                SendCause::Request { .. } => self.hop.forks && server.is_new(self.now),
            };
            ProcessRule::AlternateEarly.holds(failed, to);
            let declined = |branch: &ClientId| self.clients.get(branch).is_some_and(|it| it.status >= 600);
            ProcessRule::NextHopAfter6xx.holds(!server.branches.iter().any(declined), to);
        }
        let (bytes, from) = (server.request.clone(), server.from);
        let request = wire::scan(&bytes).expect("it was parsed when it came in");
        self.passed_on(sent, message, (&request, from));
        self.shared((&request, from), (message, sent.to), true);
        let client = self.client(of.clone(), message, sent.to);
        self.clients.insert(id.clone(), client);
        if let Some(server) = of.and_then(|of| self.servers.get_mut(&of)) {
            if matches!(cause, SendCause::Timer) {
                server.rung_out = server.branches.len();
            }
            server.sent_on(self.now, id);
            self.call_request_forwarded(&request);
        }
    }

    /// Records a forwarded INVITE that starts a call, or a forwarded BYE.
    fn call_request_forwarded(&mut self, request: &Message<'_>) {
        let Some(calls) = &mut self.calls else { return };
        match request.method() {
            Some(Method::Invite) if request.to_tag().is_none() => calls.invited(request),
            Some(Method::Bye) => calls.hung_up(self.now, request),
            _ => {}
        }
    }

    /// Returns true if the proxy has the transaction that a CANCEL with this key refers to (§16.10), of any method.
    fn is_under_way(&self, cancel: &ServerId) -> bool {
        let of_call = self.servers.range(cancel.first()..).take_while(|(id, _)| id.is_beside(cancel));
        of_call
            .filter(|(id, _)| *id != cancel)
            .any(|(_, server)| server.attempts > 0 && !server.is_over(self.now, &self.timers))
    }

    fn client(&self, server: Option<ServerId>, message: &Message<'_>, to: SocketAddr) -> Client {
        let heard = || self.heard.contains(&(message.call_id().to_vec(), to.ip()));
        let is_known = self.hops.contains(&to) || heard();
        Client::new(server, message, (to, is_known), self.now)
    }

    /// §16.11: checks that a request forwarded without a transaction gets the same branch as its first copy.
    fn same_branch(&mut self, request: &Message<'_>, from: SocketAddr, branch: &[u8]) {
        let now = self.now;
        let key = (from, request.bytes().to_vec());
        let first = self.stateless.entry(key).or_insert_with(|| (branch.to_vec(), now));
        ProcessRule::OtherBranch.equal(branch, &first.0[..]);
        self.stateless_branches.insert(branch.to_vec());
    }

    /// Checks a forwarded request (§16.6).
    pub(super) fn passed_on(
        &mut self,
        sent: &Sent,
        message: &Message<'_>,
        (request, from): (&Message<'_>, SocketAddr),
    ) {
        self.hop.passed_on((sent, message), (request, from));
        self.record_route(sent, message, request);
        self.target(sent.to, message, request);
    }

    /// §16.6 step 4: checks the Record-Route of requests that start a dialog. There are two where the sides differ, and
    /// none without a From tag (RFC 2543).
    fn record_route(&mut self, sent: &Sent, message: &Message<'_>, request: &Message<'_>) {
        let begins = request.to_tag().is_none()
            && request.from_tag().is_some()
            && matches!(request.method(), Some(Method::Invite | Method::Subscribe | Method::Refer));
        let added = message.record_routes().count().wrapping_sub(request.record_routes().count());
        let right = if begins { (1..=2).contains(&added) } else { added == 0 };
        ProcessRule::RecordRouteCount.holds(right, format_args!("{added}"));
        for (at, value) in message.record_routes().take(added).enumerate() {
            let text = format_args!("{}", value.uri.escape_ascii());
            let uri = SipUri::parse(value.uri).ok();
            let Some((address, uri)) = uri.and_then(|uri| Some((address_of(&uri)?, uri))) else {
                ProcessRule::RecordRouteAddress.is_broken(text)
            };
            ProcessRule::RecordRouteSide
                .holds(at > 0 || address == self.listeners[sent.listener as usize], text);
            let is_loose = self.listeners.contains(&address) && uri.param("lr").is_some();
            ProcessRule::RecordRouteLoose.holds(is_loose, text);
            ProcessRule::RecordRouteToken.holds(self.dialogs.token_of(value.uri).is_some(), text);
        }
        self.dialogs.recorded(self.now + self.token_lifetime, message, added);
    }

    /// §16.4, §16.5, §16.6 step 7: checks that the target is a next hop, or a contact of a dialog that came this way.
    fn target(&mut self, to: SocketAddr, message: &Message<'_>, request: &Message<'_>) {
        let may_go = self.hops.contains(&to) || self.dialogs.may_go(request, to);
        ProcessRule::NotANextHop.holds(may_go, format_args!("{to}"));
        self.dialogs.heard(request);
        let ours = |uri: &&[u8]| {
            SipUri::parse(uri)
                .is_ok_and(|uri| address_of(&uri).is_some_and(|at| self.listeners.contains(&at)))
        };
        let routes = || request.routes().map(|route| route.uri);
        // Strict routing is not checked (§16.4, §16.6 step 6).
        if request.uri() == message.uri() && routes().next().as_ref().is_some_and(ours) {
            let left = routes().skip_while(ours);
            let same = left.eq(message.routes().map(|route| route.uri));
            ProcessRule::RemainingRoute.holds(same, format_args!("to {to}"));
            let next = message.routes().next().map(|route| route.uri).or(message.uri()).unwrap_or_default();
            let named = SipUri::parse(next).ok().and_then(|uri| address_of(&uri));
            let elsewhere = named.filter(|named| *named != to && !self.listeners.contains(named));
            let is_required = self.dialogs.must_follow_route(self.now, request);
            ProcessRule::RouteTarget
                .holds(!is_required || elsewhere.is_none(), format_args!("to {to}, not {named:?}"));
        }
    }
}
