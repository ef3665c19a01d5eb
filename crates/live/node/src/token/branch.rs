//! The branch of this proxy's Via. It names the ingress flow for responses. With a transaction it also contains a
//! serial number, without a transaction it names the receiver.

use super::{Derived, KeyIndex, Tokens, keyed_hash, text};
use crate::address::ports::Ingress;
use balance::{Direction, NodeId};
use base::Connection;
use core::num::NonZeroU32;
use std::net::{IpAddr, SocketAddr};
use wire::{Message, Via};

/// RFC 3261 §8.1.1.7: the magic cookie, then two letters that make this proxy's Vias easy to recognise.
const PREFIX: &[u8] = b"z9hG4bKsb";

/// High half of the first byte of [`BranchKind::Pool`]. Another layout gets another number.
const VERSION: u8 = 0x10;
const FROM_POOL: u8 = 0x01;

/// Flag in the first byte of each layout: the number of the request's connection is before the MAC. Without the flag,
/// the layout is the one that the program had before it supported connections. So both versions of the program can read
/// each other's branches.
const CONNECTED: u8 = 0x08;
const NUMBER: usize = 4;

/// Parameter of this proxy's Via in a request that went to every node because its node was unknown. It is not part of
/// the branch, since the branch has to be the one of the INVITE (RFC 3261 §17.2.3).
pub(crate) const SEARCHED: &[u8] = b";sbs";

const BODY: usize = 10;
const LEN: usize = BODY + MAC;
const MAC: usize = 8;

/// High half of the first byte of the branch of a transaction.
const PROXY_VERSION: u8 = 0x20;

/// High half of the first byte of [`BranchKind::Hop`].
const HOP_VERSION: u8 = 0x40;
const BY_INITIATOR: u8 = 0x01;

const PROXY_BODY: usize = 14;
const PROXY_LEN: usize = PROXY_BODY + MAC;

/// Content of the branch of a request that is forwarded without a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Branch {
    /// Ingress flow of the request. Responses leave by the same flow.
    pub(crate) ingress: Ingress,
    /// Hash of the routing decision (RFC 5393 §4.2.1). The same hash again means a loop.
    pub(crate) routing: u32,
    pub(crate) kind: BranchKind,
}

/// The part of a branch that depends on the receiver of the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BranchKind {
    /// The receiver or the sender is a member of a pool.
    Pool {
        node: NodeId,
        /// Whether the request goes to the member or comes from it.
        direction: Direction,
    },
    /// The receiver is a next hop, a contact, or a party of a dialog.
    Hop {
        /// [`Tokens::target_hash`] of the receiver's current remote target, in a request within a dialog whose response
        /// may change the target; otherwise 0.
        target: u32,
        /// Whether the side that began the dialog sent the request.
        by_initiator: bool,
    },
}

/// Identity of the client's transaction: the same in the request, its CANCEL, the ACK to its failure, every
/// retransmission and every response (RFC 3261 §16.11).
#[derive(Clone, Copy)]
pub(crate) struct Transaction<'a> {
    pub(crate) call_id: &'a [u8],
    pub(crate) cseq: u32,
    /// The client's branch, or the From tag if an RFC 2543 client sends no branch.
    pub(crate) id: &'a [u8],
    /// Address that the responses go to.
    pub(crate) target: SocketAddr,
}

impl<'a> Transaction<'a> {
    /// Creates the identity. `via` is the client's Via: the topmost of its request, the second of a response.
    pub(crate) fn new(message: &Message<'a>, via: &Via<'a>, target: SocketAddr) -> Self {
        let id = via.branch.or(message.from_tag()).unwrap_or_default();
        Self { call_id: message.call_id(), cseq: message.cseq().number, id, target }
    }
}

impl Tokens {
    /// Returns a mark that distinguishes a transaction from other transactions of its call. These have other branches
    /// if an earlier proxy has forked the call.
    ///
    /// A request that a node sends to another target with the same branch is another transaction, since a removed
    /// member may only finish its INVITE. The mark depends on a secret, so the member cannot find a branch that has the
    /// same mark for another target.
    pub(crate) fn mark(&self, of: &Transaction<'_>, direction: Direction, routing: u32) -> u32 {
        match direction {
            Direction::ToPool => mark(of.id),
            Direction::FromPool => keyed_hash(self.kept, &[&routing.to_be_bytes(), of.id]) as u32,
        }
    }

