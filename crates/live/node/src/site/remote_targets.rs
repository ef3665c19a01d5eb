//! Remote targets of dialogs after a target refresh (RFC 3261 §12.2). A refresh cannot change the token in the route
//! set of the other side.

use crate::address::client_flow::ClientFlow;
use crate::address::target::Target;
use crate::address::topology::AddressTable;
use crate::token::Tokens;
use crate::token::dialog::VerifiedToken;
use base::{Flow, Recent, SipHash};
use core::hash::Hasher;
use wire::{Message, Method};

/// Number of dialogs in one generation. An entry takes 40 bytes, plus its share of the tree.
const GENERATION: usize = 65_536;

/// The side of a dialog that a request goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Initiator,
    Peer,
}

impl Side {
    /// Returns the initiator, or its peer.
    pub(crate) fn of(is_initiator: bool) -> Self {
        if is_initiator { Self::Initiator } else { Self::Peer }
    }

    pub(crate) fn other(self) -> Self {
        match self {
            Self::Initiator => Self::Peer,
            Self::Peer => Self::Initiator,
        }
    }
}

/// A side of a dialog and the target of this side, both as hashes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TargetRefresh {
    side: Side,
    /// Hash of the dialog.
    dialog: u64,
    target: u32,
    /// Whether a message came from the target.
    pub(crate) heard: bool,
    /// The flow of the client that named the target ([`ClientFlow::seen`]).
    pub(crate) flow: Option<ClientFlow>,
}

impl TargetRefresh {
    /// Creates the entry that `side` of the message's dialog is reached at `target`. No message has come from this
    /// target yet. `by` is the side that sent the message.
    ///
    /// A call has one entry for each side, whatever the peer's tag is. So no peer can fill the table with invented
    /// tags. The dialogs of a forked call share the entry.
    pub(crate) fn new(
        tokens: &Tokens,
        message: &Message<'_>,
        side: Side,
        by: Side,
        target: &Target<'_>,
    ) -> Self {
        let (from, to) = (message.from_tag().unwrap_or_default(), message.to_tag().unwrap_or_default());
        let (initiator, peer) = if by == Side::Initiator { (from, to) } else { (to, from) };
        let hash = |text: &[u8], kind: u32, put: &dyn Fn(&mut SipHash)| {
            let mut hasher = tokens.kept_hasher();
            hasher.write_u64(u64::from(kind) << 32 | text.len() as u64);
            hasher.write(text);
            put(&mut hasher);
            hasher.finish()
        };
        Self {
            side,
            dialog: hash(initiator, side as u32, &|hasher| {
                hasher.write(message.call_id());
            }),
            target: hash(peer, 2, &|hasher| target.put(hasher)) as u32,
            heard: false,
            flow: None,
        }
    }
}

impl TargetRefresh {
    /// Returns the entry with the given values of `heard` and `flow`.
    pub(crate) fn seen(self, heard: bool, flow: Option<ClientFlow>) -> Self {
        Self { heard, flow, ..self }
    }
}

/// Hash of a target, whether a message came from it, and the flow of a client.
type Noted = (u32, bool, Option<ClientFlow>);

/// The refreshed targets. Each side has its own map. No token names the first target of the peer, so all refreshes by
/// peers are noted. These must not evict the entries of initiators.
#[derive(Debug)]
pub(crate) struct RemoteTargets {
    initiators: Recent<u64, Noted>,
    peers: Recent<u64, Noted>,
}

impl Default for RemoteTargets {
    fn default() -> Self {
        Self { initiators: Recent::new(GENERATION), peers: Recent::new(GENERATION) }
    }
}

impl RemoteTargets {
    fn of(&mut self, side: Side) -> &mut Recent<u64, Noted> {
        match side {
            Side::Initiator => &mut self.initiators,
            Side::Peer => &mut self.peers,
        }
    }

    /// Returns the new target of the sender of a request within a dialog, if it has to be noted. A target that the
    /// token names is noted only if another target was noted before. `from` is the ingress flow of the request.
    pub(crate) fn sender(
        &self,
        tokens: &Tokens,
        message: &Message<'_>,
        held: &VerifiedToken,
        from: Flow,
        topology: &AddressTable,
    ) -> Option<TargetRefresh> {
        if !message.method().is_some_and(refreshes_target) {
            return None;
        }
        let target = message.contact().map(Target::of)?;
        let flow = ClientFlow::seen(from, topology);
        let is_home = held.by_initiator && tokens.is_home(held, &target, flow);
        if is_home && self.initiators.is_empty() {
            return None;
        }
        let by = Side::of(held.by_initiator);
        let refreshed = TargetRefresh::new(tokens, message, by, by, &target);
        let refreshed = refreshed.seen(target.is_at(from.peer), flow);
        (!is_home || self.initiators.get(&refreshed.dialog).is_some()).then_some(refreshed)
    }

