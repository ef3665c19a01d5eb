//! Header fields for registrars and authentication, read on demand: Contact, Path, Expires, option tags.

use crate::header::contact::{self, BadContact, ContactValue};
use crate::header::route::{self, RouteValue};
use crate::{Message, Span, chars};

impl<'a> Message<'a> {
    /// All values of all Contact fields, from first to last. After an error, further values of the same field are
    /// skipped.
    pub fn contacts(&self) -> impl Iterator<Item = Result<ContactValue<'a>, BadContact>> + use<'a> {
        self.values("Contact", contact::parse)
    }

    /// All values of Path (RFC 3327 §4), topmost first.
    pub fn path(&self) -> impl Iterator<Item = Result<&'a [u8], BadContact>> + use<'a> {
        self.values("Path", |line, span| {
            let (RouteValue { value, .. }, next) = route::parse(line, span).map_err(|_| BadContact)?;
            Ok((value.of(line), next))
        })
    }

    /// Seconds of the Expires field (RFC 3261 §20.19). A malformed value counts as
    /// [`MALFORMED_EXPIRES`](crate::MALFORMED_EXPIRES).
    pub fn expires(&self) -> Option<u32> {
        self.header("Expires").map(contact::seconds)
    }

    /// Longest lifetime, in seconds, in Contact or Expires.
    pub fn longest_expires(&self) -> Option<u32> {
        let of_contact = |contact| match contact {
            Ok(ContactValue::Address(address)) => address.expires,
            _ => None,
        };
        self.contacts().filter_map(of_contact).chain(self.expires()).max()
    }

    /// Option tags of all fields called `name`: Supported, Require, Proxy-Require.
    pub fn option_tags<'n>(&self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        self.headers(name)
            .flat_map(|value| value.split(|&b| b == b','))
            .map(chars::trim)
            .filter(|tag| !tag.is_empty())
    }

    /// Values of the comma lists called `name`, each read by `read` from its line. An empty field has no value.
    fn values<T, E, R>(
        &self,
        name: &'static str,
        read: R,
    ) -> impl Iterator<Item = Result<T, E>> + use<'a, T, E, R>
    where
        R: Fn(&'a [u8], Span) -> Result<(T, Option<u32>), E> + Copy,
    {
        self.headers(name).filter(|line| !line.is_empty()).flat_map(move |line| {
            let mut rest = Some(Span::new(0, line.len()));
            std::iter::from_fn(move || {
                let span = rest.take()?;
                Some(read(line, span).map(|(value, next)| {
                    rest = next.map(|start| Span::new(start as usize, line.len()));
                    value
                }))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan;

    const REGISTER: &str = "REGISTER sip:h SIP/2.0\r\nVia: SIP/2.0/UDP c;branch=z9hG4bK1\r\nFrom: <sip:a@h>;tag=1\r\n\
        To: <sip:a@h>\r\nCall-ID: x\r\nCSeq: 1 REGISTER\r\nMax-Forwards: 70\r\nm: <sip:a@1.2.3.4>;q=0.5, <sip:b@c>\r\n\
        Contact: <sip:d@e>\r\nPath: <sip:p1;lr>,<sip:p2;lr>;x=y\r\npath:\r\nPATH: <sip:p3;lr>\r\nExpires: 7\r\n\
        k: path, gruu,\r\nSupported: outbound\r\n\r\n";

    #[test]
    fn lists_over_several_fields() {
        let m = scan(REGISTER.as_bytes()).unwrap();
        let uris: Vec<_> = m
            .contacts()
            .map(|contact| match contact {
                Ok(ContactValue::Address(address)) => address.uri,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(uris, [&b"sip:a@1.2.3.4"[..], b"sip:b@c", b"sip:d@e"]);
        let path: Vec<_> = m.path().map(Result::unwrap).collect();
        assert_eq!(path, [&b"<sip:p1;lr>"[..], b"<sip:p2;lr>;x=y", b"<sip:p3;lr>"]);
        assert_eq!(m.expires(), Some(7));
        let tags: Vec<_> = m.option_tags("Supported").collect();
        assert_eq!(tags, [&b"path"[..], b"gruu", b"outbound"]);
    }

    #[test]
    fn malformed_contacts_and_expires_are_reported() {
        let text = REGISTER
            .replace("<sip:p2;lr>", "sip:p2")
            .replace("q=0.5", "q=5")
            .replace("Expires: 7", "Expires: soon");
        let m = scan(text.as_bytes()).unwrap();
        assert_eq!(m.path().filter(Result::is_err).count(), 1);
        assert_eq!(m.contacts().next(), Some(Err(BadContact)));
        assert_eq!(m.expires(), Some(3600));
    }
}
