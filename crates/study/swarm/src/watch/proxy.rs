//! Rules for the messages and timing of a stateful proxy.

mod sent;

use super::balancer::malformed;
use super::calls::Calls;
use super::dialogs::Dialogs;
use super::hop::{self, Hop, scanned};
use super::passing::Passing;
use super::transactions::{Cancelled, Client, ClientId, RINGING_MAX, Server, ServerId, method_of};
use super::{ProcessRule, Sent};
use base::Instant;
use core::time::Duration;
use dialog::CallRecord;
use distribute::{Function, Mark};
use node::{ProxyReport, TokenOwner, is_hop_branch};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use transaction::Timers;
use wire::{Message, Method, request_source_target, response_target};

/// Input of a process.
#[derive(Clone, Copy, Debug)]
pub enum ProcessInput<'a> {
    /// A datagram came in.
    Datagram {
        /// Its source.
        from: SocketAddr,
        /// The datagram.
        bytes: &'a [u8],
    },
    /// A timer fired.
    Timer,
    /// An ICMP error came in.
    Unreachable,
    /// A store answered.
    Answer,
}

/// Parsed cause of a sent message.
#[derive(Clone, Copy)]
enum SendCause<'a, 'm> {
    Request { request: &'a Message<'m>, from: SocketAddr },
    Response { response: &'a Message<'m>, status: u16, client: &'a ClientId },
    Timer,
    Unreachable,
}

/// Watches a stateful proxy (RFC 3261 §16) from outside, and panics when a datagram breaks a rule. It knows the
/// configuration and sees all datagrams. It derives everything else from them.
///
/// - Construction: [`new`](Self::new), [`sharing`](Self::sharing), [`forking`](Self::forking),
///   [`keeping_calls`](Self::keeping_calls).
/// - Changes: [`set_hops`](Self::set_hops), [`rekeyed`](Self::rekeyed), [`restarted`](Self::restarted).
/// - Checks: [`written`](Self::written), [`check`](Self::check), [`audit`](Self::audit).
/// - State: [`unsettled`](Self::unsettled).
pub struct ProxyWatch {
    listeners: Vec<SocketAddr>,
    hop: Hop,
    hops: Vec<SocketAddr>,
    timers: Timers,
    /// Time for which a token in a Record-Route must be accepted.
    token_lifetime: Duration,
    now: Instant,
    servers: BTreeMap<ServerId, Server>,
    clients: BTreeMap<ClientId, Client>,
    /// Arrival time and response target of requests whose Via does not identify a transaction.
    unnamed: Vec<(Instant, SocketAddr)>,
    /// Valid targets of Record-Route tokens.
    dialogs: Dialogs,
    /// Call-IDs, and the sources of messages of the call.
    heard: BTreeSet<(Vec<u8>, IpAddr)>,
    /// Call-IDs of answered calls without an ACK, and when they were answered.
    unacknowledged: BTreeMap<Vec<u8>, Instant>,
    /// Branch of each ACK or CANCEL forwarded without a transaction, and when.
    stateless: BTreeMap<(SocketAddr, Vec<u8>), (Vec<u8>, Instant)>,
    /// Branches of all ACKs and CANCELs ever forwarded without a transaction. A restarted process can still forward
    /// responses to these requests.
    stateless_branches: BTreeSet<Vec<u8>>,
    /// CANCELs answered 200, and the time of the last 200.
    cancels: BTreeMap<ServerId, Instant>,
    /// Requests forwarded without a transaction, if state is shared out.
    passing: Option<Passing>,
    /// Calls whose state is kept, if this proxy keeps any.
    calls: Option<Calls>,
}

impl ProxyWatch {
    /// Creates a watch of a proxy with these listeners and timers. Its tokens are valid for `token_lifetime`.
    pub fn new(listeners: &[SocketAddr], timers: Timers, token_lifetime: Duration) -> Self {
        Self {
            listeners: listeners.to_vec(),
            hop: Hop::new(listeners, false),
            hops: Vec::new(),
            timers,
            token_lifetime,
            now: Instant::ZERO,
            servers: BTreeMap::new(),
            clients: BTreeMap::new(),
            unnamed: Vec::new(),
            dialogs: Dialogs::new(TokenOwner::Proxy, listeners),
            heard: BTreeSet::new(),
            unacknowledged: BTreeMap::new(),
            stateless: BTreeMap::new(),
            stateless_branches: BTreeSet::new(),
            cancels: BTreeMap::new(),
            passing: None,
            calls: None,
        }
    }

