//! The token in this proxy's Record-Route URI: it names the node of a dialog, and the target of its requests. The
//! holder of a token may send requests of one dialog to one target. The two sides of a dialog hold different tokens:
//!
//! - The peer's token (of the callee) is written into the request that begins the dialog. It is bound to the Call-ID
//!   and the initiator's tag. It leads to the initiator: to the Record-Route value below this proxy's, or to the
//!   Contact.
//! - The initiator's token replaces the peer's token in the responses (RFC 3261 §16.7 step 8), since only responses
//!   have the peer's tag and Contact. It is bound to both tags, and leads to the peer.
//!
//! A proxy does not change the responses of a pool's nodes. So in a pool's dialog the initiator also holds the peer's
//! token, which leads only to the node.

use super::owner::TokenOwner;
use super::{Derived, KeyIndex, Tokens, keyed_hash, text};
use crate::address::client_flow::{ClientFlow, LENGTHS};
use crate::address::target::Target;
use crate::address::topology::node_id;
use balance::NodeId;
use base::{Peer, SipHash};
use core::hash::Hasher;
use wire::Message;

/// High half of the first byte, without [`DIALOG`]. Another layout gets another number.
const VERSION: u8 = 0x30;
/// High half of the first byte of a token with [`DialogToken::is_registered`]. Older versions of the program do not
/// read it.
const REGISTERED: u8 = 0x20;
const OUTBOUND: u8 = 0x01;
/// Flag in a proxy's token: no transactions are kept. It has the same bit as `OUTBOUND`, which only a pool's token
/// uses.
const STATELESS: u8 = OUTBOUND;
const OF_INITIATOR: u8 = 0x02;
const HEARD: u8 = 0x04;
const OF_PROXY: u8 = 0x08;
/// Flag in a proxy's token: the state of the dialog is kept.
const DIALOG: u8 = 0x40;

/// Flag: a [`ClientFlow`] is between body and MAC. Without the flag, the layout is the one that the program had before
/// it supported connections. So both versions of the program can read each other's tokens.
const CONNECTED: u8 = 0x80;

const BODY: usize = 17;
const MAC: usize = 8;
const LEN: usize = BODY + MAC;
/// Lengths of a token with a flow, for each address family.
const LONG: [usize; 2] = [LEN + LENGTHS[0], LEN + LENGTHS[1]];

/// State kept of a dialog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    /// No state: requests of the dialog are forwarded without transactions.
    Nothing,
    /// The transactions of its requests.
    Transactions,
    /// The dialog, and the transactions of its requests.
    Dialog,
}

/// Content of a verified token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DialogToken {
    /// The node of the dialog. In a proxy's token: the next hop of the request that began the dialog.
    pub(crate) node: NodeId,
    /// Whether the node began the dialog (an outbound call). Only in a pool's token.
    pub(crate) outbound: bool,
    /// State kept of the dialog. Only in a proxy's token.
    pub(crate) kept: Kept,
    /// [`Tokens::target_hash`] of the target of the holder's requests.
    pub(crate) target: u32,
    /// Whether a message had come from the target's address when the token was made.
    pub(crate) heard: bool,
    /// [`Tokens::home_hash`] of the initiator's target when the dialog began.
    pub(crate) home: u32,
    /// The flow that reaches the target, if it is a client (RFC 5626 §5.3).
    pub(crate) flow: Option<ClientFlow>,
    /// Whether `node` is the address from which a user has registered over UDP. If the peer answers from this address,
    /// it is reached there and not at its Contact. Only in the peer's token of a proxy.
    pub(crate) is_registered: bool,
}

/// A token that fits its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VerifiedToken {
    pub(crate) token: DialogToken,
    /// Whether the side that began the dialog sent the request.
    pub(crate) by_initiator: bool,
    /// Whether this is the initiator's own token.
    of_initiator: bool,
    /// The key of the token. Branches of requests without a transaction use the same key, so all copies have the same
    /// branch (RFC 3261 §16.11), even after a reload.
    pub(crate) key: KeyIndex,
    /// Time when the dialog began, as Unix time in seconds.
    pub(crate) made: u32,
}

impl VerifiedToken {
    /// Returns whether the token is the sender's own. The initiator may hold the peer's token.
    pub(crate) fn is_senders(&self) -> bool {
        self.by_initiator == self.of_initiator
    }
}