    pub(crate) fn routing(&self, routing: &Routing<'_>, key: KeyIndex) -> u32 {
        routing.hash(self.key(key))
    }

    /// Returns whether `seen` is the hash of the same routing decision under any key.
    pub(crate) fn is_routing(&self, routing: &Routing<'_>, seen: u32) -> bool {
        self.all().any(|key| routing.hash(key) == seen)
    }

    /// Appends the branch value of the transaction with this serial number. Only receivers of the request know it, so a
    /// response with it proves that its sender has seen the request.
    pub(crate) fn write_proxy_branch(&self, ingress: Ingress, routing: u32, serial: u64, out: &mut Vec<u8>) {
        let key = &self.current;
        let mut bytes = [0; PROXY_LEN];
        bytes[0] = PROXY_VERSION;
        name(ingress, &mut bytes);
        bytes[2..6].copy_from_slice(&routing.to_be_bytes());
        bytes[6..PROXY_BODY].copy_from_slice(&serial.to_be_bytes());
        let mac = proxy_mac(key, &bytes, ingress.connection);
        bytes[PROXY_BODY..].copy_from_slice(&mac);
        write(&bytes, ingress.connection, out);
    }

    /// Returns whether this is the branch of a transaction, made with one of these keys.
    pub(crate) fn has_made(&self, branch: &[u8]) -> bool {
        let Some((bytes, connection)) = own(branch).and_then(proxys) else { return false };
        self.all().any(|key| proxy_mac(key, &bytes, connection) == bytes[PROXY_BODY..])
    }
}

impl Branch {
    /// Appends the branch value. The value depends only on the request, its route token and the record of its first
    /// copy. So it is the same for each copy (RFC 3261 §16.11).
    pub(crate) fn write(&self, tokens: &Tokens, of: &Transaction<'_>, key: KeyIndex, out: &mut Vec<u8>) {
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let (first, number) = match self.kind {
            BranchKind::Pool { node, direction } => {
                (VERSION | flag(direction == Direction::FromPool, FROM_POOL), node.0)
            }
            BranchKind::Hop { target, by_initiator } => {
                (HOP_VERSION | flag(by_initiator, BY_INITIATOR), target)
            }
        };
        let mut bytes = [0; LEN];
        bytes[0] = first;
        bytes[2..6].copy_from_slice(&number.to_be_bytes());
        bytes[6..BODY].copy_from_slice(&self.routing.to_be_bytes());
        name(self.ingress, &mut bytes);
        let connection = self.ingress.connection;
        let mac = mac(tokens.key(key), &bytes, connection, of);
        bytes[BODY..].copy_from_slice(&mac);
        write(&bytes, connection, out);
    }

    /// Reads a branch. `None`: it is not of this site, not of this transaction, or altered.
    pub(crate) fn read(tokens: &Tokens, branch: &[u8], of: &Transaction<'_>) -> Option<Self> {
        let (bytes, connection) = stateless(own(branch)?)?;
        let is_ours = tokens.all().any(|key| mac(key, &bytes, connection, of) == bytes[BODY..]);
        is_ours.then(|| Self::of(&bytes, connection))
    }

    /// Reads a branch without verification.
    fn of(bytes: &[u8; LEN], connection: Option<Connection>) -> Self {
        let number = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let kind = if bytes[0] & 0xf0 == HOP_VERSION {
            BranchKind::Hop { target: number(2), by_initiator: bytes[0] & BY_INITIATOR != 0 }
        } else {
            let from_pool = bytes[0] & FROM_POOL != 0;
            let direction = if from_pool { Direction::FromPool } else { Direction::ToPool };
            BranchKind::Pool { node: NodeId(number(2)), direction }
        };
        Self { ingress: Ingress { port: bytes[1], connection }, routing: number(6), kind }
    }
}

/// Returns a quick hash, computed eight bytes at a time. It needs no key: a sender that makes its own marks collide
/// only makes the counts of its own call wrong.
fn mark(text: &[u8]) -> u32 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(MULTIPLIER);
    let (words, rest) = text.as_chunks::<8>();
    let hash = words.iter().fold(text.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let hash = rest.iter().fold(hash, |hash, &byte| mix(hash, u64::from(byte)));
    (hash >> 32) as u32
}