    /// The proxy may send a request to several next hops, in parallel or in sequence.
    #[must_use]
    pub fn forking(mut self) -> Self {
        self.hop.forks = true;
        self
    }

    /// The proxy keeps the state of calls, and gives up calls after `silence` without messages.
    #[must_use]
    pub fn keeping_calls(self, silence: Duration) -> Self {
        Self { calls: Some(Calls::new(silence)), ..self }
    }

    /// The proxy shares out this function with the proxies at these addresses.
    #[must_use]
    pub fn sharing(self, function: Function, neighbours: Vec<IpAddr>) -> Self {
        Self { passing: Some(Passing::new(function, neighbours)), ..self }
    }

    /// Returns true if it shares out the state of calls.
    pub fn shares(&self) -> bool {
        self.passing.is_some()
    }

    /// The next hops have changed.
    pub fn set_hops(&mut self, hops: impl Iterator<Item = SocketAddr>) {
        self.hops.clear();
        self.hops.extend(hops);
    }

    /// New tokens are made with another key. `kept`: the existing tokens are still valid.
    pub fn rekeyed(&mut self, kept: bool) {
        self.stateless.clear();
        if let Some(passing) = &mut self.passing {
            passing.rekeyed();
        }
        if !kept {
            self.dialogs.forgotten();
        }
    }

    /// The process restarted, and knows only its key.
    pub fn restarted(&mut self) {
        self.servers.clear();
        self.clients.clear();
        self.cancels.clear();
        self.unnamed.clear();
        self.unacknowledged.clear();
        if let Some(passing) = &mut self.passing {
            passing.restarted();
        }
        if let Some(calls) = &mut self.calls {
            calls.restarted();
        }
    }

    /// Returns the Call-IDs of requests and calls that would fail if the process ended now: requests without a final
    /// response, and answered calls without an ACK. Their retransmissions would get a branch that the next hop does not
    /// know.
    pub fn unsettled(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        let call =
            |server: &Server| wire::scan(&server.request).map(|request| request.call_id().to_vec()).ok();
        let waiting = self.servers.values().filter(|server| server.waits()).filter_map(call);
        let passed = self.passing.iter().flat_map(Passing::unheard);
        waiting.chain(self.unacknowledged.keys().cloned()).chain(passed)
    }

    /// Records written in the step that the next [`check`](Self::check) covers.
    pub fn written(&mut self, records: &[CallRecord]) {
        if let Some(calls) = &mut self.calls {
            calls.written(records);
        }
    }

    /// Checks a step: the proxy sent `sent` because of `cause`.
    pub fn check(&mut self, now: Instant, cause: ProcessInput<'_>, sent: &[Sent]) {
        self.now = now;
        self.check_step(cause, sent);
        if let Some(calls) = &mut self.calls {
            calls.finished(now);
        }
    }

    fn check_step(&mut self, cause: ProcessInput<'_>, sent: &[Sent]) {
        let now = self.now;
        if let ProcessInput::Datagram { from, bytes } = cause
            && let Ok(message) = wire::scan(bytes)
        {
            self.heard.insert((message.call_id().to_vec(), from.ip()));
        }
        self.hop.families(sent);
        match cause {
            // The watched proxies use no stores.
            ProcessInput::Timer | ProcessInput::Answer => self.all_sent(sent, SendCause::Timer),
            ProcessInput::Unreachable => self.all_sent(sent, SendCause::Unreachable),
            ProcessInput::Datagram { from, bytes } => match wire::scan(bytes) {
                Err(_) => ProcessRule::UnparsableInput.equal(sent, []),
                Ok(response) if response.status().is_some() => {
                    if let Some(passing) = &mut self.passing {
                        passing.heard(now, &response, from);
                    }
                    self.response(&response, sent);
                }
                Ok(request) => self.request(from, &request, sent),
            },
        }
    }

