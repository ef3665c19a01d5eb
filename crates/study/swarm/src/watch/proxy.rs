//! What a stateful proxy may send, and when.

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

/// What a proxy was given.
#[derive(Clone, Copy, Debug)]
pub enum ProcessInput<'a> {
    /// A datagram came in.
    Datagram {
        /// Its source.
        from: SocketAddr,
        /// All of it.
        bytes: &'a [u8],
    },
    /// Its deadline has come.
    Timer,
    /// ICMP said that something did not arrive.
    Unreachable,
    /// A store has answered a question.
    Answer,
}

/// Why something was sent, read.
#[derive(Clone, Copy)]
enum Why<'a, 'm> {
    Request { request: &'a Message<'m>, from: SocketAddr },
    Response { response: &'a Message<'m>, status: u16, client: &'a ClientId },
    Timer,
    Unreachable,
}

/// Watches a stateful proxy (RFC 3261 §16) from outside: panics when something leaves that should not. It knows the
/// configuration and sees all datagrams; everything else it derives from them.
///
/// - Making: [`new`](Self::new), [`sharing`](Self::sharing), [`forking`](Self::forking),
///   [`keeping_calls`](Self::keeping_calls).
/// - Telling: [`set_hops`](Self::set_hops), [`rekeyed`](Self::rekeyed), [`restarted`](Self::restarted).
/// - Watching: [`written`](Self::written), [`check`](Self::check), [`audit`](Self::audit).
/// - Looking: [`unsettled`](Self::unsettled).
pub struct ProxyWatch {
    listeners: Vec<SocketAddr>,
    hop: Hop,
    hops: Vec<SocketAddr>,
    timers: Timers,
    /// How long a token in a Record-Route has to be honoured.
    token_lifetime: Duration,
    now: Instant,
    servers: BTreeMap<ServerId, Server>,
    clients: BTreeMap<ClientId, Client>,
    /// When requests came in whose transaction cannot be told from their Via, and where their answers go.
    unnamed: Vec<(Instant, SocketAddr)>,
    /// Where the tokens of Record-Route may lead.
    dialogs: Dialogs,
    /// Call-IDs, and where anything of the call came from.
    heard: BTreeSet<(Vec<u8>, IpAddr)>,
    /// Call-IDs of answered calls whose ACK has not come by, and when they were answered.
    unacknowledged: BTreeMap<Vec<u8>, Instant>,
    /// The branch that an ACK or a CANCEL without a transaction got, and when.
    stateless: BTreeMap<(SocketAddr, Vec<u8>), (Vec<u8>, Instant)>,
    /// All of these branches. Whether a response to one is passed back depends on nothing that a process remembers.
    stateless_branches: BTreeSet<Vec<u8>>,
    /// CANCELs that were answered 200, and when last.
    cancels: BTreeMap<ServerId, Instant>,
    /// What goes on without a transaction, if state is shared out.
    passing: Option<Passing>,
    /// The calls whose state is kept, if those of any are.
    calls: Option<Calls>,
}

impl ProxyWatch {
    /// A watch of the proxy with these listeners and timers. Its tokens are good for `token_lifetime`.
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

    /// The same of one that sends a request to several next hops, at once or one after the other.
    #[must_use]
    pub fn forking(mut self) -> Self {
        self.hop.forks = true;
        self
    }

    /// The same of one that keeps the state of calls, and gives up those of which nothing was heard for so long.
    #[must_use]
    pub fn keeping_calls(self, silence: Duration) -> Self {
        Self { calls: Some(Calls::new(silence)), ..self }
    }

    /// The same of one that shares out the state of calls, or their dialogs as well, with the proxies at these
    /// addresses.
    #[must_use]
    pub fn sharing(self, function: Function, neighbours: Vec<IpAddr>) -> Self {
        Self { passing: Some(Passing::new(function, neighbours)), ..self }
    }

    /// Whether it shares out the state of calls.
    pub fn shares(&self) -> bool {
        self.passing.is_some()
    }

    /// The next hops have changed.
    pub fn set_hops(&mut self, hops: impl Iterator<Item = SocketAddr>) {
        self.hops.clear();
        self.hops.extend(hops);
    }

    /// New tokens are made with another key; `kept` says whether those there are still good.
    pub fn rekeyed(&mut self, kept: bool) {
        self.stateless.clear();
        if let Some(passing) = &mut self.passing {
            passing.rekeyed();
        }
        if !kept {
            self.dialogs.forgotten();
        }
    }

    /// A new process knows nothing but its key.
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

    /// The Call-IDs of what would suffer if this process ended now: requests that wait for their final answer, and
    /// calls whose 2xx went back and was not acknowledged yet. Its repetitions would come under a branch that nobody
    /// knows.
    pub fn unsettled(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        let call =
            |server: &Server| wire::scan(&server.request).map(|request| request.call_id().to_vec()).ok();
        let waiting = self.servers.values().filter(|server| server.waits()).filter_map(call);
        let passed = self.passing.iter().flat_map(Passing::unheard);
        waiting.chain(self.unacknowledged.keys().cloned()).chain(passed)
    }

