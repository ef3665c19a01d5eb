//! Dialogs of an answerer, found by Call-ID and tags.

use crate::user_agent::Uas;
use base::{Rng, Slab};
use rand_distr::{Distribution, StandardUniform};

/// Permanent identity of a dialog: keys are reused, serial numbers are not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DialogId {
    key: u32,
    serial: u32,
}

/// A call of this answerer. Small, because it is the only state of an established call.
#[derive(Debug)]
pub(super) struct Dialog {
    serial: u32,
    /// Hash of the Call-ID.
    call_id: u64,
    /// Transaction that the dialog still has: an INVITE that waits for its final response or its ACK, or the BYE that was
    /// sent because no ACK came.
    pub(super) transaction: Option<u32>,
    pub(super) callee: Uas,
}

/// Owner of the dialog of a To tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// A live dialog of this answerer.
    Known(DialogId),
    /// A dialog of this answerer that is over.
    Ended,
    /// Another agent.
    Foreign,
}

/// All dialogs. A To tag of this answerer has 32 hex digits: 16 for the answerer, 8 for the dialog's key, 8 for its
/// serial number. Requests thus find their dialog without a table, and tags of other answerers are recognized.
#[derive(Debug)]
pub(super) struct Dialogs {
    agent: u64,
    serials: u32,
    slab: Slab<Dialog>,
}

impl Dialogs {
    pub(super) fn new(mut rng: Rng) -> Self {
        Self { agent: StandardUniform.sample(&mut rng), serials: 0, slab: Slab::default() }
    }

    /// Creates an early dialog and its tag.
    pub(super) fn create(&mut self, call_id: u64) -> (DialogId, String) {
        self.serials = self.serials.wrapping_add(1);
        let serial = self.serials;
        let key = self.slab.insert(Dialog { serial, call_id, transaction: None, callee: Uas::CALLED });
        (DialogId { key, serial }, format!("{:016x}{key:08x}{serial:08x}", self.agent))
    }

    /// To tag of the response to a request outside dialogs, the same for each retransmission.
    pub(super) fn tag_of(&self, transaction: u64) -> String {
        format!("{:016x}{transaction:016x}", self.agent)
    }

    /// Returns the dialog, unless it is over.
    pub(super) fn get_mut(&mut self, id: DialogId) -> Option<&mut Dialog> {
        self.slab.get_mut(id.key).filter(|dialog| dialog.serial == id.serial)
    }

    /// Ends a dialog; `None` when it is over already.
    pub(super) fn remove(&mut self, id: DialogId) -> Option<Dialog> {
        self.get_mut(id)?;
        self.slab.remove(id.key)
    }

    /// Returns the owner of the dialog that a request belongs to.
    pub(super) fn owner(&self, tag: &[u8], call_id: u64) -> Owner {
        let Some((agent, key, serial)) = read_tag(tag) else { return Owner::Foreign };
        match self.slab.get(key) {
            _ if agent != self.agent => Owner::Foreign,
            Some(dialog) if dialog.serial == serial && dialog.call_id == call_id => {
                Owner::Known(DialogId { key, serial })
            }
            _ => Owner::Ended,
        }
    }
}

fn read_tag(tag: &[u8]) -> Option<(u64, u32, u32)> {
    // `from_str_radix` would accept a sign as well.
    let text = core::str::from_utf8(tag).ok().filter(|_| tag.iter().all(u8::is_ascii_hexdigit))?;
    let (agent, rest) = text.split_at_checked(16)?;
    let (key, serial) = rest.split_at_checked(8)?;
    let [key, serial] = [key, serial].map(|part| u32::from_str_radix(part, 16));
    Some((u64::from_str_radix(agent, 16).ok()?, key.ok()?, serial.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_identifies_live_ended_and_foreign_dialogs() {
        let mut dialogs = Dialogs::new(Rng::from_seed(1));
        let (id, tag) = dialogs.create(77);
        assert_eq!(dialogs.owner(tag.as_bytes(), 77), Owner::Known(id));
        assert_eq!(dialogs.owner(tag.as_bytes(), 78), Owner::Ended);
        assert_eq!(Dialogs::new(Rng::from_seed(2)).owner(tag.as_bytes(), 77), Owner::Foreign);
        assert!(dialogs.remove(id).is_some() && dialogs.remove(id).is_none());
        dialogs.create(77);
        assert_eq!(
            dialogs.owner(tag.as_bytes(), 77),
            Owner::Ended,
            "the key is in use again, the serial is not"
        );
        for text in ["", "x", "+123456789abcdef0123456701234567", "0123456789abcdef01234567"] {
            assert_eq!(dialogs.owner(text.as_bytes(), 77), Owner::Foreign);
        }
    }
}
