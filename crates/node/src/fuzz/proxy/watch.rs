//! What a stateful proxy may send, and when.

use super::super::Sent;
use super::super::watch::{malformed, names, scanned};
use super::transactions::{Client, ClientId, RINGING_MAX, Server, ServerId, method_of};
use crate::ProxyReport;
use crate::token::route::PROXY_PARAM;
use base::Instant;
use core::time::Duration;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use transaction::Timers;
use wire::{Message, Method, SipUri, request_source_target, response_target};

/// What a proxy was given.
#[derive(Clone, Copy, Debug)]
pub enum Cause<'a> {
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
}

/// Why something was sent, read.
#[derive(Clone, Copy)]
enum Why<'a, 'm> {
    Request { request: &'a Message<'m>, from: SocketAddr, back: SocketAddr },
    Response { response: &'a Message<'m>, status: u16, client: &'a ClientId },
    Timer,
    Unreachable,
}

/// Watches a stateful proxy (RFC 3261 §16) from outside: panics when something leaves that should not. It knows the
/// configuration and sees all datagrams; everything else it derives from them.
///
/// - Telling: [`set_hops`](Self::set_hops), [`rekeyed`](Self::rekeyed), [`restarted`](Self::restarted).
/// - Watching: [`check`](Self::check), [`audit`](Self::audit).
/// - Looking: [`unsettled`](Self::unsettled).
pub struct ProxyWatch {
    listeners: Vec<SocketAddr>,
    hops: Vec<SocketAddr>,
    timers: Timers,
    /// How long a token in a Record-Route has to be honoured.
    token_lifetime: Duration,
    now: Instant,
    servers: BTreeMap<ServerId, Server>,
    clients: BTreeMap<ClientId, Client>,
    /// When requests came in whose transaction cannot be told from their Via, and where their answers go.
    unnamed: Vec<(Instant, SocketAddr)>,
    /// Call-ID and token of each Record-Route, and until when it must lead its dialog.
    recorded: BTreeMap<(Vec<u8>, Vec<u8>), Instant>,
    /// Call-IDs of answered calls whose ACK has not come by, and when they were answered.
    unacknowledged: BTreeMap<Vec<u8>, Instant>,
    /// The branch that an ACK or a CANCEL without a transaction got, and when.
    stateless: BTreeMap<(SocketAddr, Vec<u8>), (Vec<u8>, Instant)>,
}

impl ProxyWatch {
    /// A watch of the proxy with these listeners and timers. Its tokens are good for `token_lifetime`.
    pub fn new(listeners: &[SocketAddr], timers: Timers, token_lifetime: Duration) -> Self {
        Self {
            listeners: listeners.to_vec(),
            hops: Vec::new(),
            timers,
            token_lifetime,
            now: Instant::ZERO,
            servers: BTreeMap::new(),
            clients: BTreeMap::new(),
            unnamed: Vec::new(),
            recorded: BTreeMap::new(),
            unacknowledged: BTreeMap::new(),
            stateless: BTreeMap::new(),
        }
    }

    /// The next hops have changed.
    pub fn set_hops(&mut self, hops: impl Iterator<Item = SocketAddr>) {
        self.hops.clear();
        self.hops.extend(hops);
    }

    /// New tokens are made with another key; `kept` says whether those there are still good.
    pub fn rekeyed(&mut self, kept: bool) {
        self.stateless.clear();
        if !kept {
            self.recorded.values_mut().for_each(|until| *until = Instant::ZERO);
        }
    }

    /// A new process knows nothing but its key.
    pub fn restarted(&mut self) {
        self.servers.clear();
        self.clients.clear();
        self.unnamed.clear();
        self.unacknowledged.clear();
    }

    /// The Call-IDs of what would suffer if this process ended now: requests that wait for their final answer, and
    /// calls whose 2xx went back and was not acknowledged yet. Its repetitions would come under a branch that nobody knows.
    pub fn unsettled(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        let call =
            |server: &Server| wire::scan(&server.request).map(|request| request.call_id().to_vec()).ok();
        let waiting = self.servers.values().filter(|server| server.waits()).filter_map(call);
        waiting.chain(self.unacknowledged.keys().cloned())
    }

