//! Who calls whom: what is kept of the INVITE that begins a call.

use std::net::SocketAddr;

/// Longest URI or name that is kept; what is longer is cut off. Addresses of people are far shorter, and a stranger
/// must not fill the memory with them.
const LONGEST: usize = 256;

/// Who calls whom, as the INVITE has it; in one piece of memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct About {
    texts: Box<[u8]>,
    /// Where the first, second, ... text ends.
    ends: [u32; 7],
    /// Who sent the INVITE here; `None` where nobody knows any more.
    pub source: Option<SocketAddr>,
}

impl About {
    /// Call-ID, tag of the caller, URI in From, URI in To, Request-URI as it came, and the names of the rule and of
    /// the pool that it goes by; a name that there is none of is empty.
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

    /// The name of the rule that it goes by; empty for none.
    pub fn rule(&self) -> &[u8] {
        self.text(5)
    }

    /// The name of the pool that it goes to; empty where it goes to the contacts of a user.
    pub fn pool(&self) -> &[u8] {
        self.text(6)
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
        let about = About::new([b"id", b"", b"sip:a@b", &long, b"sip:c", b"in", b""], source);
        assert_eq!((about.call_id(), about.tag(), about.from()), (&b"id"[..], &b""[..], &b"sip:a@b"[..]));
        assert_eq!((about.to().len(), about.uri()), (LONGEST, &b"sip:c"[..]));
        assert_eq!((about.rule(), about.pool()), (&b"in"[..], &b""[..]));
    }
}