    /// Checks that responses without a transaction are dropped (RFC 6026 §8.9), and those with another element's Via on
    /// top (§18.1.2).
    fn response(&mut self, response: &Message<'_>, sent: &[Sent]) {
        let via = response.top_via();
        let port = via.sent_by_port();
        let is_own = via.host.ip().is_some_and(|ip| self.listeners.contains(&SocketAddr::new(ip, port)));
        let branch = via.branch.unwrap_or_default().to_ascii_lowercase();
        let id = (branch, method_of(response).to_vec());
        if is_own && self.passing.as_mut().is_some_and(|passing| passing.answers(&id)) {
            return self.response_to_passed(response, sent);
        }
        let client = self.clients.get_mut(&id).filter(|_| is_own);
        let (Some(client), Some(status)) = (client, response.status()) else {
            // §16.11: a stateless proxy reads only the topmost Via of a response. The client compares the CSeq method
            // (§17.1.3).
            if is_own && self.stateless_branches.contains(&id.0) {
                return passed_back(response, sent);
            }
            return ProcessRule::UnmatchedResponse.equal(sent, []);
        };
        let was_waiting = client.waits(self.now, &self.timers);
        client.heard(self.now, status, &self.timers);
        let server = client.server.clone();
        if let Some(calls) = &mut self.calls
            && id.1 == b"BYE"
        {
            calls.heard(response);
        }
        let cause = SendCause::Response { response, status, client: &id };
        self.all_sent(sent, cause);
        // §16.7 step 5: at once.
        if self.hop.forks && was_waiting && (200..300).contains(&status) {
            let is_it = |one: &Sent| scanned(one).status() == Some(status);
            ProcessRule::SuccessNotForwarded.holds(sent.iter().any(is_it), format_args!("{status}"));
        }
        if let Some(server) = server {
            self.check_losers(&server);
        }
    }

    /// §16.7 step 10, §16.10: checks that ringing branches get a CANCEL after a 2xx, after a 6xx, or if the request was
    /// cancelled.
    fn check_losers(&self, id: &ServerId) {
        let Some(server) = self.servers.get(id).filter(|_| self.hop.forks && id.is_invite()) else { return };
        let branches = || server.branches.iter().filter_map(|branch| self.clients.get(branch));
        let is_over = server.cancelled == Cancelled::Yes
            || server.is_accepted()
            || branches().any(|branch| branch.status >= 600);
        let rings = |branch: &&Client| {
            branch.provisional && branch.cancelled.is_none() && branch.waits(self.now, &self.timers)
        };
        let left = branches().find(|branch| is_over && rings(branch)).map(|branch| branch.to);
        let call = wire::scan(&server.request).map(|request| request.call_id().escape_ascii().to_string());
        ProcessRule::BranchNotCancelled.holds(left.is_none(), format_args!("{left:?} of call {call:?}"));
    }

    /// §16.7 step 6: checks that the best response was chosen: a 6xx, else one of the lowest class. A branch without a
    /// response counts as 408 or, if unreachable, 503. A 503 is sent as 500.
    fn check_best(&self, server: &Server, status: u16) {
        let statuses =
            || server.branches.iter().map(|branch| self.clients.get(branch).map_or(0, |it| it.status));
        let classes =
            |unknown: u16| statuses().map(move |status| if status == 0 { unknown } else { status / 100 });
        let best = |unknown| {
            let is_declined = classes(unknown).any(|class| class == 6);
            if is_declined { Some(6) } else { classes(unknown).min() }
        };
        let fits = [4, 5].into_iter().any(|unknown| best(unknown) == Some(status / 100));
        ProcessRule::NotBest.holds(fits, format_args!("{status} of {:?}", statuses().collect::<Vec<_>>()));
    }

    fn request(&mut self, from: SocketAddr, request: &Message<'_>, sent: &[Sent]) {
        let source = request_source_target(request.top_via(), from).unwrap_or(from);
        // A Via with `maddr` may name an address family without a listener.
        let reachable = self.listeners.iter().any(|listener| listener.is_ipv4() == source.is_ipv4());
        let back = if reachable { source } else { from };
        if let Some(fault) = request.fault() {
            return malformed(fault, request, back, sent);
        }
        let cause = SendCause::Request { request, from };
        let Some(id) = ServerId::new(request.top_via(), method_of(request)) else {
            self.unnamed.push((self.now, back));
            return self.all_sent(sent, cause);
        };
        if self.is_passed(&id, request, sent) {
            return self.passed(&id, (request, from), sent);
        }
        match request.method() {
            Some(Method::Ack) => return self.ack(&id, cause, sent),
            Some(Method::Cancel) if sent.iter().any(|one| one.bytes.starts_with(b"SIP/2.0 200 ")) => {
                self.cancelled(&id);
            }
            _ => {}
        }
        if let Some(server) = self.servers.get(&id) {
            let over = server.is_over(self.now, &self.timers);
            let is_last = |one: &Sent| {
                one.to == server.back && server.last.as_ref().is_some_and(|(_, last)| *last == one.bytes)
            };
            let repeats = sent.len() <= 1 && sent.iter().all(is_last);
            ProcessRule::RepeatedRequest.holds(over || repeats, format_args!("{sent:?}"));
            if repeats {
                return;
            }
        }
        self.servers.insert(id.clone(), Server::new(&id, request, from, back, self.now));
        self.all_sent(sent, cause);
        if request.method() == Some(Method::Cancel) {
            self.check_losers(&id.of_invite());
        }
        if self.servers.get(&id).is_some_and(|server| server.last.is_none() && server.attempts == 0) {
            // Dropped, or forwarded without a transaction.
            self.servers.remove(&id);
        }
    }

