//! What a stateful proxy may send, and when.

use super::balancer::{grows_little, malformed};
use super::calls::{Calls, call_of};
use super::dialogs::{Dialogs, address_of};
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
use wire::{Message, Method, SipUri, Via, request_source_target, response_target};

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
    ///
    /// # Panics
    /// When it should not have.
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

    fn all_sent(&mut self, sent: &[Sent], why: Why<'_, '_>) {
        for one in sent {
            self.sent(one, why);
        }
    }

    fn sent(&mut self, sent: &Sent, why: Why<'_, '_>) {
        let message = scanned(sent);
        if let Some(status) = message.status() {
            let waited = self.waits_for(&message);
            self.answer(sent, &message, status, why);
            self.concluded(&message, status, waited);
        } else {
            self.hop.top_via(sent, &message);
            let branch = message.top_via().branch.unwrap_or_default().to_ascii_lowercase();
            let id = (branch, method_of(&message).to_vec());
            if let Some(client) = self.clients.get_mut(&id) {
                ProcessRule::AgainUnasked.holds(matches!(why, Why::Timer), format_args!("to {}", sent.to));
                client.repeated(self.now, &sent.bytes, sent.to);
            } else if message.has_lower_vias() {
                self.forwarded(sent, &message, id, why);
            } else {
                self.own(sent, &message, id, why);
            }
        }
    }

    /// Whether a request that went on waits for its final response, which this may be.
    fn waits_for(&self, response: &Message<'_>) -> bool {
        let id = ServerId::new(response.top_via(), method_of(response));
        id.and_then(|id| self.servers.get(&id)).is_some_and(Server::waits)
    }

    /// A response went back, to a request that `waited` for a final one or not.
    fn concluded(&mut self, response: &Message<'_>, status: u16, waited: bool) {
        let Some(calls) = &mut self.calls else { return };
        let begins =
            |request: &Message<'_>| request.method() == Some(Method::Invite) && request.to_tag().is_none();
        match (response.cseq().method, status) {
            (Method::Bye, 200..) if waited => calls.bye_answered(self.now, response),
            (Method::Invite, 200..) => {
                let id = ServerId::new(response.top_via(), method_of(response));
                let Some(server) = id.and_then(|id| self.servers.get(&id)) else { return };
                let is_first = wire::scan(&server.request).is_ok_and(|request| begins(&request));
                if is_first && status < 300 {
                    calls.accepted(self.now, response);
                } else if is_first && waited {
                    let call = call_of(response);
                    let is_its = |server: &&Server| {
                        wire::scan(&server.request)
                            .is_ok_and(|request| begins(&request) && call_of(&request) == call)
                    };
                    let all = || self.servers.values().filter(is_its);
                    // The call of one that came by two ways, or again with credentials, ends with the last of them.
                    let others = all().map(|other| other.cancelled.min(Cancelled::Perhaps)).max();
                    let cancelled = server.cancelled.max(others.unwrap_or(Cancelled::No));
                    calls.failed(response, cancelled, all().any(Server::waits));
                }
            }
            _ => {}
        }
    }

    /// §18.2.2: a response goes where its request came from, whatever its sender has made of the `via` that is left.
    /// Once the request is answered, and perhaps forgotten, that Via may say it.
    fn check_way_back(&self, to: SocketAddr, server: Option<&Server>, via: &Via<'_>) {
        let asked = |back: &SocketAddr| *back == to;
        let came_from_there = match server {
            Some(server) if !server.is_answered() => return ProcessRule::PassedBack.equal(to, server.back),
            Some(server) => asked(&server.back),
            None => self.unnamed.iter().any(|(_, back)| asked(back)),
        };
        let named = response_target(via);
        ProcessRule::ResponseTarget
            .holds(came_from_there || named == Some(to), format_args!("{to}, not {named:?}"));
    }

    fn answer(&mut self, sent: &Sent, message: &Message<'_>, status: u16, why: Why<'_, '_>) {
        let id = ServerId::new(message.top_via(), method_of(message));
        let forked =
            id.as_ref().and_then(|id| self.servers.get(id)).filter(|_| self.hop.forks && status >= 300);
        if let Some(server) = forked.filter(|server| server.attempts > 0 && !server.is_answered()) {
            self.check_best(server, status);
        }
        if let Why::Response { response, status: heard, client } = why {
            // §16.7 step 5; §17.1.1.1: it says that this hop's next one is at work, and no more.
            ProcessRule::Passed100.holds(status != 100, format_args!("to {}", sent.to));
            if let Some(via) = response.second_via()
                && status == heard
            {
                hop::passed_back(response, message);
                // §16.7 step 6.
                ProcessRule::Passed503.holds(status != 503, format_args!("to {}", sent.to));
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
            // From a peer of RFC 2543: one of them.
            let asked = self.unnamed.iter().any(|(_, back)| *back == sent.to);
            return ProcessRule::AnswerUnasked.holds(id.is_none() && asked, format_args!("{}", sent.to));
        };
        ProcessRule::AnswerTarget.equal(sent.to, server.back);
        let at_once = matches!(why, Why::Request { .. });
        if let (true, Some(passing)) = (at_once, &self.passing) {
            passing.check_room(self.now, &self.hops, &sent.bytes);
        }
        if let (Some(passing), Some(id), 300..) = (&mut self.passing, &id, status) {
            passing.refuses(id, message);
        }
        let may_503 = at_once && server.attempts == 0;
        ProcessRule::Late503.holds(status != 503 || may_503, format_args!("to {}", sent.to));
        // What comes again may be what the next hop has answered.
        let is_new = server.last.as_ref().is_none_or(|(_, last)| *last != sent.bytes);
        server.answered(self.now, status, &sent.bytes, false);
        // The best response of several may have come a while ago.
        let is_it = |branch: &ClientId| self.clients.get(branch).is_some_and(|it| it.status == status);
        if is_new && !(self.hop.forks && server.branches.iter().any(is_it)) {
            grows_little(&server.request, sent);
        }
    }

    /// ACK to a refusal and CANCEL: made by this hop for the next one, of the INVITE that it had sent (§17.1.1.3,
    /// §9.1).
    fn own(&mut self, sent: &Sent, message: &Message<'_>, id: ClientId, why: Why<'_, '_>) {
        let of_invite = (id.0.clone(), b"INVITE".to_vec());
        let name = message.cseq().method.name();
        let invite = self.clients.get(&of_invite);
        let invite = invite.unwrap_or_else(|| ProcessRule::OwnBranch.is_broken(format_args!("{name}")));
        ProcessRule::OwnHop.equal(sent.to, invite.to);
        let began = wire::scan(&invite.bytes).expect("it was read when it was sent");
        ProcessRule::OwnUri.equal(message.uri(), began.uri());
        ProcessRule::OwnCseq.equal(message.cseq().number, began.cseq().number);
        ProcessRule::OwnCall.equal(message.call_id(), began.call_id());
        match message.method() {
            Some(Method::Ack) => {
                let Why::Response { response, status: 300.., client } = why else {
                    ProcessRule::AckToNone.is_broken(format_args!("to {}", sent.to));
                };
                ProcessRule::AckToOther.equal(client, &of_invite);
                let tag = message.to_tag() == response.to_tag();
                let first = self.clients.get_mut(&of_invite).map(|invite| &mut invite.ack);
                match first.expect("it was found") {
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
                // The CANCEL waits for a provisional response, which may come after the time of its branch.
                let rung_out = |server: &Server| server.branches[..server.rung_out].contains(&of_invite);
                let has_lost = |server: &Server| {
                    let is_over = server.is_accepted() || server.branches.iter().any(declined);
                    self.hop.forks && (is_over || rung_out(server))
                };
                let may = |server: &Server| server.cancelled != Cancelled::No || has_lost(server);
                let asked = matches!(why, Why::Timer) || server.is_none_or(may);
                ProcessRule::CancelUnasked.holds(asked, format_args!("to {}", sent.to));
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

    fn forwarded(&mut self, sent: &Sent, message: &Message<'_>, id: ClientId, why: Why<'_, '_>) {
        let below = message.second_via().expect("it has lower Vias");
        let of = ServerId::new(&below, &id.1);
        let in_hand = matches!(message.method(), Some(Method::Ack | Method::Cancel));
        if message.method() == Some(Method::Cancel) {
            let is_known = of.as_ref().is_some_and(|of| self.is_under_way(of));
            ProcessRule::CancelPassedOn.holds(!is_known, format_args!("to {}", sent.to));
        }
        let server = of.as_ref().and_then(|of| self.servers.get(of)).filter(|_| !in_hand);
        let Some(server) = server else {
            if let Why::Request { request, from } = why {
                self.passed_on(sent, message, (request, from));
                if in_hand {
                    if message.method() == Some(Method::Ack) {
                        self.unacknowledged.remove(message.call_id());
                    }
                    return self.same_branch(request, from, &id.0);
                }
            } else {
                // An alternate, of a request whose transaction cannot be told.
                ProcessRule::SentUnasked
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
        ProcessRule::SentAnswered.holds(!server.is_answered(), to);
        if server.attempts == 0 {
            ProcessRule::SentLate.holds(matches!(why, Why::Request { .. }), to);
        } else {
            ProcessRule::AlternateCancelled.holds(server.cancelled != Cancelled::Yes, to);
            let failed = match why {
                Why::Response { status, .. } => status == 503 || self.hop.forks && status >= 300,
                Why::Timer | Why::Unreachable => true,
                Why::Request { .. } => self.hop.forks && server.is_new(self.now),
            };
            ProcessRule::AlternateEarly.holds(failed, to);
            let declined = |branch: &ClientId| self.clients.get(branch).is_some_and(|it| it.status >= 600);
            ProcessRule::AfterDecline.holds(!server.branches.iter().any(declined), to);
        }
        let (bytes, from) = (server.request.clone(), server.from);
        let request = wire::scan(&bytes).expect("it was read when it came in");
        self.passed_on(sent, message, (&request, from));
        self.shared((&request, from), (message, sent.to), true);
        let client = self.client(of.clone(), message, sent.to);
        self.clients.insert(id.clone(), client);
        if let Some(server) = of.and_then(|of| self.servers.get_mut(&of)) {
            if matches!(why, Why::Timer) {
                server.rung_out = server.branches.len();
            }
            server.sent_on(self.now, id);
            self.began(&request);
        }
    }

    /// A request went on that calls begin or end with.
    fn began(&mut self, request: &Message<'_>) {
        let Some(calls) = &mut self.calls else { return };
        match request.method() {
            Some(Method::Invite) if request.to_tag().is_none() => calls.invited(request),
            Some(Method::Bye) => calls.hung_up(self.now, request),
            _ => {}
        }
    }

    /// Whether the proxy has what a CANCEL of this identity is about (§16.10), of whatever method.
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

    /// §16.11: what is forwarded without a transaction gets a branch that its repetition gets too.
    fn same_branch(&mut self, request: &Message<'_>, from: SocketAddr, branch: &[u8]) {
        let now = self.now;
        let key = (from, request.bytes().to_vec());
        let first = self.stateless.entry(key).or_insert_with(|| (branch.to_vec(), now));
        ProcessRule::OtherBranch.equal(branch, &first.0[..]);
        self.stateless_branches.insert(branch.to_vec());
    }

    /// §16.6.
    fn passed_on(&mut self, sent: &Sent, message: &Message<'_>, (request, from): (&Message<'_>, SocketAddr)) {
        self.hop.passed_on((sent, message), (request, from));
        self.record_route(sent, message, request);
        self.target(sent.to, message, request);
    }

    /// §16.6 step 4: requests that begin a dialog get a Record-Route, with a second one where the sides differ.
    /// Without a From tag (RFC 2543) they get none.
    fn record_route(&mut self, sent: &Sent, message: &Message<'_>, request: &Message<'_>) {
        let begins = request.to_tag().is_none()
            && request.from_tag().is_some()
            && matches!(request.method(), Some(Method::Invite | Method::Subscribe | Method::Refer));
        let added = message.record_routes().count().wrapping_sub(request.record_routes().count());
        let right = if begins { (1..=2).contains(&added) } else { added == 0 };
        ProcessRule::RecordRoutes.holds(right, format_args!("{added}"));
        for (at, value) in message.record_routes().take(added).enumerate() {
            let text = format_args!("{}", value.uri.escape_ascii());
            let uri = SipUri::parse(value.uri).ok();
            let Some((address, uri)) = uri.and_then(|uri| Some((address_of(&uri)?, uri))) else {
                ProcessRule::RecordAddress.is_broken(text)
            };
            ProcessRule::RecordSide.holds(at > 0 || address == self.listeners[sent.listener as usize], text);
            let is_loose = self.listeners.contains(&address) && uri.param("lr").is_some();
            ProcessRule::RecordLoose.holds(is_loose, text);
            ProcessRule::RecordToken.holds(self.dialogs.token_of(value.uri).is_some(), text);
        }
        self.dialogs.recorded(self.now + self.token_lifetime, message, added);
    }

    /// §16.4, §16.5, §16.6 step 7: to a next hop, or where the parties of a dialog that came this way have told each
    /// other.
    fn target(&mut self, to: SocketAddr, message: &Message<'_>, request: &Message<'_>) {
        let may_go = self.hops.contains(&to) || self.dialogs.may_go(request, to);
        ProcessRule::NoHop.holds(may_go, format_args!("{to}"));
        self.dialogs.heard(request);
        let ours = |uri: &&[u8]| {
            SipUri::parse(uri)
                .is_ok_and(|uri| address_of(&uri).is_some_and(|at| self.listeners.contains(&at)))
        };
        let routes = || request.routes().map(|route| route.uri);
        // What a strict router did or needs is another story (§16.4, §16.6 step 6).
        if request.uri() == message.uri() && routes().next().as_ref().is_some_and(ours) {
            let left = routes().skip_while(ours);
            let same = left.eq(message.routes().map(|route| route.uri));
            ProcessRule::RouteLeft.holds(same, format_args!("to {to}"));
            let next = message.routes().next().map(|route| route.uri).or(message.uri()).unwrap_or_default();
            let named = SipUri::parse(next).ok().and_then(|uri| address_of(&uri));
            let elsewhere = named.filter(|named| *named != to && !self.listeners.contains(named));
            let led = self.dialogs.is_led(self.now, request);
            ProcessRule::RouteTarget
                .holds(!led || elsewhere.is_none(), format_args!("to {to}, not {named:?}"));
        }
    }

    /// What the proxy shows of itself: no more than there is reason for, however long it runs.
    ///
    /// # Panics
    /// When there is more.
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
