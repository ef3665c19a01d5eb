//! A contact of an address-of-record.

use base::Flow;

/// A contact of an address-of-record.
#[derive(Clone)]
pub(crate) struct Contact {
    /// The new Request-URI (§16.6 step 2).
    pub(crate) uri: Box<[u8]>,
    /// The route set that is put before it (RFC 3327 §5.4); empty for none.
    pub(crate) path: Box<[u8]>,
    /// Preference in thousandths.
    pub(crate) q: u16,
    /// The way there.
    pub(crate) hop: Flow,
    /// Whether that is where its user has registered from over UDP, and no proxy in front of the user.
    pub(crate) is_registered: bool,
    /// Other ways to the same user agent, for when the connection is gone: its other flows (RFC 5626 §7), and a new
    /// connection where its address can be reached.
    pub(crate) spare: Vec<Contact>,
}

impl Contact {
    /// Bytes of memory that it takes.
    pub(crate) fn memory(&self) -> usize {
        let spare = self.spare.iter().map(Self::memory).sum::<usize>();
        size_of::<Self>() + self.uri.len() + self.path.len() + spare
    }

    /// Goes to its user agent by the next other way, if there is one.
    pub(crate) fn go_by_spare(&mut self) -> Option<()> {
        let mut spare = core::mem::take(&mut self.spare).into_iter();
        *self = spare.next()?;
        self.spare = spare.collect();
        Some(())
    }
}
