//! Matching of messages to transactions: RFC 3261 §17.1.3 and §17.2.3.

use base::SipHash128;
use wire::{Host, Message, Method, Via};

/// Key of a transaction: a keyed 127-bit hash of the matching fields, so that tables are flat and outsiders cannot make
/// transactions collide. Simulations make keys from numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TransactionKey(pub u128);

/// Bit that marks a counted key, in contrast to a hashed one.
const COUNTED: u128 = 1 << 127;

/// Side of a transaction. An element that sends a request to itself has both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The sender of the request.
    Client,
    /// The receiver of the request.
    Server,
}

impl TransactionKey {
    /// Key of a transaction that is identified by numbers; different arguments give different keys.
    ///
    /// `branch` stands for the branch and the sent-by. The ACK to a failure has the method of its INVITE here.
    pub fn from_numbers(side: Side, branch: u64, method: Method) -> Self {
        let high = (side as u64) << 8 | method as u64;
        // The table looks only at the low half, so both halves go into it by a permutation. Eight branches in sequence
        // are usually added, used and removed together, and they stay side by side in the table and in the cache. The
        // upper bits distinguish transactions of one such group.
        let numbers = branch ^ high << 48;
        let (eight, one) = (numbers >> 3, numbers & 7);
        let mixed = (eight ^ eight >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9) & (u64::MAX >> 3);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0x94d0_49bb_1331_11eb) & (u64::MAX >> 3);
        let low = (mixed ^ mixed >> 32) << 3 | one;
        Self(u128::from(high) << 64 | u128::from(low ^ one << 61))
    }

    /// Key of a transaction whose number is unique among the transactions of its layer, whatever their method. Lookup
    /// is fastest if numbers count up with few gaps; a gap costs four bytes a number.
    pub fn counted(number: u64, method: Method) -> Self {
        Self(COUNTED | u128::from(method as u8) << 64 | u128::from(number))
    }

    /// Number of a [`counted`](Self::counted) key.
    pub(crate) fn number(self) -> Option<u64> {
        (self.0 & COUNTED != 0).then_some(self.0 as u64)
    }

    fn hashed(fields: Fields) -> Self {
        Self(fields.finish() & !COUNTED)
    }

    /// Key of a request with this method, where `self` is the key of all other matching fields. The low half, which
    /// tables search by, is the same for every method, because a CANCEL does not name the method of its request.
    fn of_method(self, method: u64) -> Self {
        Self((self.0 ^ u128::from(method) << 64) & !COUNTED)
    }

    pub(crate) fn from_halves([high, low]: [u64; 2]) -> Self {
        Self(u128::from(high) << 64 | u128::from(low))
    }

    pub(crate) fn halves(self) -> [u64; 2] {
        [(self.0 >> 64) as u64, self.0 as u64]
    }
}

/// Hash of a To tag. It distinguishes the ACKs of RFC 2543 peers, whose branches are not unique (§17.2.3). It needs no
/// secret: a peer that provokes a collision harms only itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag(u32);

impl Tag {
    /// Not compared: the peer follows RFC 3261.
    pub const NONE: Self = Self(0);

    /// Hashes the tag of a To, or its absence.
    pub fn of(tag: Option<&[u8]>) -> Self {
        let mut fields = Fields::new([0; 2]);
        fields.put(&[u8::from(tag.is_some())]);
        fields.0.write_lowered(tag.unwrap_or_default());
        // Never equal to NONE.
        Self(fields.finish() as u32 | 1)
    }
}

/// Key of a received request, with further matching fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerKey {
    /// Key of the transaction; an ACK has the key of its INVITE.
    pub key: TransactionKey,
    /// To tag of the request, from an RFC 2543 peer.
    pub tag: Tag,
    /// Whether it is an ACK, whose tag is compared with that of the response (§17.2.3).
    pub is_ack: bool,
}

/// Maker of keys from messages, with a secret.
#[derive(Clone)]
pub struct Keys([u64; 2]);

impl core::fmt::Debug for Keys {
    /// Never prints the secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Keys(..)")
    }
}

/// Start of branches by RFC 3261 (§8.1.1.7).
const COOKIE: &[u8] = b"z9hG4bK";

impl Keys {
    /// Makes keys with `secret`, 16 random bytes of this process. Keys are never sent.
    pub fn new(secret: [u8; 16]) -> Self {
        let halves = u128::from_le_bytes(secret);
        Self([halves as u64, (halves >> 64) as u64])
    }

    /// Key of a client transaction: the branch of the Via that is pushed onto its request, and its method. `name` is
    /// used if the method is [`Method::Other`].
    pub fn client(&self, branch: &[u8], method: Method, name: &[u8]) -> TransactionKey {
        let mut fields = self.fields(Side::Client);
        fields.put_text(branch);
        fields.put_method(method, name);
        TransactionKey::hashed(fields)
    }

    /// Key of the client transaction that a response belongs to. `None`: the topmost Via has no branch, so it is not
    /// ours.
    ///
    /// [17.1.3-1] The branch of the topmost Via [17.1.3-2] and the method of the CSeq decide.
    pub fn response(&self, response: &Message<'_>) -> Option<TransactionKey> {
        let cseq = response.cseq();
        let name = cseq.method_name.of(response.bytes());
        Some(self.client(response.top_via().branch?, cseq.method, name))
    }