/// The target for the initiator's token, as a response states it.
pub(crate) struct AnswerTarget<'a> {
    pub(crate) target: Target<'a>,
    /// Whether a message has come from the target's address.
    pub(crate) heard: bool,
    /// The flow by which the response came, if there is no proxy between this one and the target.
    pub(crate) flow: Option<ClientFlow>,
    pub(crate) source: Peer,
}

/// The dialog that a token is bound to.
struct Dialog<'a> {
    call_id: &'a [u8],
    initiator: &'a [u8],
    /// The peer's tag; empty for the peer's token.
    peer: &'a [u8],
}

impl Tokens {
    /// Appends the peer's token for a request that begins a dialog. `unix` is the time in seconds.
    pub(crate) fn write_route(
        &self,
        element: TokenOwner,
        token: DialogToken,
        request: &Message<'_>,
        unix: u32,
        key: KeyIndex,
        out: &mut Vec<u8>,
    ) {
        let initiator = request.from_tag().unwrap_or_default();
        let dialog = Dialog { call_id: request.call_id(), initiator, peer: &[] };
        seal(self.key(key), body(element, token, unix, false), token.flow, &dialog, out);
    }

    /// Returns the Unix time for the token of a dialog without state: the end of the current eighth of a lifetime. So
    /// the time is the same for the copies of a request (RFC 3261 §16.11: "it MUST place the same values in
    /// retransmitted versions"). It differs only between copies before and after the end of an eighth. A UAS that has
    /// the first copy ignores the Record-Route of the second (§17.2).
    pub(crate) fn coarse(&self, unix: u32) -> u32 {
        let step = u32::try_from(self.lifetime.as_secs() / 8).unwrap_or(u32::MAX).max(1);
        unix.checked_next_multiple_of(step).unwrap_or(u32::MAX)
    }

    /// Appends the initiator's token for a response that returned the peer's token `text`. Returns `false` if that
    /// token was not made for this dialog. A repeated response gets the same token.
    pub(crate) fn write_answer(
        &self,
        element: TokenOwner,
        text: &[u8],
        response: &Message<'_>,
        to: &AnswerTarget<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        let (Some((bytes, flow)), Some(peer)) = (decode(element, text), response.to_tag()) else {
            return false;
        };
        let initiator = response.from_tag().unwrap_or_default();
        let dialog = Dialog { call_id: response.call_id(), initiator, peer: &[] };
        let made_with =
            |key: &&Derived| bytes[0] & OF_INITIATOR == 0 && is_sealed(key, &bytes, flow, &dialog);
        let Some(key) = self.all().find(made_with) else { return false };
        let (token, unix) = fields(&bytes, flow);
        let AnswerTarget { target, heard, flow, source } = to;
        let is_proven = |flow: &ClientFlow| {
            flow.is_connection() || (token.is_registered && token.node == node_id(*source))
        };
        let (target, flow) = (target_hash(key, target), flow.filter(is_proven));
        let token = DialogToken { target, heard: *heard, flow, is_registered: false, ..token };
        seal(key, body(element, token, unix, true), token.flow, &Dialog { peer, ..dialog }, out);
        true
    }

    /// Reads the token of a request. `None` if the token is of another site or another dialog, altered, or too old. A
    /// request without To tag is in no dialog.
    pub(crate) fn read_route(
        &self,
        element: TokenOwner,
        text: &[u8],
        request: &Message<'_>,
        unix: u32,
    ) -> Option<VerifiedToken> {
        let (bytes, flow) = decode(element, text)?;
        let (from, to) = (request.from_tag().unwrap_or_default(), request.to_tag()?);
        let of_initiator = bytes[0] & OF_INITIATOR != 0;
        let dialog = |initiator, peer| Dialog { call_id: request.call_id(), initiator, peer };
        let (token, made) = fields(&bytes, flow);
        let sealed = |dialog: Dialog<'_>| self.all().position(|key| is_sealed(key, &bytes, flow, &dialog));
        let (key, by_initiator) = if of_initiator {
            (sealed(dialog(from, to))?, true)
        } else {
            match sealed(dialog(from, &[])) {
                Some(key) => (key, true),
                None => (sealed(dialog(to, &[]))?, false),
            }
        };
        let key = KeyIndex(key);
        self.is_fresh(made, unix).then_some(VerifiedToken { token, by_initiator, of_initiator, key, made })
    }