    /// The proxy sent `sent` because of `cause`.
    ///
    /// # Panics
    /// When it should not have.
    pub fn check(&mut self, now: Instant, cause: Cause<'_>, sent: &[Sent]) {
        self.now = now;
        for one in sent {
            let listener = self.listeners[one.listener as usize];
            assert_eq!(listener.is_ipv4(), one.to.is_ipv4(), "a socket of the other family");
        }
        match cause {
            Cause::Timer => self.all_sent(sent, Why::Timer),
            Cause::Unreachable => self.all_sent(sent, Why::Unreachable),
            Cause::Datagram { from, bytes } => match wire::scan(bytes) {
                Err(_) => assert_eq!(sent, [], "unreadable, and yet something was sent"),
                Ok(response) if response.status().is_some() => self.response(&response, sent),
                Ok(request) => self.request(from, &request, sent),
            },
        }
    }

    /// What answers nothing of the proxy's is dropped (RFC 6026 §8.9).
    fn response(&mut self, response: &Message<'_>, sent: &[Sent]) {
        let branch = response.top_via().branch.unwrap_or_default().to_ascii_lowercase();
        let id = (branch, method_of(response).to_vec());
        let (Some(client), Some(status)) = (self.clients.get_mut(&id), response.status()) else {
            return assert_eq!(sent, [], "a response to nothing, and yet something was sent");
        };
        client.heard(self.now, status);
        let why = Why::Response { response, status, client: &id };
        self.all_sent(sent, why);
    }

    fn request(&mut self, from: SocketAddr, request: &Message<'_>, sent: &[Sent]) {
        let asked = request_source_target(request.top_via(), from).unwrap_or(from);
        // A Via with `maddr` may lead out of every family that there is.
        let reachable = self.listeners.iter().any(|listener| listener.is_ipv4() == asked.is_ipv4());
        let back = if reachable { asked } else { from };
        if let Some(fault) = request.fault() {
            return malformed(fault, back, sent);
        }
        let why = Why::Request { request, from, back };
        let Some(id) = ServerId::new(request.top_via(), method_of(request)) else {
            self.unnamed.push((self.now, back));
            return self.all_sent(sent, why);
        };
        match request.method() {
            Some(Method::Ack) => return self.ack(&id, why, sent),
            Some(Method::Cancel) => {
                let taken = sent.iter().any(|one| one.bytes.starts_with(b"SIP/2.0 200 "));
                if let Some(invite) = self.servers.get_mut(&id.of_invite()) {
                    invite.cancelled |= taken;
                }
            }
            _ => {}
        }
        if let Some(server) = self.servers.get(&id) {
            let over = server.is_over(self.now, &self.timers);
            let is_last = |one: &Sent| {
                one.to == server.back && server.last.as_ref().is_some_and(|(_, last)| *last == one.bytes)
            };
            let repeats = sent.len() <= 1 && sent.iter().all(is_last);
            assert!(
                over || repeats,
                "a repeated request is answered as the first was, or not at all: {sent:?}"
            );
            if repeats {
                return;
            }
        }
        self.servers.insert(id.clone(), Server::new(&id, request, from, back, self.now));
        self.all_sent(sent, why);
        if self.servers.get(&id).is_some_and(|server| server.last.is_none() && server.attempts == 0) {
            // Dropped, or passed on without a transaction.
            self.servers.remove(&id);
        }
    }

