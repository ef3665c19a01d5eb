//! Header field names: case-insensitive, long or compact (RFC 3261 §7.3.1, §7.3.3).

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

impl Name {
    /// The field with this name. Compares lengths first, so that most fields need no comparison of text.
    pub(crate) fn of(name: &[u8]) -> Self {
        let is = |long: &[u8], field| if name.eq_ignore_ascii_case(long) { field } else { Self::Other };
        match name.len() {
            1 => match name[0] | 0x20 {
                b'v' => Self::Via,
                b'f' => Self::From,
                b't' => Self::To,
                b'i' => Self::CallId,
                b'l' => Self::ContentLength,
                b'm' => Self::Contact,
                _ => Self::Other,
            },
            2 => is(b"To", Self::To),
            3 => is(b"Via", Self::Via),
            4 => match name[0] | 0x20 {
                b'f' => is(b"From", Self::From),
                _ => is(b"CSeq", Self::CSeq),
            },
            5 => is(b"Route", Self::Route),
            7 => match name[1] | 0x20 {
                b'a' => is(b"Call-ID", Self::CallId),
                _ => is(b"Contact", Self::Contact),
            },
            11 => match name[0] | 0x20 {
                b'm' => is(b"Max-Breadth", Self::MaxBreadth),
                _ => is(b"Retry-After", Self::RetryAfter),
            },
            12 => match name[0] | 0x20 {
                b'm' => is(b"Max-Forwards", Self::MaxForwards),
                _ => is(b"Record-Route", Self::RecordRoute),
            },
            13 => is(b"Proxy-Require", Self::ProxyRequire),
            14 => is(b"Content-Length", Self::ContentLength),
            _ => Self::Other,
        }
    }
}

/// Field and length of the name at the start of a line, if the name has its most common spelling and the colon directly
/// follows. After the first letter, a few comparisons of fixed length remain, which take one or two loads each. Other
/// spellings are read more slowly, with the same result.
#[inline]
pub(crate) fn spelled_as_usual(line: &[u8]) -> Option<(Name, usize)> {
    Some(match line.first()? {
        b'V' if line.starts_with(b"Via:") => (Name::Via, 3),
        b'T' if line.starts_with(b"To:") => (Name::To, 2),
        b'F' if line.starts_with(b"From:") => (Name::From, 4),
        b'C' if line.starts_with(b"CSeq:") => (Name::CSeq, 4),
        b'C' if line.starts_with(b"Call-ID:") => (Name::CallId, 7),
        b'C' if line.starts_with(b"Contact:") => (Name::Contact, 7),
        b'C' if line.starts_with(b"Content-Length:") => (Name::ContentLength, 14),
        b'C' if line.starts_with(b"Content-Type:") => (Name::Other, 12),
        b'M' if line.starts_with(b"Max-Forwards:") => (Name::MaxForwards, 12),
        b'M' if line.starts_with(b"Max-Breadth:") => (Name::MaxBreadth, 11),
        b'R' if line.starts_with(b"Record-Route:") => (Name::RecordRoute, 12),
        b'R' if line.starts_with(b"Route:") => (Name::Route, 5),
        _ => return None,
    })
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
        let known = [
            ("Via", Name::Via),
            ("From", Name::From),
            ("To", Name::To),
            ("Call-ID", Name::CallId),
            ("CSeq", Name::CSeq),
            ("Contact", Name::Contact),
            ("Max-Forwards", Name::MaxForwards),
            ("Max-Breadth", Name::MaxBreadth),
            ("Content-Length", Name::ContentLength),
            ("Route", Name::Route),
            ("Record-Route", Name::RecordRoute),
            ("Proxy-Require", Name::ProxyRequire),
            ("Retry-After", Name::RetryAfter),
        ];
        for (text, name) in known {
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
        let usual = [
            "Via",
            "To",
            "From",
            "CSeq",
            "Call-ID",
            "Contact",
            "Content-Length",
            "Max-Forwards",
            "Max-Breadth",
            "Record-Route",
            "Route",
            "Content-Type",
        ];
        for name in usual {
            let field = Name::of(name.as_bytes());
            assert_eq!(spelled_as_usual(format!("{name}:").as_bytes()), Some((field, name.len())), "{name}");
            assert_eq!(spelled_as_usual(format!("{name} :").as_bytes()), None, "{name}");
            assert_eq!(spelled_as_usual(format!("{name}s:").as_bytes()), None, "{name}");
        }
    }
}