    /// Returns whether a token leads to this target.
    pub(crate) fn leads_to(&self, held: &VerifiedToken, target: &Target<'_>) -> bool {
        self.target_hash(target, held.key) == held.token.target
    }

    /// Returns whether the token alone leads to this target of the initiator. This is so if target and connection are
    /// the same as when the dialog began. It is also so if the route set alone determines the way, since no refresh
    /// changes the route set.
    pub(crate) fn is_home(
        &self,
        held: &VerifiedToken,
        target: &Target<'_>,
        flow: Option<ClientFlow>,
    ) -> bool {
        let home = held.token.home;
        home == BY_ROUTE || self.home_hash(Some(target), flow, held.key) == home
    }

    /// Returns the hash of the initiator's target and connection for a new token. `None`: the route set determines the
    /// way.
    pub(crate) fn home_hash(
        &self,
        contact: Option<&Target<'_>>,
        flow: Option<ClientFlow>,
        key: KeyIndex,
    ) -> u32 {
        contact.map_or(BY_ROUTE, |contact| home_hash(self.key(key), contact, flow))
    }

    /// Returns the hash of a target for a new token.
    pub(crate) fn target_hash(&self, target: &Target<'_>, key: KeyIndex) -> u32 {
        target_hash(self.key(key), target)
    }

    /// Returns whether `hash` is the hash of the target under any key.
    pub(crate) fn is_target(&self, target: &Target<'_>, hash: u32) -> bool {
        self.all().any(|key| target_hash(key, target) == hash)
    }
}

/// Returns whether this looks like the peer's token; unverified.
pub(crate) fn is_peers(element: TokenOwner, text: &[u8]) -> bool {
    decode(element, text).is_some_and(|(bytes, _)| bytes[0] & OF_INITIATOR == 0)
}

/// Value in place of the hash of a Contact, if the route set determines the way.
const BY_ROUTE: u32 = 0;

fn home_hash(key: &Derived, contact: &Target<'_>, flow: Option<ClientFlow>) -> u32 {
    let number = flow.map_or(0, ClientFlow::number);
    (target_hash(key, contact) ^ number).max(BY_ROUTE + 1)
}

/// Returns the hash under a secret, so that no attacker can compute another target with the same hash. Each guess of an
/// attacker takes a request.
fn target_hash(key: &Derived, target: &Target<'_>) -> u32 {
    let mut hasher = SipHash::new(key.target);
    target.put(&mut hasher);
    hasher.finish() as u32
}

fn body(element: TokenOwner, token: DialogToken, unix: u32, of_initiator: bool) -> [u8; LEN] {
    let flag = |is: bool, flag: u8| if is { flag } else { 0 };
    let mut bytes = [0; LEN];
    let version = if token.is_registered { REGISTERED } else { VERSION };
    bytes[0] = version
        | flag(token.outbound && element == TokenOwner::Pool, OUTBOUND)
        | flag(token.kept == Kept::Nothing && element == TokenOwner::Proxy, STATELESS)
        | flag(token.kept == Kept::Dialog && element == TokenOwner::Proxy, DIALOG)
        | flag(of_initiator, OF_INITIATOR)
        | flag(token.heard, HEARD)
        | flag(element == TokenOwner::Proxy, OF_PROXY)
        | flag(token.flow.is_some(), CONNECTED);
    bytes[1..5].copy_from_slice(&unix.to_be_bytes());
    bytes[5..9].copy_from_slice(&token.node.0.to_be_bytes());
    bytes[9..13].copy_from_slice(&token.target.to_be_bytes());
    bytes[13..17].copy_from_slice(&token.home.to_be_bytes());
    bytes
}

/// Returns the content of a token's body, and the time when the token was made.
fn fields(bytes: &[u8; LEN], flow: Option<ClientFlow>) -> (DialogToken, u32) {
    let number = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let (first, is_proxys) = (bytes[0] & OUTBOUND != 0, bytes[0] & OF_PROXY != 0);
    let token = DialogToken {
        node: NodeId(number(5)),
        outbound: first && !is_proxys,
        kept: match (first && is_proxys, bytes[0] & DIALOG != 0) {
            (true, _) => Kept::Nothing,
            (false, true) => Kept::Dialog,
            (false, false) => Kept::Transactions,
        },
        target: number(9),
        heard: bytes[0] & HEARD != 0,
        home: number(13),
        flow,
        is_registered: bytes[0] & VERSION == REGISTERED,
    };
    (token, number(1))
}