    /// One to a refusal ends here, one to a 2xx is passed on; none is answered.
    fn ack(&mut self, id: &ServerId, why: Why<'_, '_>, sent: &[Sent]) {
        assert!(sent.len() <= 1, "an ACK became several");
        if let Some(invite) = self.servers.get_mut(&id.of_invite())
            && invite.last.as_ref().is_some_and(|(status, _)| *status >= 300)
            && !invite.is_over(self.now, &self.timers)
        {
            invite.acked_at.get_or_insert(self.now);
            assert_eq!(sent, [], "an ACK to a refusal of this hop went on");
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
            self.answer(sent, &message, status, why);
        } else {
            let via = message.top_via();
            let sent_by = via.host.ip().zip(via.port).map(SocketAddr::from);
            assert_eq!(sent_by, Some(self.listeners[sent.listener as usize]), "a Via of another listener");
            let branch = via.branch.unwrap_or_default().to_ascii_lowercase();
            let id = (branch, method_of(&message).to_vec());
            if let Some(client) = self.clients.get_mut(&id) {
                assert!(matches!(why, Why::Timer), "a retransmission that no timer asked for");
                client.repeated(self.now, &sent.bytes, sent.to);
            } else if message.has_lower_vias() {
                self.forwarded(sent, &message, id, why);
            } else {
                self.own(sent, &message, id, why);
            }
        }
    }

    fn answer(&mut self, sent: &Sent, message: &Message<'_>, status: u16, why: Why<'_, '_>) {
        let id = ServerId::new(message.top_via(), method_of(message));
        if let Why::Response { response, status: heard, client } = why {
            // §16.7 step 5; §17.1.1.1: it says that this hop's next one is at work, and no more.
            assert_ne!(status, 100, "a 100 was passed on");
            if let Some(via) = response.second_via()
                && status == heard
            {
                assert_eq!(message.vias().count() + 1, response.vias().count());
                assert_eq!(message.body(), response.body());
                assert_eq!(Some(sent.to), response_target(&via), "a response to another than its Via says");
                assert_ne!(status, 503, "a 503 of the next hop was passed on (§16.7 step 6)");
                let Some(of) = self.clients[client].server.clone() else { return };
                let Some(server) = self.servers.get_mut(&of) else { return };
                if id.as_ref() == Some(&of) {
                    assert_eq!(sent.to, server.back, "a response to another than who asked");
                }
                if of.is_invite() && (200..300).contains(&status) && !server.is_answered() {
                    self.unacknowledged.insert(message.call_id().to_vec(), self.now);
                }
                return server.answered(self.now, status, &sent.bytes, true);
            }
        }
        let Some(server) = id.as_ref().and_then(|id| self.servers.get_mut(id)) else {
            // From a peer of RFC 2543: one of them.
            let asked = self.unnamed.iter().any(|(_, back)| *back == sent.to);
            return assert!(id.is_none() && asked, "an answer to {}, which did not ask", sent.to);
        };
        assert_eq!(sent.to, server.back, "an answer to another than who asked");
        let at_once = matches!(why, Why::Request { .. });
        assert!(status != 503 || at_once && server.attempts == 0, "a 503 for a request that was sent on");
        server.answered(self.now, status, &sent.bytes, false);
    }

    /// ACK to a refusal and CANCEL: made by this hop for the next one, of the INVITE that it had sent (§17.1.1.3, §9.1).
    fn own(&mut self, sent: &Sent, message: &Message<'_>, id: ClientId, why: Why<'_, '_>) {
        let of_invite = (id.0.clone(), b"INVITE".to_vec());
        let name = message.cseq().method.name();
        let invite = self.clients.get(&of_invite);
        let invite = invite.unwrap_or_else(|| panic!("{name} under a branch that no INVITE had"));
        assert_eq!(sent.to, invite.to, "{name} to another next hop than its INVITE");
        let began = wire::scan(&invite.bytes).expect("it was read when it was sent");
        assert_eq!(message.uri(), began.uri(), "{name} for another Request-URI than its INVITE");
        assert_eq!(message.cseq().number, began.cseq().number);
        assert_eq!(message.call_id(), began.call_id());
        match message.method() {
            Some(Method::Ack) => {
                let Why::Response { response, status: 300.., client } = why else {
                    panic!("an ACK to no refusal");
                };
                assert_eq!(*client, of_invite, "an ACK to another INVITE's refusal");
                let tag = message.to_tag() == response.to_tag();
                let first = self.clients.get_mut(&of_invite).map(|invite| &mut invite.ack);
                match first.expect("it was found") {
                    Some(first) => assert!(*first == sent.bytes, "another ACK than the first"),
                    first => {
                        assert!(tag, "an ACK to another party than who refused");
                        *first = Some(sent.bytes.clone());
                    }
                }
            }
            Some(Method::Cancel) => {
                let server = invite.server.as_ref().and_then(|server| self.servers.get(server));
                let asked = matches!(why, Why::Timer) || server.is_none_or(|server| server.cancelled);
                assert!(asked, "a CANCEL that nobody asked for");
                assert!(invite.provisional && invite.status == 0, "a CANCEL out of time (§9.1)");
                let client = Client::new(invite.server.clone(), message, sent.to, self.now);
                self.clients.insert(id, client);
            }
            _ => panic!("a {name} of the proxy's own"),
        }
    }

