//! Route and Record-Route (RFC 3261 §20.30, §20.34).

use crate::Span;
use crate::cursor::{Cursor, Malformed};
use crate::header::list::{Group, line_values};
use crate::header::{Name, name_addr};
use crate::line::Line;
use crate::uri::{SipUri, is_uri_text};

/// One value of a Route or Record-Route list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RouteValue<'a> {
    /// The whole value: name, `<URI>`, parameters.
    pub value: Span,
    /// URI without angle brackets. It has no white space, but its parts are unchecked.
    pub uri: &'a [u8],
    /// The parts of the URI; `None` if it is no well-formed SIP URI.
    pub sip: Option<SipUri<'a>>,
}

/// Values of a Route that are kept as parsed. Two are common: a proxy between two networks adds two.
const KEPT: usize = 2;

/// Values of the Route of a request: the first ones as parsed, and the number of all.
#[derive(Clone, Default)]
pub(crate) struct Routes<'a> {
    pub(crate) group: Group,
    /// The first values, each with its line.
    kept: [Option<(RouteValue<'a>, Span)>; KEPT],
    /// Number of all values.
    pub(crate) count: usize,
}

impl<'a> Routes<'a> {
    /// Reads a line with all of its values, so that users of the route need not check them.
    pub(crate) fn read(&mut self, bytes: &'a [u8], line: &Line) -> Result<(), Malformed> {
        self.group.add(line);
        for value in line_values(line.trimmed(bytes), |span| parse(bytes, span)) {
            let value = value?;
            if let Some(kept) = self.kept.get_mut(self.count) {
                *kept = Some((value, line.whole()));
            }
            self.count += 1;
        }
        Ok(())
    }

    /// The values, each with its line. After an error the rest of that line is missing.
    pub(crate) fn values(&self, bytes: &'a [u8]) -> impl Iterator<Item = (RouteValue<'a>, Span)> {
        let lines = (self.count > KEPT).then(|| self.group.lines(bytes, Name::Route));
        let others = lines.into_iter().flatten().flat_map(move |line| {
            let values = line_values(line.trimmed(bytes), move |span| parse(bytes, span));
            values.filter_map(Result::ok).map(move |value| (value, line.whole()))
        });
        self.kept.iter().copied().flatten().chain(others.skip(KEPT))
    }
}

/// Reads the first value in `span`, and returns it with the start of the next one.
///
/// Angle brackets are required: without them `;lr` would be a parameter of the header field, not of the URI.
pub(crate) fn parse(bytes: &[u8], span: Span) -> Result<(RouteValue<'_>, Option<u32>), Malformed> {
    let mut cursor = Cursor::new(bytes, span);
    let parsed = name_addr::address(&mut cursor)?;
    let uri = parsed.uri.of(bytes);
    let sip = SipUri::parse(uri).ok();
    if !parsed.bracketed || sip.is_none() && !is_uri_text(uri) {
        return Err(Malformed);
    }
    while cursor.param()?.is_some() {}
    let value = Span::new(span.start as usize, cursor.pos);
    let next = cursor.list_end()?;
    Ok((RouteValue { value, uri, sip }, next))
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
