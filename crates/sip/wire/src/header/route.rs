//! Route and Record-Route (RFC 3261 §20.30, §20.34).

use crate::Span;
use crate::cursor::{Cursor, Malformed};
use crate::header::name_addr;
use crate::uri;

/// One value of a Route or Record-Route list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RouteValue<'a> {
    /// The whole value: name, `<URI>`, parameters.
    pub value: Span,
    /// URI without angle brackets. It has no white space, but its parts are unchecked.
    pub uri: &'a [u8],
}

/// Reads the first value in `span`, and returns it with the start of the next one.
///
/// Angle brackets are required: without them `;lr` would be a parameter of the header field, not of the URI.
pub(crate) fn parse(bytes: &[u8], span: Span) -> Result<(RouteValue<'_>, Option<u32>), Malformed> {
    let mut cursor = Cursor::new(bytes, span);
    let parsed = name_addr::address(&mut cursor)?;
    if !parsed.bracketed || !uri::is_uri_text(parsed.uri.of(bytes)) {
        return Err(Malformed);
    }
    while cursor.param()?.is_some() {}
    let value = Span::new(span.start as usize, cursor.pos);
    let next = cursor.list_end()?;
    Ok((RouteValue { value, uri: parsed.uri.of(bytes) }, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Option<Vec<(&str, &str)>> {
        let mut rest = Some(Span::new(0, text.len()));
        let mut found = Vec::new();
        while let Some(span) = rest {
            let (route, next) = parse(text.as_bytes(), span).ok()?;
            found.push((
                std::str::from_utf8(route.uri).unwrap(),
                &text[span.start as usize..route.value.end as usize],
            ));
            rest = next.map(|start| Span::new(start as usize, text.len()));
        }
        Some(found)
    }

    #[test]
    fn lists() {
        assert_eq!(
            all("\"a, <x>\" <sip:a,b;lr>;p=\",\" ,\r\n <sip:[::1]:5;lr>"),
            Some(vec![
                ("sip:a,b;lr", "\"a, <x>\" <sip:a,b;lr>;p=\",\""),
                ("sip:[::1]:5;lr", "<sip:[::1]:5;lr>")
            ])
        );
    }

    #[test]
    fn malformed() {
        for bad in
            ["", "sip:a;lr", "<sip:a", "<sip:a>,", "<sip:a b>", ",<sip:a>", "<sip:a>;", "<sip:a\r\n X: y>"]
        {
            assert_eq!(all(bad), None, "{bad}");
        }
    }
}