    fn forwarded(&mut self, sent: &Sent, message: &Message<'_>, id: ClientId, why: Why<'_, '_>) {
        let below = message.second_via().expect("it has lower Vias");
        let of = ServerId::new(&below, &id.1);
        let in_hand = matches!(message.method(), Some(Method::Ack | Method::Cancel));
        let server = of.as_ref().and_then(|of| self.servers.get(of)).filter(|_| !in_hand);
        let Some(server) = server else {
            if let Why::Request { request, from, back } = why {
                self.passed_on(sent, message, (request, from, back));
                if in_hand {
                    if message.method() == Some(Method::Ack) {
                        self.unacknowledged.remove(message.call_id());
                    }
                    return self.same_branch(request, from, &id.0);
                }
            } else {
                // An alternate, of a request whose transaction cannot be told.
                assert!(of.is_none(), "sent on, and nobody had asked: {}", message.cseq().method.name());
                if message.to_tag().is_none() {
                    self.note_tokens(message, 1);
                }
            }
            self.clients.insert(id, Client::new(None, message, sent.to, self.now));
            return;
        };
        assert!(!server.is_answered(), "sent on after its final answer");
        if server.attempts == 0 {
            assert!(matches!(why, Why::Request { .. }), "sent on for the first time, and nobody had asked");
        } else {
            assert!(!server.cancelled, "an alternate for what was cancelled");
            let failed = match why {
                Why::Response { status, .. } => status == 503,
                Why::Timer | Why::Unreachable => true,
                Why::Request { .. } => false,
            };
            assert!(failed, "an alternate, and the hop before had not failed");
        }
        let (bytes, from, back) = (server.request.clone(), server.from, server.back);
        let request = wire::scan(&bytes).expect("it was read when it came in");
        self.passed_on(sent, message, (&request, from, back));
        self.clients.insert(id, Client::new(of.clone(), message, sent.to, self.now));
        if let Some(server) = of.and_then(|of| self.servers.get_mut(&of)) {
            server.sent_on(self.now);
        }
    }

    /// §16.11: what is forwarded without a transaction gets a branch that its repetition gets too.
    fn same_branch(&mut self, request: &Message<'_>, from: SocketAddr, branch: &[u8]) {
        let now = self.now;
        let key = (from, request.bytes().to_vec());
        let first = self.stateless.entry(key).or_insert_with(|| (branch.to_vec(), now));
        assert_eq!(first.0, branch, "a repetition without a transaction got another branch");
    }