    /// The proxy wrote these records in the step that [`check`](Self::check) looks at next.
    pub fn written(&mut self, records: &[CallRecord]) {
        if let Some(calls) = &mut self.calls {
            calls.written(records);
        }
    }

    /// The proxy sent `sent` because of `cause`.
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
            // Who is watched here asks no stores.
            ProcessInput::Timer | ProcessInput::Answer => self.all_sent(sent, Why::Timer),
            ProcessInput::Unreachable => self.all_sent(sent, Why::Unreachable),
            ProcessInput::Datagram { from, bytes } => match wire::scan(bytes) {
                Err(_) => ProcessRule::Unreadable.equal(sent, []),
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

    /// What answers nothing of the proxy's is dropped (RFC 6026 §8.9), and what has another's Via on top (§18.1.2).
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
            // §16.11: a stateless proxy looks at no more of a response than its topmost Via. Which method it says
            // that it answers is for the client to compare (§17.1.3).
            if is_own && self.stateless_branches.contains(&id.0) {
                return passed_back(response, sent);
            }
            return ProcessRule::ResponseToNothing.equal(sent, []);
        };
        let was_waiting = client.waits(self.now, &self.timers);
        client.heard(self.now, status, &self.timers);
        let server = client.server.clone();
        if let Some(calls) = &mut self.calls
            && id.1 == b"BYE"
        {
            calls.heard(response);
        }
        let why = Why::Response { response, status, client: &id };
        self.all_sent(sent, why);
        // §16.7 step 5: at once.
        if self.hop.forks && was_waiting && (200..300).contains(&status) {
            let is_it = |one: &Sent| scanned(one).status() == Some(status);
            ProcessRule::LostSuccess.holds(sent.iter().any(is_it), format_args!("{status}"));
        }
        if let Some(server) = server {
            self.check_losers(&server);
        }
    }