/// Decodes body and MAC, and the flow between them, without verification.
fn decode(element: TokenOwner, text: &[u8]) -> Option<([u8; LEN], Option<ClientFlow>)> {
    let (bytes, flow) = match text::decode::<LEN>(text) {
        Some(bytes) => (bytes, None),
        None => decode_long(text)?,
    };
    let is_ours = matches!(bytes[0] & 0xf0 & !(DIALOG | CONNECTED), VERSION | REGISTERED)
        && (bytes[0] & OF_PROXY != 0) == (element == TokenOwner::Proxy)
        && (bytes[0] & CONNECTED != 0) == flow.is_some();
    is_ours.then_some((bytes, flow))
}

/// Decodes a text with the length of a token with a flow.
fn decode_long(text: &[u8]) -> Option<([u8; LEN], Option<ClientFlow>)> {
    let (short, long) = (text::decode::<{ LONG[0] }>(text), text::decode::<{ LONG[1] }>(text));
    let all = short.as_ref().map(|bytes| &bytes[..]).or(long.as_ref().map(|bytes| &bytes[..]))?;
    let (body, rest) = all.split_at(BODY);
    let (flow, mac) = rest.split_at(rest.len() - MAC);
    let mut bytes = [0; LEN];
    bytes[..BODY].copy_from_slice(body);
    bytes[BODY..].copy_from_slice(mac);
    Some((bytes, Some(ClientFlow::from_bytes(flow)?)))
}

fn seal(
    key: &Derived,
    mut bytes: [u8; LEN],
    flow: Option<ClientFlow>,
    dialog: &Dialog<'_>,
    out: &mut Vec<u8>,
) {
    let mac = mac(key, &bytes, flow, dialog);
    bytes[BODY..].copy_from_slice(&mac);
    let Some(flow) = flow else { return text::encode(&bytes, out) };
    let (flow, length) = flow.bytes();
    let mut long = [0; LONG[1]];
    long[..BODY].copy_from_slice(&bytes[..BODY]);
    long[BODY..BODY + length].copy_from_slice(&flow[..length]);
    long[BODY + length..LEN + length].copy_from_slice(&mac);
    text::encode(&long[..LEN + length], out);
}

fn is_sealed(key: &Derived, bytes: &[u8; LEN], flow: Option<ClientFlow>, dialog: &Dialog<'_>) -> bool {
    mac(key, bytes, flow, dialog) == bytes[BODY..]
}