    /// Key of the server transaction that a request belongs to or creates.
    pub fn request(&self, request: &Message<'_>) -> ServerKey {
        let method = request.cseq().method;
        let is_ack = method == Method::Ack;
        // [17.2.3-3] The method matches; an ACK has that of its INVITE.
        self.request_as(request, if is_ack { Method::Invite } else { method }, is_ack)
    }

    /// Key of the INVITE that a CANCEL cancels: matched as if it were this INVITE ([9.2-1]). Requests of other methods
    /// cannot be cancelled; [`Layer::find_other_method`](crate::Layer::find_other_method) finds them.
    pub fn cancelled(&self, cancel: &Message<'_>) -> ServerKey {
        self.request_as(cancel, Method::Invite, false)
    }

    /// Key of the request that a response answers, from the Via of the client below ours. `None`: the branch of this
    /// Via is not unique.
    pub fn below(&self, response: &Message<'_>, via: &Via<'_>) -> Option<TransactionKey> {
        let cseq = response.cseq();
        let branch = via.branch.filter(|branch| is_unique(branch))?;
        Some(
            self.of_branch(branch, via)
                .of_method(self.method(cseq.method, cseq.method_name.of(response.bytes()))),
        )
    }

    /// [17.2.3-1] The branch matches, [17.2.3-2] and the sent-by.
    fn of_branch(&self, branch: &[u8], via: &Via<'_>) -> TransactionKey {
        let mut fields = self.fields(Side::Server);
        fields.put_text(branch);
        fields.put_sent_by(via);
        TransactionKey::hashed(fields)
    }

    fn request_as(&self, request: &Message<'_>, method: Method, is_ack: bool) -> ServerKey {
        let via = request.top_via();
        let name = request.cseq().method_name.of(request.bytes());
        let (key, tag) = if let Some(branch) = via.branch.filter(|branch| is_unique(branch)) {
            (self.of_branch(branch, via), Tag::NONE)
        } else {
            let mut fields = self.fields(Side::Server);
            // [17.2.3-4] An RFC 2543 peer: Request-URI, From tag, Call-ID, CSeq and topmost Via match, [17.2.3-5] for
            // an ACK the CSeq's number only. The layer compares the To tag.
            fields.put_exact(request.uri().unwrap_or_default());
            fields.put_text(request.from_tag().unwrap_or_default());
            fields.put_exact(request.call_id());
            fields.put(&request.cseq().number.to_le_bytes());
            fields.put_text(via.value.of(request.bytes()));
            (TransactionKey::hashed(fields), Tag::of(request.to_tag()))
        };
        ServerKey { key: key.of_method(self.method(method, name)), tag, is_ack }
    }

    fn method(&self, method: Method, name: &[u8]) -> u64 {
        match method {
            // Methods are case-sensitive (RFC 3261 §7.1).
            Method::Other => self.method_hash(name),
            known => known as u64,
        }
    }

    fn method_hash(&self, name: &[u8]) -> u64 {
        let mut hasher = SipHash128::new(self.0);
        hasher.write(name);
        hasher.finish() as u64
    }

    fn fields(&self, side: Side) -> Fields {
        let mut fields = Fields::new(self.0);
        fields.put(&[side as u8]);
        fields
    }
}

/// Whether a branch is unique for its transaction (RFC 3261 §8.1.1.7). A cookie alone is not unique (RFC 4475 §3.2.1).
pub fn is_unique(branch: &[u8]) -> bool {
    branch.len() > COOKIE.len() && branch[..COOKIE.len()].eq_ignore_ascii_case(COOKIE)
}

/// Fields to be hashed.
struct Fields(SipHash128);

impl Fields {
    fn new(key: [u64; 2]) -> Self {
        Self(SipHash128::new(key))
    }

    fn put(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// Adds a case-insensitive value (RFC 3261 §7.3.1) after its length, so that two values cannot run together.
    fn put_text(&mut self, text: &[u8]) {
        self.put(&(text.len() as u32).to_le_bytes());
        self.0.write_lowered(text);
    }

    fn put_exact(&mut self, text: &[u8]) {
        self.put(&(text.len() as u32).to_le_bytes());
        self.put(text);
    }

    fn put_method(&mut self, method: Method, name: &[u8]) {
        self.put(&[method as u8]);
        if method == Method::Other {
            // Methods are case-sensitive (RFC 3261 §7.1).
            self.put_exact(name);
        }
    }

    /// RFC 3261 §18.1.1: an absent port means the default port of the transport.
    fn put_sent_by(&mut self, via: &Via<'_>) {
        match via.host {
            Host::V4(ip) => self.put(&ip.octets()),
            Host::V6(ip) => {
                // No name has this length and as many bytes.
                self.put(&[6]);
                self.put(&ip.octets());
            }
            Host::Name(name) => self.put_text(name),
        }
        self.put(&via.sent_by_port().to_le_bytes());
    }

    fn finish(self) -> u128 {
        self.0.finish()
    }
}