    /// A CANCEL was answered 200. While the transaction of an equal CANCEL exists, it answers copies (§17.2.2), which
    /// do not cancel a later INVITE.
    fn cancelled(&mut self, cancel: &ServerId) {
        let now = self.now;
        let before = self.cancels.insert(cancel.clone(), now);
        let may_repeat = before.is_some_and(|at| now < at + self.timers.t1 * 64);
        let cancelled = if may_repeat { Cancelled::Perhaps } else { Cancelled::Yes };
        if let Some(invite) = self.servers.get_mut(&cancel.of_invite()) {
            invite.cancelled = invite.cancelled.max(cancelled);
        }
    }

    /// Returns true if a request is forwarded without a transaction.
    fn is_passed(&self, id: &ServerId, request: &Message<'_>, sent: &[Sent]) -> bool {
        let Some(passing) = &self.passing else { return false };
        if matches!(request.method(), Some(Method::Ack | Method::Cancel)) {
            let invite = id.of_invite();
            return passing.has(&invite) && !passing.has_refused(&invite, request);
        }
        // A copy is challenged here if the neighbour that had to verify the first copy sends no notices any more.
        if sent.iter().any(|one| one.bytes.starts_with(b"SIP/2.0 407 ")) {
            return false;
        }
        // A request refused without a transaction may be forwarded when it is repeated.
        if passing.has(id) || self.servers.get(id).is_some_and(|server| server.attempts > 0) {
            return passing.has(id);
        }
        let is_request = |one: &Sent| !one.bytes.starts_with(b"SIP/2.0 ");
        if request.to_tag().is_some() {
            let own = request.routes().map(|route| route.uri).find(|uri| self.dialogs.is_own(uri));
            let token = own.and_then(|uri| self.dialogs.token_of(uri));
            return passing.is_stateless_by_token(request, token) && sent.iter().all(is_request);
        }
        // The proxy that keeps the transaction of an INVITE sends 100 at once (§16.2), but not to a neighbour. In that
        // case the branch shows that it keeps the transaction.
        let mut params = request.top_via().params(request.bytes());
        let is_neighbours = params.any(|param| param.name == Mark::PARAMETER.as_bytes());
        let is_stateless = |one: &Sent| scanned(one).top_via().branch.is_some_and(is_hop_branch);
        request.method() == Some(Method::Invite)
            && !sent.is_empty()
            && sent.iter().all(is_request)
            && (!is_neighbours || sent.iter().all(is_stateless))
    }