/// Binds the fields to the dialog. Guessing 64 bits takes 2^63 datagrams, so the comparison need not take constant
/// time.
fn mac(key: &Derived, bytes: &[u8; LEN], flow: Option<ClientFlow>, dialog: &Dialog<'_>) -> [u8; MAC] {
    let mut fixed = [0; BODY + 8];
    fixed[..BODY].copy_from_slice(&bytes[..BODY]);
    fixed[BODY..BODY + 4].copy_from_slice(&(dialog.initiator.len() as u32).to_be_bytes());
    fixed[BODY + 4..].copy_from_slice(&(dialog.peer.len() as u32).to_be_bytes());
    let Some(flow) = flow else {
        return keyed_hash(key.route, &[&fixed, dialog.initiator, dialog.peer, dialog.call_id]).to_be_bytes();
    };
    // A flag in the body says that there is a flow. Unused bytes of the flow are zero, so the length is constant.
    let (flow, _) = flow.bytes();
    let parts = [&fixed, dialog.initiator, dialog.peer, dialog.call_id, &flow[..]];
    keyed_hash(key.route, &parts).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::target::NamedHost;
    use crate::token::TokenKey;
    use base::{Flow, Transport};
    use core::time::Duration;
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};
    use testkit::{TestRequest, TestResponse};

    const NOW: u32 = 1_800_000_000;
    const HERE: Target<'static> = named(b"here.example");
    const THERE: Target<'static> = named(b"there.example");

    const SOURCE: Peer =
        Peer { transport: Transport::Udp, address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5060) };
    const ANSWER: AnswerTarget<'static> =
        AnswerTarget { target: THERE, heard: true, flow: None, source: SOURCE };

    const fn named(host: &'static [u8]) -> Target<'static> {
        Target::Name(NamedHost { host, port: None, transport: Transport::Udp, by_dns: true })
    }

    fn tokens(key: u8) -> Tokens {
        Tokens::new(TokenKey([key; 16]), &[], Duration::from_hours(1))
    }

    /// Returns a request with these tags. An empty tag is left out.
    fn request(call: &str, from: &str, to: &str) -> String {
        let (from_tag, to_tag) = (from.to_owned(), Some(to.to_owned()));
        TestRequest { from_tag, to_tag, ..TestRequest::new("INVITE", call, at(1)) }.text()
    }

    fn response(call: &str, from: &str, to: &str) -> Vec<u8> {
        TestResponse { tag: "", ..TestResponse::new(200, at(2)) }.bytes(request(call, from, to).as_bytes())
    }

    fn at(host: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, host], 5060))
    }

    /// Returns the peer's token and the initiator's of a call from `a` to `b`.
    fn pair(of: &Tokens, element: TokenOwner) -> [Vec<u8>; 2] {
        connected_pair(of, element, None)
    }

    /// Returns the tokens of such a call with both sides reached by this connection.
    fn connected_pair(of: &Tokens, element: TokenOwner, flow: Option<ClientFlow>) -> [Vec<u8>; 2] {
        let (begins, answers) = (request("c", "a", ""), response("c", "a", "b"));
        let token = DialogToken {
            node: NodeId(7),
            outbound: false,
            kept: Kept::Dialog,
            target: of.target_hash(&HERE, KeyIndex::CURRENT),
            heard: false,
            home: of.home_hash(Some(&HERE), None, KeyIndex::CURRENT),
            flow,
            is_registered: false,
        };
        let (mut peers, mut initiators) = (Vec::new(), Vec::new());
        let begins = wire::scan(begins.as_bytes()).expect("a request");
        of.write_route(element, token, &begins, NOW, KeyIndex::CURRENT, &mut peers);
        let response = wire::scan(&answers).expect("a response");
        assert!(of.write_answer(
            element,
            &peers,
            &response,
            &AnswerTarget { flow, ..ANSWER },
            &mut initiators
        ));
        assert_eq!(peers.len(), initiators.len(), "both tokens have the same length");
        [peers, initiators]
    }

    fn read(by: &Tokens, text: &[u8], request: &str, unix: u32) -> Option<VerifiedToken> {
        let message = wire::scan(request.as_bytes()).expect("a request");
        by.read_route(TokenOwner::Proxy, text, &message, unix)
    }

    #[test]
    fn a_token_is_valid_for_its_dialog_side_and_target() {
        let ours = tokens(1);
        let [peers, initiators] = pair(&ours, TokenOwner::Proxy);
        let held = read(&ours, &peers, &request("c", "b", "a"), NOW).expect("a request of the peer");
        assert!(
            !held.by_initiator && held.is_senders() && !held.token.heard && held.token.kept == Kept::Dialog
        );
        assert_eq!(held.made, NOW);
        assert!(ours.leads_to(&held, &HERE) && !ours.leads_to(&held, &THERE));
        assert!(ours.is_home(&held, &HERE, None) && !ours.is_home(&held, &THERE, None));
        let held =
            read(&ours, &initiators, &request("c", "a", "b"), NOW).expect("a request of the initiator");
        assert!(
            held.by_initiator && held.is_senders() && held.token.heard && held.token.kept == Kept::Dialog
        );
        assert!(ours.leads_to(&held, &THERE) && !ours.leads_to(&held, &HERE));
        assert!(
            ours.is_home(&held, &HERE, None) && !ours.is_home(&held, &THERE, None),
            "both tokens have the initiator's first target"
        );
        // The responses of a pool's nodes keep the peer's token. The initiator can use it only to name the node.
        let held = read(&ours, &peers, &request("c", "a", "b"), NOW).expect("a request of the initiator");
        assert!(held.by_initiator && !held.is_senders());
        for (call, from, to) in
            [("c", "a", ""), ("c", "b", ""), ("d", "b", "a"), ("c", "x", "y"), ("c", "b", "x")]
        {
            assert_eq!(read(&ours, &peers, &request(call, from, to), NOW), None, "{call} {from} {to}");
        }
        for (call, from, to) in
            [("c", "a", ""), ("d", "a", "b"), ("c", "b", "a"), ("c", "a", "x"), ("c", "x", "b")]
        {
            assert_eq!(read(&ours, &initiators, &request(call, from, to), NOW), None, "{call} {from} {to}");
        }
        let [of_pool, _] = pair(&ours, TokenOwner::Pool);
        assert_eq!(
            read(&ours, &of_pool, &request("c", "b", "a"), NOW),
            None,
            "the token belongs to another owner"
        );
    }

    #[test]
    fn a_token_is_valid_for_its_key_and_lifetime() {
        let ours = tokens(1);
        for (text, request) in
            pair(&ours, TokenOwner::Proxy).iter().zip([request("c", "b", "a"), request("c", "a", "b")])
        {
            let good = |tokens: &Tokens, unix| read(tokens, text, &request, unix).is_some();
            assert!(good(&ours, NOW) && good(&ours, NOW + 3_600));
            assert!(!good(&ours, NOW + 3_601), "too old");
            assert!(good(&ours, NOW - 3_600), "made by a proxy whose clock is ahead");
            assert!(!good(&ours, NOW - 3_601), "from the future");
            assert!(!good(&tokens(2), NOW), "a token of another site");
            let rotated = Tokens::new(TokenKey([2; 16]), &[TokenKey([1; 16])], Duration::from_hours(1));
            let held = read(&rotated, text, &request, NOW).expect("made with the previous key");
            assert!(rotated.leads_to(&held, &HERE) != rotated.leads_to(&held, &THERE));
        }
    }

    #[test]
    fn a_connection_is_part_of_the_token() {
        let ours = tokens(1);
        let connected = |peer: &str, number: u32| {
            let connection = core::num::NonZeroU32::new(number).map(base::Connection);
            let peer = peer.parse().unwrap();
            let flow = Flow { transport: Transport::Wss, listener: 0, peer, connection };
            ClientFlow::seen(flow, &crate::address::topology::AddressTable::default())
        };
        for flow in [connected("192.0.2.7:40001", 7), connected("[2001:db8::7]:40001", 7), None] {
            let texts = connected_pair(&ours, TokenOwner::Proxy, flow);
            for (text, request) in texts.iter().zip([request("c", "b", "a"), request("c", "a", "b")]) {
                let held = read(&ours, text, &request, NOW).expect("the token is valid");
                assert_eq!(held.token.flow, flow);
                // A change of any character makes the token invalid.
                for at in 0..text.len() {
                    let mut other = text.clone();
                    other[at] = if other[at] == b'0' { b'1' } else { b'0' };
                    assert_eq!(read(&ours, &other, &request, NOW), None, "{at}");
                }
            }
        }
        // The token alone leads to the initiator only by its first connection.
        let flow = connected("192.0.2.7:40001", 7);
        let [peers, _] = connected_pair(&ours, TokenOwner::Proxy, None);
        let held = read(&ours, &peers, &request("c", "b", "a"), NOW).expect("the token is valid");
        assert!(ours.is_home(&held, &HERE, None) && !ours.is_home(&held, &HERE, flow));
    }

    #[test]
    fn the_initiators_token_requires_the_peers_token() {
        let ours = tokens(1);
        let [peers, initiators] = pair(&ours, TokenOwner::Proxy);
        let try_with = |text: &[u8], call: &str, from: &str, to: &str| {
            let response = response(call, from, to);
            let response = wire::scan(&response).expect("a response");
            ours.write_answer(TokenOwner::Proxy, text, &response, &ANSWER, &mut Vec::new())
        };
        assert!(try_with(&peers, "c", "a", "x"), "any peer's tag is accepted");
        assert!(!try_with(&peers, "d", "a", "b") && !try_with(&peers, "c", "x", "b"));
        assert!(!try_with(&peers, "c", "a", ""), "without a peer's tag no dialog begins");
        assert!(!try_with(&initiators, "c", "a", "b") && !try_with(b"x", "c", "a", "b"));
    }
}
