//! Where the parties of a dialog want to be reached now, if not as they said when it began: a target refresh
//! (RFC 3261 §12.2) cannot change the token in the route set of the other side.

use crate::route::Target;
use crate::token::Tokens;
use base::Recent;
use core::hash::Hasher;
use siphasher::sip::SipHasher13;
use wire::{Message, Method};

/// Sides of dialogs a generation; an entry takes 16 bytes and its share of a tree.
const GENERATION: usize = 65_536;

/// Which side of a dialog a request goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Initiator,
    Peer,
}

impl Side {
    /// The one that sends, or is sent, what the other side gets.
    pub(crate) fn of(is_initiator: bool) -> Self {
        if is_initiator { Self::Initiator } else { Self::Peer }
    }
}

/// A side of a dialog, and where it is reached, both as hashes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refreshed {
    side: u64,
    target: u32,
    /// Whether something came from there.
    pub(crate) heard: bool,
}

impl Refreshed {
    /// `side` of the dialog of this message is reached at `target`. `sender` sent the message: the initiator or the peer.
    ///
    /// A call has one place a side, whatever the peer's tag is, so that nobody fills the table with the tags that he makes
    /// up; dialogs of a forked call take turns in it.
    pub(crate) fn new(
        tokens: &Tokens,
        message: &Message<'_>,
        (side, by_initiator): (Side, bool),
        target: &Target<'_>,
        heard: bool,
    ) -> Self {
        let (from, to) = (message.from_tag().unwrap_or_default(), message.to_tag().unwrap_or_default());
        let (initiator, peer) = if by_initiator { (from, to) } else { (to, from) };
        let hash = |text: &[u8], kind: u32, put: &dyn Fn(&mut SipHasher13)| {
            let mut hasher = tokens.kept_hasher();
            hasher.write_u64(u64::from(kind) << 32 | text.len() as u64);
            hasher.write(text);
            put(&mut hasher);
            hasher.finish()
        };
        Self {
            side: hash(initiator, side as u32, &|hasher| {
                hasher.write(message.call_id());
            }),
            target: hash(peer, 2, &|hasher| target.put(hasher)) as u32,
            heard,
        }
    }
}

/// The sides of dialogs that were refreshed last.
#[derive(Debug)]
pub(crate) struct Targets(Recent<u64, (u32, bool)>);

impl Default for Targets {
    fn default() -> Self {
        Self(Recent::new(GENERATION))
    }
}

impl Targets {
    pub(crate) fn note(&mut self, refreshed: Refreshed) {
        self.0.insert(refreshed.side, (refreshed.target, refreshed.heard));
    }

    /// Whether no side of any dialog has been refreshed.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this side has been refreshed.
    pub(crate) fn knows(&self, refreshed: Refreshed) -> bool {
        self.0.get(&refreshed.side).is_some()
    }

    /// Whether requests to this side may go to this target; and if so, whether something came from there.
    pub(crate) fn leads_to(&mut self, asked: Refreshed) -> Option<bool> {
        let &mut (target, heard) = self.0.get_mut(&asked.side)?;
        (target == asked.target).then_some(heard)
    }
}

/// Whether the Contact of such a request, and of the 2xx to it, is where its sender is reached from then on
/// (RFC 3261 §12.2, RFC 3311 §5, RFC 3515, RFC 6665 §4.4.1).
pub(crate) fn refreshes_target(method: Method) -> bool {
    use Method::{Invite, Notify, Refer, Subscribe, Update};
    matches!(method, Invite | Update | Subscribe | Notify | Refer)
}
