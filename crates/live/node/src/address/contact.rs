//! A contact of an address-of-record.

use base::Flow;

#[derive(Clone)]
pub(crate) struct Contact {
    /// The new Request-URI (§16.6 step 2).
    pub(crate) uri: Box<[u8]>,
    /// Route set to be put before the URI (RFC 3327 §5.4); may be empty.
    pub(crate) path: Box<[u8]>,
    /// Preference in thousandths.
    pub(crate) q: u16,
    pub(crate) hop: Flow,
    /// Whether `hop` is the address from which the user has registered over UDP, without a proxy in between.
    pub(crate) is_registered: bool,
    /// Other ways to the same user agent, used when its connection is closed: its other flows (RFC 5626 §7), and a new
    /// connection if its address can be reached.
    pub(crate) spare: Vec<Contact>,
}

impl Contact {
    /// Returns the memory that the contact takes, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let spare = self.spare.iter().map(Self::memory).sum::<usize>();
        size_of::<Self>() + self.uri.len() + self.path.len() + spare
    }

    /// Replaces the way to the user agent by the next one of `spare`. Returns `None` if there is no other way.
    pub(crate) fn go_by_spare(&mut self) -> Option<()> {
        let mut spare = core::mem::take(&mut self.spare).into_iter();
        *self = spare.next()?;
        self.spare = spare.collect();
        Some(())
    }
}
