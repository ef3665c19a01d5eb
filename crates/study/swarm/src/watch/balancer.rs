//! What a balancer may send.

use super::dialogs::{Dialogs, address_of};
use super::hop::{Hop, passed_back, scanned};
use super::{ProcessRule, Sent};
use base::Instant;
use node::TokenOwner;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use wire::{Fault, Host, Message, SipUri, request_source_target, response_target};

/// An answer of the element's own is longer than its request by no more than this.
const GROWTH_MAX: usize = 100;
/// And no shorter request gets one: so nobody gets more than twice the bytes of a request for it.
const ANSWERED_MIN: usize = 100;

/// Watches what goes into an element and what comes out, and knows nothing of the inside: panics when a datagram
/// leaves that should not, or otherwise than RFC 3261 §16 has it.
pub struct BalancerWatch {
    hop: Hop,
    /// All nodes, and whether each is a member.
    nodes: Vec<(SocketAddr, bool)>,
    /// Call-ID and response target of every request that was forwarded: where responses may go.
    ways_back: BTreeSet<(Vec<u8>, SocketAddr)>,
    /// Where the DNS said that names lead.
    resolved: BTreeSet<SocketAddr>,
    /// Where the tokens of Record-Route may lead.
    dialogs: Dialogs,
    /// What nodes have begun.
    begun: BTreeSet<Begun>,
}

/// A transaction of a node: sender, Call-ID, CSeq number and branch, and the URIs that say where it goes.
type Begun = (SocketAddr, Vec<u8>, u32, Vec<u8>, Vec<Vec<u8>>);

impl BalancerWatch {
    /// A watch of the element that has these listeners and may send requests to these nodes, all of them members.
    pub fn new(listeners: &[SocketAddr], nodes: &[SocketAddr]) -> Self {
        Self {
            hop: Hop::new(listeners, false),
            nodes: nodes.iter().map(|&node| (node, true)).collect(),
            ways_back: BTreeSet::new(),
            resolved: BTreeSet::new(),
            dialogs: Dialogs::new(TokenOwner::Pool, listeners),
            begun: BTreeSet::new(),
        }
    }

    /// The nodes have changed; each comes with whether it is a member. The ways back stay: an element may have
    /// started anew between request and response.
    pub fn set_nodes(&mut self, nodes: impl Iterator<Item = (SocketAddr, bool)>) {
        self.nodes.clear();
        self.nodes.extend(nodes);
    }

    /// A name leads there.
    pub fn resolved(&mut self, to: SocketAddr) {
        self.resolved.insert(to);
    }

    /// `bytes` came from `from`, `sent` went out.
    pub fn check(&mut self, from: SocketAddr, bytes: &[u8], sent: &[Sent]) {
        self.hop.families(sent);
        match wire::scan(bytes) {
            Err(_) => ProcessRule::Unreadable.equal(sent, []),
            Ok(response) if response.status().is_some() => self.response(&response, sent),
            Ok(request) => self.request(from, &request, sent),
        }
    }

    /// Requests that were sent on did not arrive: who has sent them may be told (RFC 3261 §16.9), and nobody else anything.
    pub fn lost(&self, sent: &[Sent]) {
        self.hop.families(sent);
        for one in sent {
            let answer = scanned(one);
            let is_failure = answer.status().is_some_and(|status| status >= 400);
            ProcessRule::OwnAnswer.holds(is_failure, format_args!("{:?}", answer.status()));
            let way = (answer.call_id().to_vec(), one.to);
            ProcessRule::ResponseUnasked.holds(self.ways_back.contains(&way), format_args!("{}", one.to));
        }
    }

    fn response(&mut self, response: &Message<'_>, sent: &[Sent]) {
        let [one] = sent else { return ProcessRule::ResponseCopies.equal(sent, []) };
        let forwarded = scanned(one);
        ProcessRule::ResponseStatus.equal(forwarded.status(), response.status());
        passed_back(response, &forwarded);
        let via = response.second_via().expect("forwarded, so there is a Via to follow");
        ProcessRule::ResponseTarget.equal(Some(one.to), response_target(&via));
        let way = (response.call_id().to_vec(), one.to);
        ProcessRule::ResponseUnasked.holds(self.ways_back.contains(&way), format_args!("{}", one.to));
        let shows_nothing = self.dialogs.answered(response, &forwarded);
        // To the pool each side holds the same token.
        let to_node = self.nodes.iter().any(|(node, _)| *node == one.to);
        ProcessRule::TokenShown.holds(shows_nothing || !to_node, format_args!("to {}", one.to));
    }

