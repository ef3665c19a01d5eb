//! Header field names: case-insensitive, long or compact (RFC 3261 §7.3.1, §7.3.3).

use crate::vector;

/// Header field that the scan or the edits read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Name {
    Via,
    From,
    To,
    CallId,
    CSeq,
    Contact,
    MaxBreadth,
    MaxForwards,
    ContentLength,
    Route,
    RecordRoute,
    ProxyRequire,
    RetryAfter,
    /// Any other field, which is forwarded unread.
    Other,
}

/// Long names and their fields. `Content-Type` is here only because it is common.
const NAMES: [(&str, Name); 14] = [
    ("Via", Name::Via),
    ("From", Name::From),
    ("To", Name::To),
    ("Call-ID", Name::CallId),
    ("CSeq", Name::CSeq),
    ("Contact", Name::Contact),
    ("Max-Breadth", Name::MaxBreadth),
    ("Max-Forwards", Name::MaxForwards),
    ("Content-Length", Name::ContentLength),
    ("Content-Type", Name::Other),
    ("Route", Name::Route),
    ("Record-Route", Name::RecordRoute),
    ("Proxy-Require", Name::ProxyRequire),
    ("Retry-After", Name::RetryAfter),
];

/// A name as a line begins with it: as spelled in [`NAMES`], and with its colon.
#[derive(Clone, Copy)]
struct Spelling {
    name: &'static str,
    field: Name,
    text: u128,
    mask: u128,
}

/// The names, each at its [`place`].
static PLACES: [Spelling; 32] = places();

/// Place of a name, by its length and its second letter: each name has a place of its own.
const fn place(length: usize, second: u8) -> usize {
    (length * 20 + (second | 0x20) as usize) & 31
}

const fn places() -> [Spelling; 32] {
    // No text has this value under the mask.
    let mut places = [Spelling { name: "", field: Name::Other, text: 1, mask: 0 }; 32];
    let mut i = 0;
    while i < NAMES.len() {
        let (name, field) = NAMES[i];
        let letters = name.as_bytes();
        let (mut text, mut at) = ((b':' as u128) << (8 * letters.len()), 0);
        while at < letters.len() {
            text |= (letters[at] as u128) << (8 * at);
            at += 1;
        }
        let place = place(letters.len(), letters[1]);
        assert!(places[place].mask == 0, "two names have the same place");
        places[place] = Spelling { name, field, text, mask: u128::MAX >> (120 - 8 * letters.len()) };
        i += 1;
    }
    places
}

impl Name {
    /// The field with this name.
    pub(crate) fn of(name: &[u8]) -> Self {
        match name {
            [letter] => match letter | 0x20 {
                b'v' => Self::Via,
                b'f' => Self::From,
                b't' => Self::To,
                b'i' => Self::CallId,
                b'l' => Self::ContentLength,
                b'm' => Self::Contact,
                _ => Self::Other,
            },
            [_, second, ..] => {
                let place = &PLACES[place(name.len(), *second)];
                if name.eq_ignore_ascii_case(place.name.as_bytes()) { place.field } else { Self::Other }
            }
            [] => Self::Other,
        }
    }
}

/// Field and length of a name that is spelled as in [`NAMES`], with the colon directly after it. `None` for all other
/// names and spellings, which [`Name::of`] reads, and if fewer than sixteen bytes are left.
#[inline]
pub(crate) fn spelled_as_usual(line: &[u8]) -> Option<(Name, usize)> {
    let text = line.first_chunk::<16>()?;
    let length = vector::position(text, b':')?;
    let place = &PLACES[place(length, text[1])];
    (u128::from_le_bytes(*text) & place.mask == place.text).then_some((place.field, length))
}

/// Compact forms of RFC 3261 §7.3.3, and the later forms in the IANA registry.
const COMPACT: [(u8, &str); 20] = [
    (b'a', "Accept-Contact"),
    (b'b', "Referred-By"),
    (b'c', "Content-Type"),
    (b'd', "Request-Disposition"),
    (b'e', "Content-Encoding"),
    (b'f', "From"),
    (b'i', "Call-ID"),
    (b'j', "Reject-Contact"),
    (b'k', "Supported"),
    (b'l', "Content-Length"),
    (b'm', "Contact"),
    (b'n', "Identity-Info"),
    (b'o', "Event"),
    (b'r', "Refer-To"),
    (b's', "Subject"),
    (b't', "To"),
    (b'u', "Allow-Events"),
    (b'v', "Via"),
    (b'x', "Session-Expires"),
    (b'y', "Identity"),
];

/// Whether `written` is the name `long`, or its compact form.
pub fn matches(written: &[u8], long: &str) -> bool {
    if let [letter] = *written
        && let Some((_, name)) = COMPACT.iter().find(|(compact, _)| *compact == letter.to_ascii_lowercase())
    {
        return name.eq_ignore_ascii_case(long);
    }
    written.eq_ignore_ascii_case(long.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_in_any_case() {
        for (text, name) in NAMES {
            assert_eq!(Name::of(text.as_bytes()), name);
            assert_eq!(Name::of(text.to_lowercase().as_bytes()), name);
            assert_eq!(Name::of(text.to_uppercase().as_bytes()), name);
            // Both tables must agree on the compact form.
            for (compact, long) in COMPACT {
                if long == text {
                    assert_eq!(Name::of(&[compact]), name);
                    assert_eq!(Name::of(&[compact.to_ascii_uppercase()]), name);
                }
            }
        }
        for other in ["", "C%6Fntact", "Routf", "s", "k", "Contain", "Max_Forwards"] {
            assert_eq!(Name::of(other.as_bytes()), Name::Other, "{other}");
        }
    }

    #[test]
    fn generic_look_up() {
        assert!(matches(b"m", "Contact"));
        assert!(matches(b"M", "contact"));
        assert!(matches(b"CONTACT", "Contact"));
        assert!(!matches(b"m", "Max-Forwards"));
        assert!(matches(b"z", "Z"));
    }

    #[test]
    fn the_fast_path_takes_only_the_usual_spelling() {
        for (name, field) in NAMES {
            let read = |line: String| spelled_as_usual(line.as_bytes());
            assert_eq!(read(format!("{name}: a value of a line")), Some((field, name.len())), "{name}");
            assert_eq!(read(format!("{name} : a value of a line")), None, "{name}");
            assert_eq!(read(format!("{name}s: a value of a line")), None, "{name}");
        }
    }
}