/// Input of the routing decision (RFC 5393 §4.2.1).
pub(crate) struct Routing<'a> {
    pub(crate) call_id: &'a [u8],
    pub(crate) cseq: u32,
    pub(crate) direction: Direction,
    pub(crate) from_tag: &'a [u8],
    pub(crate) uri: &'a [u8],
    /// The next Route value, or the last one if a strict router has moved the Request-URI there; empty if there is
    /// none.
    pub(crate) next: &'a [u8],
}

impl Routing<'_> {
    /// Returns the hash under a secret, so that no sender can find another target with the same hash. The secret
    /// belongs to the key of the branch. So a process that starts with the current key makes the same branch as a
    /// process that has changed to this key.
    fn hash(&self, key: &Derived) -> u32 {
        let mut fixed = [0; 17];
        fixed[..4].copy_from_slice(&self.cseq.to_be_bytes());
        fixed[4..8].copy_from_slice(&(self.from_tag.len() as u32).to_be_bytes());
        fixed[8..12].copy_from_slice(&(self.uri.len() as u32).to_be_bytes());
        fixed[12..16].copy_from_slice(&(self.next.len() as u32).to_be_bytes());
        fixed[16] = self.direction as u8;
        keyed_hash(key.routing, &[&fixed, self.from_tag, self.uri, self.next, self.call_id]) as u32
    }
}

/// Returns the routing hash of a branch that looks like a branch of this proxy, unverified. It suffices for loop
/// detection, since a forger stops only its own request.
pub(crate) fn peek_routing(branch: &[u8]) -> Option<u32> {
    let text = own(branch)?;
    let of_proxy = |bytes: [u8; PROXY_LEN]| u32::from_be_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
    stateless(text)
        .map(|(bytes, connection)| Branch::of(&bytes, connection).routing)
        .or_else(|| proxys(text).map(|(bytes, _)| of_proxy(bytes)))
}

/// Returns whether this looks like the branch of a request that was forwarded without a transaction; unverified.
pub fn is_hop_branch(branch: &[u8]) -> bool {
    own(branch).and_then(|text| of_version(text, HOP_VERSION)).is_some()
}

/// Returns the ingress of the request with this branch of a transaction; unverified. The proof is that the transaction
/// is known.
pub(crate) fn peek_ingress(branch: &[u8]) -> Option<Ingress> {
    proxys(own(branch)?).map(|(bytes, connection)| Ingress { port: bytes[1], connection })
}

/// Writes the ingress into a body. The number of the connection follows the body.
fn name(ingress: Ingress, bytes: &mut [u8]) {
    bytes[0] |= if ingress.connection.is_some() { CONNECTED } else { 0 };
    bytes[1] = ingress.port;
}

