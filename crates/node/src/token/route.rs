//! The token in our Record-Route URI: which node a dialog belongs to.

use super::{Derived, Tokens, keyed_hash, text};
use balance::NodeId;
use siphasher::sip::SipHasher13;

/// Name of the URI parameter.
pub(crate) const PARAM: &str = "sbt";
/// Its name in the URIs of a proxy: a balancer of the same site in front of it must not take them for its own.
pub(crate) const PROXY_PARAM: &str = "sbp";

/// High half of the first byte; another layout gets another number.
const VERSION: u8 = 0x10;
const OUTBOUND: u8 = 0x01;
/// Clocks of a site may differ by this, in seconds.
const SKEW: u32 = 60;

const BODY: usize = 11;
const LEN: usize = BODY + 8;

/// What a verified token says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RouteToken {
    /// The node of the dialog.
    pub(crate) node: NodeId,
    /// Whether the node began the dialog (it called out).
    pub(crate) outbound: bool,
    /// Hash of the From tag of the request that began the dialog: tells the two sides apart.
    pub(crate) from: u16,
}

/// Hash of a From or To tag, as [`RouteToken::from`] keeps it.
pub(crate) fn tag_hash(tag: &[u8]) -> u16 {
    // It needs no secret: who could aim at a collision would only confuse his own call.
    SipHasher13::new().hash(tag) as u16
}

impl Tokens {
    /// Appends the text of a token. `unix` is the time in seconds; `older` as in [`Self::write_branch`].
    pub(crate) fn write_route(
        &self,
        token: RouteToken,
        call_id: &[u8],
        unix: u32,
        older: bool,
        out: &mut Vec<u8>,
    ) {
        let mut bytes = [0; LEN];
        bytes[0] = VERSION | if token.outbound { OUTBOUND } else { 0 };
        bytes[1..5].copy_from_slice(&unix.to_be_bytes());
        bytes[5..9].copy_from_slice(&token.node.0.to_be_bytes());
        bytes[9..11].copy_from_slice(&token.from.to_be_bytes());
        let mac = mac(self.key(older), &bytes, call_id);
        bytes[BODY..].copy_from_slice(&mac);
        text::encode(&bytes, out);
    }

    /// Reads a token back; `None` when it is not ours, not of this call, altered, or too old.
    pub(crate) fn read_route(&self, text: &[u8], call_id: &[u8], unix: u32) -> Option<RouteToken> {
        let bytes: [u8; LEN] = text::decode(text)?;
        if bytes[0] & !OUTBOUND != VERSION
            || !self.all().any(|key| mac(key, &bytes, call_id) == bytes[BODY..])
        {
            return None;
        }
        let made = u32::from_be_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
        let fresh = u64::from(unix.saturating_sub(made)) <= self.lifetime.as_secs()
            && made <= unix.saturating_add(SKEW);
        fresh.then(|| RouteToken {
            node: NodeId(u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]])),
            outbound: bytes[0] & OUTBOUND != 0,
            from: u16::from_be_bytes([bytes[9], bytes[10]]),
        })
    }
}

/// Binds the fields to the call. Guessing 64 bits takes 2^63 datagrams, so comparing them needs no constant time.
fn mac(key: &Derived, bytes: &[u8; LEN], call_id: &[u8]) -> [u8; 8] {
    keyed_hash(key.route, &[&bytes[..BODY], call_id]).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use core::time::Duration;
    use proptest::prelude::*;

    const TOKEN: RouteToken = RouteToken { node: NodeId(7), outbound: true, from: 99 };
    const NOW: u32 = 1_800_000_000;

    fn tokens(key: u8) -> Tokens {
        Tokens::new(Key([key; 16]), &[], Duration::from_hours(1))
    }

    fn text(tokens: &Tokens) -> Vec<u8> {
        let mut out = Vec::new();
        tokens.write_route(TOKEN, b"a", NOW, false, &mut out);
        out
    }

    #[test]
    fn it_is_good_for_its_call_its_key_and_its_time_only() {
        let ours = tokens(1);
        let text = text(&ours);
        assert_eq!(ours.read_route(&text, b"a", NOW), Some(TOKEN));
        assert_eq!(ours.read_route(&text, b"a", NOW + 3_600), Some(TOKEN));
        assert_eq!(ours.read_route(&text, b"a", NOW + 3_601), None, "too old");
        assert_eq!(ours.read_route(&text, b"a", NOW - 61), None, "from the future");
        assert_eq!(ours.read_route(&text, b"b", NOW), None, "of another call");
        assert_eq!(tokens(2).read_route(&text, b"a", NOW), None, "of another site");
        let rotated = Tokens::new(Key([2; 16]), &[Key([1; 16])], Duration::from_hours(1));
        assert_eq!(rotated.read_route(&text, b"a", NOW), Some(TOKEN), "made with the previous key");
    }

    proptest! {
        #[test]
        fn one_changed_character_is_refused(at in 0..31_usize, with in "[0-9a-v]") {
            let ours = tokens(1);
            let mut text = text(&ours);
            prop_assume!(text[at] != with.as_bytes()[0]);
            text[at] = with.as_bytes()[0];
            prop_assert_eq!(ours.read_route(&text, b"a", NOW), None);
        }
    }
}