    /// §16.7 step 10, §16.10: where one branch has accepted, one has declined for all, or the request was cancelled,
    /// those that ring get a CANCEL.
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
        ProcessRule::LoserNotCancelled.holds(left.is_none(), format_args!("{left:?} of call {call:?}"));
    }

    /// §16.7 step 6: a 6xx, else one of the lowest class. A branch without a response counts as answered 408 or, if
    /// it could not be reached, 503; and a 503 goes back as a 500.
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
        let asked = request_source_target(request.top_via(), from).unwrap_or(from);
        // A Via with `maddr` may lead out of every family that there is.
        let reachable = self.listeners.iter().any(|listener| listener.is_ipv4() == asked.is_ipv4());
        let back = if reachable { asked } else { from };
        if let Some(fault) = request.fault() {
            return malformed(fault, request, back, sent);
        }
        let why = Why::Request { request, from };
        let Some(id) = ServerId::new(request.top_via(), method_of(request)) else {
            self.unnamed.push((self.now, back));
            return self.all_sent(sent, why);
        };
        if self.is_passed(&id, request, sent) {
            return self.passed(&id, (request, from), sent);
        }
        match request.method() {
            Some(Method::Ack) => return self.ack(&id, why, sent),
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
            ProcessRule::Repetition.holds(over || repeats, format_args!("{sent:?}"));
            if repeats {
                return;
            }
        }
        self.servers.insert(id.clone(), Server::new(&id, request, from, back, self.now));
        self.all_sent(sent, why);
        if request.method() == Some(Method::Cancel) {
            self.check_losers(&id.of_invite());
        }
        if self.servers.get(&id).is_some_and(|server| server.last.is_none() && server.attempts == 0) {
            // Dropped, or passed on without a transaction.
            self.servers.remove(&id);
        }
    }

    /// A CANCEL was answered 200. One that repeats a CANCEL is answered by that one's transaction, as long as there
    /// is one (§17.2.2): it does not cancel an INVITE that has come since.
    fn cancelled(&mut self, cancel: &ServerId) {
        let now = self.now;
        let before = self.cancels.insert(cancel.clone(), now);
        let may_repeat = before.is_some_and(|at| now < at + self.timers.t1 * 64);
        let cancelled = if may_repeat { Cancelled::Perhaps } else { Cancelled::Yes };
        if let Some(invite) = self.servers.get_mut(&cancel.of_invite()) {
            invite.cancelled = invite.cancelled.max(cancelled);
        }
    }

    /// Whether a request goes on without a transaction.
    fn is_passed(&self, id: &ServerId, request: &Message<'_>, sent: &[Sent]) -> bool {
        let Some(passing) = &self.passing else { return false };
        if matches!(request.method(), Some(Method::Ack | Method::Cancel)) {
            let invite = id.of_invite();
            return passing.has(&invite) && !passing.has_refused(&invite, request);
        }
        // A copy is challenged here where nothing is heard of the neighbour any more that the first was left to.
        if sent.iter().any(|one| one.bytes.starts_with(b"SIP/2.0 407 ")) {
            return false;
        }
        // What was refused without a transaction may go on when it comes again.
        if passing.has(id) || self.servers.get(id).is_some_and(|server| server.attempts > 0) {
            return passing.has(id);
        }
        let is_request = |one: &Sent| !one.bytes.starts_with(b"SIP/2.0 ");
        if request.to_tag().is_some() {
            let own = request.routes().map(|route| route.uri).find(|uri| self.dialogs.is_own(uri));
            let token = own.and_then(|uri| self.dialogs.token_of(uri));
            return passing.is_led_past(request, token) && sent.iter().all(is_request);
        }
        // Who keeps the transaction of an INVITE answers 100 at once (§16.2), but not to a neighbour: there the branch tells.
        let mut params = request.top_via().params(request.bytes());
        let is_neighbours = params.any(|param| param.name == Mark::PARAMETER.as_bytes());
        let is_stateless = |one: &Sent| scanned(one).top_via().branch.is_some_and(is_hop_branch);
        request.method() == Some(Method::Invite)
            && !sent.is_empty()
            && sent.iter().all(is_request)
            && (!is_neighbours || sent.iter().all(is_stateless))
    }

    /// A request without a transaction, one of its copies, its CANCEL, or the ACK to its failure.
    fn passed(&mut self, id: &ServerId, (request, from): (&Message<'_>, SocketAddr), sent: &[Sent]) {
        let name = request.cseq().method.name();
        self.servers.remove(id);
        let (call, count) = (request.call_id().escape_ascii(), sent.len());
        ProcessRule::PassedNot.holds(count == 1, format_args!("{name} of call {call}, {count} were sent"));
        for one in sent {
            let message = scanned(one);
            ProcessRule::PassedNot.holds(message.method().is_some(), format_args!("{name} was answered"));
            self.passed_on(one, &message, (request, from));
            self.shared((request, from), (&message, one.to), false);
            let in_hand = matches!(request.method(), Some(Method::Ack | Method::Cancel));
            let of = if in_hand { id.of_invite() } else { id.clone() };
            if let Some(passing) = &mut self.passing {
                passing.went(&of, &message, one.to);
            }
        }
    }

    /// What is shared out: a request went on, and has a transaction here or not.
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

    /// §16.11: a response to what went on without a transaction follows the next Via, 100 included.
    fn response_to_passed(&mut self, response: &Message<'_>, sent: &[Sent]) {
        passed_back(response, sent);
        ProcessRule::PassedNot.holds(sent.len() == 1, format_args!("a response: {} were sent", sent.len()));
        for one in sent {
            let message = scanned(one);
            ProcessRule::ResponseStatus.equal(message.status(), response.status());
            self.answered(response, &message);
        }
    }

    /// A response was passed back.
    fn answered(&mut self, came: &Message<'_>, went: &Message<'_>) {
        let shows_nothing = self.dialogs.answered(came, went);
        ProcessRule::TokenShown.holds(shows_nothing, format_args!("with {:?}", came.status()));
        self.dialogs.heard(came);
        let Some(passing) = &mut self.passing else { return };
        for (before, after) in came.record_routes().zip(went.record_routes()) {
            let (before, after) = (self.dialogs.token_of(before.uri), self.dialogs.token_of(after.uri));
            if let (Some(before), Some(after)) = (before, after) {
                passing.handed_over(came.call_id(), before, after);
            }
        }
    }

    /// One to a refusal ends here, one to a 2xx is passed on; none is answered.
    fn ack(&mut self, id: &ServerId, why: Why<'_, '_>, sent: &[Sent]) {
        ProcessRule::AckCopies.holds(sent.len() <= 1, format_args!("{}", sent.len()));
        if let Some(invite) = self.servers.get_mut(&id.of_invite())
            && invite.last.as_ref().is_some_and(|(status, _)| *status >= 300)
            && !invite.is_over(self.now, &self.timers)
        {
            invite.acked_at.get_or_insert(self.now);
            ProcessRule::AckToRefusal.equal(sent, []);
        }
        self.all_sent(sent, why);
    }

    /// What the proxy shows of itself: no more than there is reason for, however long it runs.
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
        ProcessRule::Waiting.holds(counted <= waiting, format_args!("{counted}, {waiting} were sent on"));
        let most = servers.len() + clients.len() + 2 * self.unnamed.len();
        let counted = report.transactions;
        ProcessRule::Transactions.holds(counted <= most, format_args!("{counted}, reason for {most}"));
        if let Some(calls) = &self.calls {
            calls.audit(report);
        }
    }
}

/// §16.11: a response to what went on without a transaction follows the next Via, if it goes anywhere.
fn passed_back(response: &Message<'_>, sent: &[Sent]) {
    ProcessRule::ResponseToNothing.holds(sent.len() <= 1, format_args!("{} copies", sent.len()));
    for one in sent {
        let message = scanned(one);
        hop::passed_back(response, &message);
        ProcessRule::ResponseTarget
            .equal(Some(one.to), response.second_via().as_ref().and_then(response_target));
    }
}
