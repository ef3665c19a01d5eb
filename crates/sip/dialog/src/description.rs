//! Parties of a call, kept from its INVITE.

use std::net::SocketAddr;

/// Longest URI or name that is kept, in bytes. Longer texts are truncated, since outsiders must not fill the memory
/// with them. Usual addresses are far shorter.
const LONGEST: usize = 256;

/// Parties of a call, as named in its INVITE. The value is in one allocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallDescription {
    texts: Box<[u8]>,
    /// End position of each text.
    ends: [u32; 7],
    /// Source of the INVITE; `None` if unknown.
    pub source: Option<SocketAddr>,
}

impl CallDescription {
    /// Makes the value from Call-ID, tag of the caller, URI in From, URI in To, received Request-URI, and the names of
    /// the routing rule and the pool. An absent name is empty.
    pub fn new(texts: [&[u8]; 7], source: Option<SocketAddr>) -> Self {
        let [call_id, tag, rest @ ..] = texts;
        let [from, to, uri, rule, pool] = rest.map(|text| &text[..text.len().min(LONGEST)]);
        let cut = [call_id, tag, from, to, uri, rule, pool];
        let mut ends = [0; 7];
        let mut at = 0;
        for (end, text) in ends.iter_mut().zip(cut) {
            at += text.len() as u32;
            *end = at;
        }
        Self { texts: cut.concat().into(), ends, source }
    }

    fn text(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.texts[start as usize..self.ends[at] as usize]
    }

    /// The Call-ID.
    pub fn call_id(&self) -> &[u8] {
        self.text(0)
    }

    /// Tag of the caller.
    pub fn tag(&self) -> &[u8] {
        self.text(1)
    }

    /// URI in From.
    pub fn from(&self) -> &[u8] {
        self.text(2)
    }

    /// URI in To.
    pub fn to(&self) -> &[u8] {
        self.text(3)
    }

    /// Request-URI as received.
    pub fn uri(&self) -> &[u8] {
        self.text(4)
    }

    /// Name of the routing rule; empty if there is none.
    pub fn rule(&self) -> &[u8] {
        self.text(5)
    }

    /// Name of the pool; empty if the call goes to the contacts of a user.
    pub fn pool(&self) -> &[u8] {
        self.text(6)
    }

    /// Memory besides the value's own size, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.texts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back_and_long_texts_are_truncated() {
        let long = [b'x'; 1000];
        let source = Some(SocketAddr::from(([192, 0, 2, 1], 5060)));
        let about = CallDescription::new([b"id", b"", b"sip:a@b", &long, b"sip:c", b"in", b""], source);
        assert_eq!((about.call_id(), about.tag(), about.from()), (&b"id"[..], &b""[..], &b"sip:a@b"[..]));
        assert_eq!((about.to().len(), about.uri()), (LONGEST, &b"sip:c"[..]));
        assert_eq!((about.rule(), about.pool()), (&b"in"[..], &b""[..]));
    }
}
