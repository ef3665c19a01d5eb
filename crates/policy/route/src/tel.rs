//! `tel` URIs (RFC 3966): the number that rules compare, and the conversion to a SIP URI (RFC 3261 §19.1.6).

/// Characters between the digits that have no meaning (RFC 3966 §3, `visual-separator`).
const SEPARATORS: &[u8] = b"-.()";

/// Parameters whose values are compared in any case (RFC 3966 §4).
const CASELESS: [&[u8]; 4] = [b"isub", b"postd", b"ext", b"phone-context"];

/// A `tel` URI as written.
#[derive(Clone, Copy)]
pub(crate) struct TelUri<'u> {
    number: &'u [u8],
    /// Text after the first semicolon; empty if there is none.
    params: &'u [u8],
}

impl<'u> TelUri<'u> {
    /// Parses the URI; `None` if its scheme is not `tel`.
    pub(crate) fn of(uri: &'u [u8]) -> Option<Self> {
        let scheme = wire::scheme_of(uri).filter(|scheme| scheme.eq_ignore_ascii_case(b"tel"))?;
        let rest = &uri[scheme.len() + 1..];
        let end = rest.iter().position(|&byte| byte == b';').unwrap_or(rest.len());
        Some(Self { number: &rest[..end], params: rest.get(end + 1..).unwrap_or_default() })
    }

    /// Number with escapes decoded and visual separators removed: `+44-20` is `+4420` (RFC 3966 §4).
    pub(crate) fn number(&self) -> Vec<u8> {
        let number = wire::unescape(self.number).filter(|byte| !SEPARATORS.contains(byte));
        number.map(|byte| byte.to_ascii_lowercase()).collect()
    }

    /// Writes the parameters in their form in the user of a SIP URI. They are sorted by name after `isub` and `postd`,
    /// and in lower case where case has no meaning. So equal `tel` URIs become equal SIP URIs.
    pub(crate) fn write_params(&self, out: &mut Vec<u8>) {
        let param = |param: &'u [u8]| {
            let end = param.iter().position(|&byte| byte == b'=').unwrap_or(param.len());
            (param[..end].to_ascii_lowercase(), &param[end..])
        };
        let mut params: Vec<_> =
            self.params.split(|&byte| byte == b';').filter(|param| !param.is_empty()).map(param).collect();
        let rank =
            |name: &[u8]| [&b"isub"[..], b"postd"].iter().position(|first| *first == name).unwrap_or(2);
        params.sort_by(|(one, _), (other, _)| (rank(one), one).cmp(&(rank(other), other)));
        for (name, value) in params {
            out.push(b';');
            write_user_text(&name, out);
            if CASELESS.contains(&&name[..]) {
                write_user_text(&value.to_ascii_lowercase(), out);
            } else {
                write_user_text(value, out);
            }
        }
    }
}

/// Writes text into the user of a SIP URI. Characters not allowed there (RFC 3261 §25.1, `user`) become escapes;
/// existing escapes stay.
pub(crate) fn write_user_text(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()&=+$,;?/%".contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
}