    pub(crate) fn note(&mut self, refreshed: TargetRefresh) {
        let TargetRefresh { side, dialog, target, heard, flow } = refreshed;
        self.of(side).insert(dialog, (target, heard, flow));
    }

    /// Looks up whether requests to this side may go to this target. If so, returns whether a message came from the
    /// target, and the flow of the client that named it.
    pub(crate) fn leads_to(&mut self, asked: TargetRefresh) -> Option<(bool, Option<ClientFlow>)> {
        let &mut (target, heard, flow) = self.of(asked.side).get_mut(&asked.dialog)?;
        (target == asked.target).then_some((heard, flow))
    }
}

/// Facts about a target that the other party of a dialog has named.
#[derive(Clone, Copy)]
pub(crate) struct KnownTarget {
    /// Whether a message came from the target.
    pub(crate) heard: bool,
    /// The flow by which the target is reached, if it is a client.
    pub(crate) flow: Option<ClientFlow>,
}

/// Returns whether the Contact of a request with this method, and of its 2xx, is the new target of its sender. See RFC
/// 3261 §12.2, RFC 3311 §5, RFC 3515 and RFC 6665 §4.4.1.
pub(crate) fn refreshes_target(method: Method) -> bool {
    use Method::{Invite, Notify, Refer, Subscribe, Update};
    matches!(method, Invite | Update | Subscribe | Notify | Refer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::KeyIndex;
    use crate::token::TokenKey;
    use crate::token::dialog::{DialogToken, Kept};
    use crate::token::owner::TokenOwner;
    use balance::NodeId;
    use core::time::Duration;
    use testkit::TestRequest;

    const NOW: u32 = 1_800_000_000;

    fn request(method: &str, to_tag: &str, contact: &str) -> String {
        let at = contact.parse().expect("an address");
        TestRequest { to_tag: Some(to_tag.to_owned()), ..TestRequest::new(method, "c", at) }.text()
    }

    /// A side that does not move takes no entry, however often it refreshes. Otherwise 20,000 calls with session timers
    /// (RFC 4028) would evict the entries of sides that have moved.
    #[test]
    fn a_target_named_by_the_token_is_not_noted() {
        let tokens = Tokens::new(TokenKey([1; 16]), &[], Duration::from_hours(1));
        let (home, elsewhere) = ("192.0.2.1:5060", "192.0.2.2:5060");
        let from = Flow::udp(0, home.parse().expect("an address"));
        for by_route in [false, true] {
            let begins = request("INVITE", "", home);
            let begins = wire::scan(begins.as_bytes()).expect("a request");
            let contact = begins.contact().map(Target::of).filter(|_| !by_route);
            let token = DialogToken {
                node: NodeId(1),
                outbound: false,
                kept: Kept::Transactions,
                target: 0,
                heard: false,
                flow: None,
                home: tokens.home_hash(contact.as_ref(), None, KeyIndex::CURRENT),
                is_registered: false,
            };
            let mut text = Vec::new();
            tokens.write_route(TokenOwner::Pool, token, &begins, NOW, KeyIndex::CURRENT, &mut text);
            let mut targets = RemoteTargets::default();
            // Method, target, and whether it is noted.
            for (method, contact, is_noted) in [
                ("UPDATE", home, false),
                ("INVITE", home, false),
                ("BYE", elsewhere, false),
                ("UPDATE", elsewhere, !by_route),
                ("INVITE", home, !by_route),
            ] {
                let refresh = request(method, "b", contact);
                let refresh = wire::scan(refresh.as_bytes()).expect("a request");
                let held = tokens.read_route(TokenOwner::Pool, &text, &refresh, NOW).expect("its token");
                let noted = targets.sender(&tokens, &refresh, &held, from, &AddressTable::default());
                assert_eq!(noted.is_some(), is_noted, "{method} {contact}");
                if let Some(noted) = noted {
                    targets.note(noted);
                }
            }
        }
    }
}