/// Appends a branch value. `bytes` are body and MAC.
fn write(bytes: &[u8], connection: Option<Connection>, out: &mut Vec<u8>) {
    out.extend_from_slice(PREFIX);
    let Some(Connection(number)) = connection else { return text::encode(bytes, out) };
    let mut long = [0; PROXY_LEN + NUMBER];
    let (body, mac) = bytes.split_at(bytes.len() - MAC);
    let mut end = 0;
    for part in [body, &number.get().to_be_bytes(), mac] {
        long[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    text::encode(&long[..end], out);
}

/// Reads the part after the prefix in the branch of a request without a transaction.
fn stateless(text: &[u8]) -> Option<([u8; LEN], Option<Connection>)> {
    of_version(text, VERSION).or_else(|| of_version(text, HOP_VERSION))
}

/// Reads a branch of one version.
fn of_version(text: &[u8], version: u8) -> Option<([u8; LEN], Option<Connection>)> {
    decode::<LEN, { LEN + NUMBER }>(text, version)
}

/// Reads the part after the prefix in the branch of a transaction.
fn proxys(text: &[u8]) -> Option<([u8; PROXY_LEN], Option<Connection>)> {
    decode::<PROXY_LEN, { PROXY_LEN + NUMBER }>(text, PROXY_VERSION)
}

/// Returns body and MAC of this version. The first character states the version, so most other branches are rejected by
/// it. With the number of a connection there are `LONG` bytes, otherwise `N`.
fn decode<const N: usize, const LONG: usize>(
    text: &[u8],
    version: u8,
) -> Option<([u8; N], Option<Connection>)> {
    if !text::begins_with(text, version) {
        return None;
    }
    if let Some(bytes) = text::decode::<N>(text) {
        return (bytes[0] & CONNECTED == 0).then_some((bytes, None));
    }
    let long = text::decode::<LONG>(text).filter(|long| long[0] & CONNECTED != 0)?;
    let (body, rest) = long.split_at(N - MAC);
    let (number, mac) = rest.split_first_chunk()?;
    let mut bytes = [0; N];
    bytes[..body.len()].copy_from_slice(body);
    bytes[body.len()..].copy_from_slice(mac);
    Some((bytes, Some(Connection(NonZeroU32::new(u32::from_be_bytes(*number))?))))
}

/// Returns the part of a branch after the prefix, if it has the prefix.
fn own(branch: &[u8]) -> Option<&[u8]> {
    // Nearly every element returns the branch exactly as it was written.
    if let Some(rest) = branch.strip_prefix(PREFIX) {
        return Some(rest);
    }
    let (prefix, rest) = branch.split_at_checked(PREFIX.len())?;
    prefix.eq_ignore_ascii_case(PREFIX).then_some(rest)
}

/// Binds the fields to the transaction and to the address of its responses. So a response can reach only the sender of
/// the request.
fn mac(key: &Derived, bytes: &[u8; LEN], connection: Option<Connection>, of: &Transaction<'_>) -> [u8; MAC] {
    let ip = match of.target.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut fixed = [0; BODY + 16 + 2 + 4 + 4];
    fixed[..BODY].copy_from_slice(&bytes[..BODY]);
    let (address, numbers) = fixed[BODY..].split_at_mut(16);
    address.copy_from_slice(&ip.octets());
    numbers[..2].copy_from_slice(&of.target.port().to_be_bytes());
    numbers[2..6].copy_from_slice(&of.cseq.to_be_bytes());
    numbers[6..].copy_from_slice(&(of.id.len() as u32).to_be_bytes());
    let hash = match connection {
        None => keyed_hash(key.branch, &[&fixed, of.id, of.call_id]),
        // The flag in the first byte says that the number comes last.
        Some(Connection(number)) => {
            keyed_hash(key.branch, &[&fixed, of.id, of.call_id, &number.get().to_be_bytes()])
        }
    };
    hash.to_be_bytes()
}

/// Returns the MAC in the branch of a transaction.
fn proxy_mac(key: &Derived, bytes: &[u8; PROXY_LEN], connection: Option<Connection>) -> [u8; MAC] {
    let hash = match connection {
        None => keyed_hash(key.branch, &[&bytes[..PROXY_BODY]]),
        Some(Connection(number)) => {
            keyed_hash(key.branch, &[&bytes[..PROXY_BODY], &number.get().to_be_bytes()])
        }
    };
    hash.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::TokenKey;
    use core::time::Duration;

    fn tokens(key: u8) -> Tokens {
        Tokens::new(TokenKey([key; 16]), &[], Duration::from_hours(1))
    }

    const FROM_MEMBER: BranchKind =
        BranchKind::Pool { node: NodeId(0xdead_beef), direction: Direction::FromPool };

    fn routing(uri: &[u8]) -> Routing<'_> {
        let direction = Direction::FromPool;
        Routing { call_id: b"c", cseq: 1, direction, from_tag: b"a", uri, next: b"" }
    }

    /// Returns token characters that have this quick hash, computed backwards.
    fn with_mark(wanted: u32) -> [u8; 8] {
        const INVERSE: u64 = 0xf1de_83e1_9937_733d;
        let texts = (0..=u64::from(u32::MAX)).map(|low| {
            let word = (u64::from(wanted) << 32 | low).wrapping_mul(INVERSE) ^ 8_u64.rotate_left(5);
            word.to_le_bytes()
        });
        let mut texts = texts.filter(|text| text.iter().all(u8::is_ascii_alphanumeric));
        texts.next().expect("a suitable text is among some hundred thousand")
    }

    /// A former member tries to have a request sent to another target as part of its open transaction. It sees the hash
    /// of each routing decision in this proxy's Via, and may choose its branch.
    #[test]
    fn no_branch_has_the_same_mark_for_another_target() {
        let tokens = tokens(3);
        let (open, victim) = (routing(b"sip:accomplice@h"), routing(b"sip:victim@h"));
        let hashes = [open, victim].map(|routing| tokens.routing(&routing, KeyIndex::CURRENT));
        let id = with_mark(mark(b"z9hG4bK1") ^ hashes[0] ^ hashes[1]);
        assert_eq!(mark(&id), mark(b"z9hG4bK1") ^ hashes[0] ^ hashes[1]);
        let target = "192.0.2.1:5060".parse().expect("an address");
        let of = |id| Transaction { call_id: b"c", cseq: 1, id, target };
        let [open, elsewhere] = [(&b"z9hG4bK1"[..], hashes[0]), (&id, hashes[1])]
            .map(|(id, routing)| tokens.mark(&of(id), Direction::FromPool, routing));
        assert_ne!(open, elsewhere);
        let same = tokens.mark(&of(b"z9hG4bK1"), Direction::FromPool, hashes[1]);
        assert_ne!(open, same, "the same branch to another target");
    }

    /// Otherwise a sender could search offline for another Request-URI with the same hash.
    #[test]
    fn the_hash_of_a_routing_decision_depends_on_a_secret() {
        let hash = |key| tokens(key).routing(&routing(b"sip:b@h"), KeyIndex::CURRENT);
        assert_ne!(hash(1), hash(2));
        assert!(tokens(1).is_routing(&routing(b"sip:b@h"), hash(1)));
        assert!(!tokens(1).is_routing(&routing(b"sip:c@h"), hash(1)));
        let changed = Tokens::new(TokenKey([2; 16]), &[TokenKey([1; 16])], Duration::from_hours(1));
        assert!([1, 2].iter().all(|&key| changed.is_routing(&routing(b"sip:b@h"), hash(key))));
    }

    #[test]
    fn encoded_text_is_decoded_in_any_case() {
        let tokens = tokens(3);
        let token = Branch { ingress: Ingress { port: 3, connection: None }, routing: 77, kind: FROM_MEMBER };
        let target = "192.0.2.1:5060".parse().unwrap();
        let of = Transaction { call_id: b"a", cseq: 9, id: b"z9hG4bK1", target };
        let mut branch = Vec::new();
        token.write(&tokens, &of, KeyIndex::CURRENT, &mut branch);
        assert!(branch.starts_with(b"z9hG4bK") && branch.len() == 38, "{}", String::from_utf8_lossy(&branch));
        assert_eq!(Branch::read(&tokens, &branch, &of), Some(token));
        assert_eq!(Branch::read(&tokens, &branch.to_ascii_uppercase(), &of), Some(token));
        assert_eq!(peek_routing(&branch), Some(77));
    }

    #[test]
    fn it_names_the_connection_if_there_is_one() {
        let tokens = tokens(3);
        let ingress = Ingress { port: 3, connection: NonZeroU32::new(0x0102_0304).map(Connection) };
        let target = "192.0.2.1:5060".parse().unwrap();
        let of = Transaction { call_id: b"a", cseq: 9, id: b"z9hG4bK1", target };
        let token = Branch { ingress, routing: 77, kind: FROM_MEMBER };
        let hop = Branch { ingress, routing: 78, kind: BranchKind::Hop { target: 5, by_initiator: true } };
        let mut branches = [Vec::new(), Vec::new(), Vec::new()];
        token.write(&tokens, &of, KeyIndex::CURRENT, &mut branches[0]);
        hop.write(&tokens, &of, KeyIndex::CURRENT, &mut branches[1]);
        tokens.write_proxy_branch(ingress, 79, 1, &mut branches[2]);
        assert_eq!(Branch::read(&tokens, &branches[0], &of), Some(token));
        assert_eq!(Branch::read(&tokens, &branches[1], &of), Some(hop));
        assert!(tokens.has_made(&branches[2]) && peek_ingress(&branches[2]) == Some(ingress));
        assert_eq!(branches.each_ref().map(|branch| peek_routing(branch)), [Some(77), Some(78), Some(79)]);
        // Another number is another connection, so no sender can redirect a response to it.
        for branch in &mut branches {
            let at = branch.len() - (MAC * 8).div_ceil(5) - 2;
            branch[at] = if branch[at] == b'0' { b'1' } else { b'0' };
        }
        assert_eq!(Branch::read(&tokens, &branches[0], &of), None);
        assert_eq!(Branch::read(&tokens, &branches[1], &of), None);
        assert!(!tokens.has_made(&branches[2]));
    }
}