    /// Checks a request without a transaction, its copies, its CANCEL, and the ACK to its failure.
    fn passed(&mut self, id: &ServerId, (request, from): (&Message<'_>, SocketAddr), sent: &[Sent]) {
        let name = request.cseq().method.name();
        self.servers.remove(id);
        let (call, count) = (request.call_id().escape_ascii(), sent.len());
        ProcessRule::StatelessNotForwarded
            .holds(count == 1, format_args!("{name} of call {call}, {count} messages sent"));
        for one in sent {
            let message = scanned(one);
            ProcessRule::StatelessNotForwarded
                .holds(message.method().is_some(), format_args!("{name} was answered"));
            self.passed_on(one, &message, (request, from));
            self.shared((request, from), (&message, one.to), false);
            let is_ack_or_cancel = matches!(request.method(), Some(Method::Ack | Method::Cancel));
            let of = if is_ack_or_cancel { id.of_invite() } else { id.clone() };
            if let Some(passing) = &mut self.passing {
                passing.went(&of, &message, one.to);
            }
        }
    }

    /// Records a forwarded INVITE of a proxy that shares out state. `is_kept`: it has a transaction here.
    fn shared(
        &mut self,
        (request, from): (&Message<'_>, SocketAddr),
        (message, to): (&Message<'_>, SocketAddr),
        is_kept: bool,
    ) {
        let Some(passing) = &mut self.passing else { return };
        if request.to_tag().is_some() || request.method() != Some(Method::Invite) {
            return;
        }
        passing.check_marks((request, from), (message, to), is_kept);
        let added = message.record_routes().count().saturating_sub(request.record_routes().count());
        for token in message.record_routes().take(added).filter_map(|own| self.dialogs.token_of(own.uri)) {
            passing.recorded(message.call_id(), token, is_kept);
        }
    }

    /// §16.11: checks that a response to such a request, even a 100, follows the next Via.
    fn response_to_passed(&mut self, response: &Message<'_>, sent: &[Sent]) {
        passed_back(response, sent);
        ProcessRule::StatelessNotForwarded
            .holds(sent.len() == 1, format_args!("a response, {} messages sent", sent.len()));
        for one in sent {
            let message = scanned(one);
            ProcessRule::ResponseStatus.equal(message.status(), response.status());
            self.answered(response, &message);
        }
    }

    /// A response was passed back.
    fn answered(&mut self, came: &Message<'_>, went: &Message<'_>) {
        let shows_nothing = self.dialogs.answered(came, went);
        ProcessRule::TokenRevealed.holds(shows_nothing, format_args!("with {:?}", came.status()));
        self.dialogs.heard(came);
        let Some(passing) = &mut self.passing else { return };
        for (before, after) in came.record_routes().zip(went.record_routes()) {
            let (before, after) = (self.dialogs.token_of(before.uri), self.dialogs.token_of(after.uri));
            if let (Some(before), Some(after)) = (before, after) {
                passing.handed_over(came.call_id(), before, after);
            }
        }
    }

    /// Checks an ACK: to a failure it ends here, to a 2xx it is forwarded, and it is never answered.
    fn ack(&mut self, id: &ServerId, cause: SendCause<'_, '_>, sent: &[Sent]) {
        ProcessRule::AckCopies.holds(sent.len() <= 1, format_args!("{}", sent.len()));
        if let Some(invite) = self.servers.get_mut(&id.of_invite())
            && invite.last.as_ref().is_some_and(|(status, _)| *status >= 300)
            && !invite.is_over(self.now, &self.timers)
        {
            invite.acked_at.get_or_insert(self.now);
            ProcessRule::FailureAckForwarded.equal(sent, []);
        }
        self.all_sent(sent, cause);
    }

    /// Checks that the proxy reports no more state than its messages justify.
    pub fn audit(&mut self, now: Instant, report: &ProxyReport) {
        let Self { timers, servers, clients, .. } = self;
        clients.retain(|_, client| {
            client.may_live(now, timers, client.server.as_ref().and_then(|of| servers.get(of)))
        });
        servers.retain(|_, server| !server.is_forgotten(now, timers));
        self.unnamed.retain(|&(at, _)| now < at + timers.t1 * 192 + RINGING_MAX);
        self.unacknowledged.retain(|_, at| now < *at + timers.t1 * 64);
        self.stateless.retain(|_, (_, at)| now < *at + timers.t1 * 64);
        self.cancels.retain(|_, at| now < *at + timers.t1 * 64);
        let waiting = servers.values().filter(|server| server.waits()).count() + self.unnamed.len();
        let counted = report.unanswered;
        ProcessRule::TooManyPending.holds(counted <= waiting, format_args!("{counted}, {waiting} forwarded"));
        let most = servers.len() + clients.len() + 2 * self.unnamed.len();
        let counted = report.transactions;
        ProcessRule::TooManyTransactions.holds(counted <= most, format_args!("{counted}, {most} explained"));
        if let Some(calls) = &self.calls {
            calls.audit(report);
        }
    }
}

/// §16.11: checks a response to a request forwarded without a transaction. If forwarded, it follows the next Via.
fn passed_back(response: &Message<'_>, sent: &[Sent]) {
    ProcessRule::UnmatchedResponse.holds(sent.len() <= 1, format_args!("{} copies", sent.len()));
    for one in sent {
        let message = scanned(one);
        hop::passed_back(response, &message);
        ProcessRule::ResponseTarget
            .equal(Some(one.to), response.second_via().as_ref().and_then(response_target));
    }
}