    /// §16.6.
    fn passed_on(
        &mut self,
        sent: &Sent,
        message: &Message<'_>,
        (request, from, back): (&Message<'_>, SocketAddr, SocketAddr),
    ) {
        assert_eq!(message.vias().count(), request.vias().count() + 1);
        assert_eq!(message.body(), request.body());
        let below = message.second_via().expect("the client's Via");
        let asked = request_source_target(request.top_via(), from).unwrap_or(back);
        assert_eq!(response_target(&below).unwrap_or(asked), asked);
        let hops = request.max_forwards().map_or(70, |(hops, _)| hops - 1);
        assert_eq!(message.max_forwards().map(|(hops, _)| hops), Some(hops));
        self.record_route(sent, message, request);
        self.target(sent.to, message, request);
    }

    /// §16.6 step 4: requests that begin a dialog get a Record-Route, with a second one where the sides differ.
    fn record_route(&mut self, sent: &Sent, message: &Message<'_>, request: &Message<'_>) {
        let begins = request.to_tag().is_none()
            && matches!(request.method(), Some(Method::Invite | Method::Subscribe | Method::Refer));
        let added = message.record_routes().count() - request.record_routes().count();
        assert!(
            if begins { (1..=2).contains(&added) } else { added == 0 },
            "{added} Record-Routes were added"
        );
        for (at, value) in message.record_routes().take(added).enumerate() {
            let uri = SipUri::parse(value.uri).expect("a Record-Route of ours is a SIP URI");
            let address = address_of(&uri).expect("it has an address");
            assert!(at > 0 || address == self.listeners[sent.listener as usize], "the wrong side on top");
            assert!(self.listeners.contains(&address) && uri.param("lr").is_some());
            assert!(token_of(value.uri).is_some());
        }
        self.note_tokens(message, added);
    }

    /// Requests with the tokens of the topmost Record-Routes are to be led where their route set says.
    fn note_tokens(&mut self, message: &Message<'_>, count: usize) {
        let until = self.now + self.token_lifetime;
        for token in message.record_routes().take(count).filter_map(|value| token_of(value.uri)) {
            self.recorded.insert((message.call_id().to_vec(), token), until);
        }
    }

    /// §16.4, §16.5, §16.6 step 7: where the route set of a dialog that came this way leads, and else to a next hop.
    fn target(&self, to: SocketAddr, message: &Message<'_>, request: &Message<'_>) {
        let until = |token| self.recorded.get(&(request.call_id().to_vec(), token)).copied();
        let mut uris = request.routes().map(|route| route.uri).chain(request.uri());
        let came_this_way = uris.any(|uri| token_of(uri).and_then(until).is_some());
        assert!(
            self.hops.contains(&to) || came_this_way && names(request).any(|named| named == to),
            "a request to {to}, which is no next hop"
        );
        let ours = |uri: &&[u8]| {
            SipUri::parse(uri)
                .is_ok_and(|uri| address_of(&uri).is_some_and(|at| self.listeners.contains(&at)))
        };
        let routes = || request.routes().map(|route| route.uri);
        // What a strict router did or needs is another story (§16.4, §16.6 step 6).
        if request.uri() == message.uri() && routes().next().as_ref().is_some_and(ours) {
            let left = routes().skip_while(ours);
            assert!(left.eq(message.routes().map(|route| route.uri)), "the Route that is left is another");
            let next = message.routes().next().map(|route| route.uri).or(message.uri()).unwrap_or_default();
            let named = SipUri::parse(next).ok().and_then(|uri| address_of(&uri));
            let token = routes().take_while(ours).find_map(token_of);
            let led = token.and_then(until).is_some_and(|until| self.now < until);
            assert!(!led || named == Some(to), "a request went to {to}, and its route set leads elsewhere");
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
        let waiting = servers.values().filter(|server| server.waits()).count() + self.unnamed.len();
        assert!(report.unanswered <= waiting, "{} wait, {waiting} were sent on", report.unanswered);
        let most = servers.len() + clients.len() + 2 * self.unnamed.len();
        assert!(report.transactions <= most, "{} transactions, reason for {most}", report.transactions);
    }
}

/// The proxy's token in a URI.
fn token_of(uri: &[u8]) -> Option<Vec<u8>> {
    Some(SipUri::parse(uri).ok()?.param(PROXY_PARAM).flatten()?.to_ascii_lowercase())
}

fn address_of(uri: &SipUri<'_>) -> Option<SocketAddr> {
    let host = uri.param("maddr").flatten().map_or(Some(uri.host), wire::Host::parse)?;
    Some(SocketAddr::new(host.ip()?, uri.port.unwrap_or(5060)))
}