    fn request(&mut self, from: SocketAddr, request: &Message<'_>, sent: &[Sent]) {
        let back = request_source_target(request.top_via(), from).unwrap_or(from);
        ProcessRule::Copies.holds(sent.len() <= self.nodes.len(), format_args!("{}", sent.len()));
        if let Some(fault) = request.fault() {
            return malformed(fault, request, back, sent);
        }
        for one in sent {
            let message = scanned(one);
            ProcessRule::OtherCall.equal(message.call_id(), request.call_id());
            if let Some(status) = message.status() {
                grows_little(request.bytes(), one);
                ProcessRule::AnswerTarget.equal((one.to, sent.len()), (back, 1));
                ProcessRule::AckAnswer
                    .holds(request.method() != Some(wire::Method::Ack), format_args!("with {status}"));
                ProcessRule::OwnAnswer.holds(status >= 400, format_args!("with {status}"));
            } else {
                self.forwarded(from, request, &message, one);
                self.ways_back.insert((request.call_id().to_vec(), back));
            }
        }
    }

    fn forwarded(&mut self, from: SocketAddr, request: &Message<'_>, forwarded: &Message<'_>, sent: &Sent) {
        let may =
            self.nodes.iter().any(|(node, _)| *node == sent.to) || self.may_name(from, request, sent.to);
        ProcessRule::Stranger.holds(may, format_args!("from {from} to {}", sent.to));
        let added = forwarded.record_routes().count().saturating_sub(request.record_routes().count());
        self.dialogs.recorded(Instant::ZERO, forwarded, added);
        self.dialogs.heard(request);
        self.hop.passed_on((sent, forwarded), (request, from));
    }
}

/// An answer of the element's own, which may reach somebody who never asked, is about as long as its request.
pub(super) fn grows_little(request: &[u8], answer: &Sent) {
    let (asked, got) = (request.len(), answer.bytes.len());
    // Challenges by all algorithms are long: they may be twice as long as their request.
    let is_challenge = answer.bytes.starts_with(b"SIP/2.0 407 ");
    let most = if is_challenge { 2 * asked } else { asked + GROWTH_MAX };
    let is_fine = asked >= ANSWERED_MIN && got <= most;
    ProcessRule::AnswerGrowth.holds(is_fine, format_args!("{got} bytes for {asked}"));
}

impl BalancerWatch {
    /// Whether this sender may have its request sent there: a member anywhere, one that was taken out to the end of
    /// what it has begun, and within its dialogs to whom the other party has named.
    fn may_name(&mut self, from: SocketAddr, request: &Message<'_>, to: SocketAddr) -> bool {
        let is = |member: bool| self.nodes.iter().any(|(node, is)| node.ip() == from.ip() && *is == member);
        let branch = request.top_via().branch.unwrap_or_default().to_vec();
        // Ours lead nowhere.
        let routes = request.routes().map(|route| route.uri).filter(|uri| !self.dialogs.is_own(uri));
        let leads = request.uri().into_iter().chain(routes).map(<[u8]>::to_vec).collect();
        let begun = (from, request.call_id().to_vec(), request.cseq().number, branch, leads);
        let by_name = || self.resolved.contains(&to) && uris(request).any(|uri| is_name(uri.host));
        if !names(request).any(|named| named == to) && !by_name() {
            return false;
        }
        let may = is(true) || is(false) && (self.begun.contains(&begun) || self.dialogs.may_go(request, to));
        if may {
            self.begun.insert(begun);
        }
        may
    }
}

/// What may become of a request with this fault from who is reached at `back`.
pub(super) fn malformed(fault: Fault, request: &Message<'_>, back: SocketAddr, sent: &[Sent]) {
    for one in sent {
        grows_little(request.bytes(), one);
    }
    // The answer copies what is malformed, and so may be as unreadable.
    let start = format!("SIP/2.0 {} ", fault.status);
    let fine = |one: &Sent| one.to == back && one.bytes.starts_with(start.as_bytes());
    ProcessRule::Malformed.holds(sent.len() <= 1 && sent.iter().all(fine), format_args!("{sent:?}"));
}

fn is_name(host: Host<'_>) -> bool {
    matches!(host, Host::Name(_))
}

/// Request-URI and Route.
fn uris<'m>(request: &Message<'m>) -> impl Iterator<Item = SipUri<'m>> {
    let uris = request.routes().map(|route| route.uri).chain(request.uri());
    uris.filter_map(|uri| SipUri::parse(uri).ok())
}

/// The addresses that Request-URI and Route name.
pub(super) fn names(request: &Message<'_>) -> impl Iterator<Item = SocketAddr> {
    uris(request).filter_map(|uri| address_of(&uri))
}
