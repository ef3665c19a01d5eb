//! Who calls whom: what is kept of the INVITE that begins a call.

use std::net::SocketAddr;

/// Longest text that is kept; what is longer is cut off. Addresses of people are far shorter, and a stranger must not fill the
/// memory with them.
const LONGEST: usize = 256;

/// Who calls whom, as the INVITE has it; in one piece of memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct About {
    texts: Box<[u8]>,
    /// Where the first, second, ... text ends.
    ends: [u16; 5],
    /// Who sent the INVITE here; `None` where nobody knows any more.
    pub source: Option<SocketAddr>,
    /// The number of the pool that it goes to; `None` for the contacts of a user.
    pub pool: Option<u16>,
    /// The rule that it goes by, if there are rules.
    pub rule: Option<u16>,
}

impl About {
    /// Call-ID, tag of the caller, URI in From, URI in To, and Request-URI as it came.
    pub fn new(
        texts: [&[u8]; 5],
        source: Option<SocketAddr>,
        (pool, rule): (Option<u16>, Option<u16>),
    ) -> Self {
        let cut = texts.map(|text| &text[..text.len().min(LONGEST)]);
        let mut ends = [0; 5];
        let mut at = 0;
        for (end, text) in ends.iter_mut().zip(cut) {
            at += text.len() as u16;
            *end = at;
        }
        Self { texts: cut.concat().into(), ends, source, pool, rule }
    }

    fn text(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.texts[start.into()..self.ends[at].into()]
    }

    /// The Call-ID.
    pub fn call_id(&self) -> &[u8] {
        self.text(0)
    }

    /// The tag of the caller.
    pub fn tag(&self) -> &[u8] {
        self.text(1)
    }

    /// The URI in From.
    pub fn from(&self) -> &[u8] {
        self.text(2)
    }

    /// The URI in To.
    pub fn to(&self) -> &[u8] {
        self.text(3)
    }

    /// The Request-URI as it came.
    pub fn uri(&self) -> &[u8] {
        self.text(4)
    }

    /// Bytes of memory beside its own size.
    pub(crate) fn memory(&self) -> usize {
        self.texts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_and_long_ones_are_cut_off() {
        let long = [b'x'; 1000];
        let source = Some(SocketAddr::from(([192, 0, 2, 1], 5060)));
        let about = About::new([b"id", b"", b"sip:a@b", &long, b"sip:c"], source, (None, Some(3)));
        assert_eq!((about.call_id(), about.tag(), about.from()), (&b"id"[..], &b""[..], &b"sip:a@b"[..]));
        assert_eq!((about.to().len(), about.uri()), (LONGEST, &b"sip:c"[..]));
    }
}
