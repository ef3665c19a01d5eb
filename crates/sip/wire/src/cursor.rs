//! Reading position in a header value, with the steps that all values share.

use crate::Span;
use crate::chars::{self, LWS, TOKEN};
use crate::host::Host;
use crate::vector;

/// Error: the grammar does not allow the bytes at this position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Malformed;

/// One `;name[=value]` (RFC 3261 §25.1 generic-param).
#[derive(Clone, Copy)]
pub(crate) struct Param {
    pub(crate) name: Span,
    /// A quoted string with its quotes.
    pub(crate) value: Option<Span>,
}

/// Reading position in `bytes`, which end where the value ends.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) pos: usize,
    /// The same bytes with the ones that follow, which may be read in one go with the last of the value.
    around: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], span: Span) -> Self {
        Self { bytes: &bytes[..span.end as usize], pos: span.start as usize, around: bytes }
    }

    /// Byte at the position; `None` at the end.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.pos).copied()
    }

    /// Skips all bytes of the classes `class` and returns their range.
    #[inline]
    pub(crate) fn run(&mut self, class: u8) -> Span {
        let start = self.pos;
        while self.peek().is_some_and(|b| chars::is(b, class)) {
            self.pos += 1;
        }
        Span::new(start, self.pos)
    }

    /// Whether this is the end of the value.
    pub(crate) fn is_at_end(&self) -> bool {
        self.pos >= self.bytes.len()
    }

    #[inline]
    pub(crate) fn skip_lws(&mut self) {
        while self.peek().is_some_and(|b| chars::is(b, LWS)) {
            self.pos += 1;
        }
    }

    /// Skips `byte` if it is next; returns whether it was.
    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        let here = self.peek() == Some(byte);
        self.pos += usize::from(here);
        here
    }

    /// Skips `byte` with any white space around it: SLASH, COLON, EQUAL, SEMI of RFC 3261 §25.1.
    #[inline]
    pub(crate) fn eat_spaced(&mut self, byte: u8) -> bool {
        // Mostly there is no white space.
        match self.peek() {
            Some(next) if next == byte => self.pos += 1,
            Some(next) if chars::is(next, LWS) => return self.eat_after_lws(byte),
            _ => return false,
        }
        self.skip_lws();
        true
    }

    #[cold]
    fn eat_after_lws(&mut self, byte: u8) -> bool {
        let before = self.pos;
        self.skip_lws();
        if self.eat(byte) {
            self.skip_lws();
            return true;
        }
        self.pos = before;
        false
    }

    /// Skips all bytes of a parameter's value and returns their range.
    #[inline]
    fn value(&mut self) -> Span {
        let start = self.pos;
        self.pos = vector::value_end(self.around, start, self.bytes.len());
        Span::new(start, self.pos)
    }

    /// Reads a host (RFC 3261 §25.1).
    #[inline]
    pub(crate) fn host(&mut self) -> Option<Host<'a>> {
        let (host, length) = Host::at_start(&self.bytes[self.pos..])?;
        self.pos += length;
        Some(host)
    }

    /// Moves to the next `byte`. `None` if there is none; the position is then the end.
    #[inline]
    pub(crate) fn find(&mut self, byte: u8) -> Option<()> {
        self.pos = vector::find(self.around, self.pos, self.bytes.len(), byte);
        (!self.is_at_end()).then_some(())
    }

    #[inline]
    pub(crate) fn token(&mut self) -> Result<Span, Malformed> {
        let span = self.run(TOKEN);
        if span.is_empty() { Err(Malformed) } else { Ok(span) }
    }

    /// Skips a quoted string; the position is at its first quote. A backslash escapes the next byte.
    pub(crate) fn quoted(&mut self) -> Result<Span, Malformed> {
        let start = self.pos;
        self.pos += 1;
        while let Some(b) = self.peek() {
            self.pos += 1;
            match b {
                b'"' => return Ok(Span::new(start, self.pos)),
                b'\\' => self.pos += 1,
                _ => {}
            }
        }
        // An escape may have stepped over the end.
        self.pos = self.bytes.len();
        Err(Malformed)
    }

    /// Reads the next `;name[=value]`; `None` if no semicolon comes next.
    #[inline]
    pub(crate) fn param(&mut self) -> Result<Option<Param>, Malformed> {
        if !self.eat_spaced(b';') {
            return Ok(None);
        }
        let name = self.token()?;
        let value = if self.eat_spaced(b'=') {
            let value = if self.peek() == Some(b'"') { self.quoted()? } else { self.value() };
            if value.is_empty() {
                return Err(Malformed);
            }
            Some(value)
        } else {
            None
        };
        Ok(Some(Param { name, value }))
    }

    /// Reads the value of a parameter that is written like `start`, such as `;tag=`, without quotes and white space.
    #[inline]
    pub(crate) fn usual_param(&mut self, start: &[u8]) -> Option<Span> {
        if !self.bytes[self.pos..].starts_with(start) {
            return None;
        }
        let before = self.pos;
        self.pos += start.len();
        let value = self.value();
        if value.is_empty() {
            self.pos = before;
            return None;
        }
        Some(value)
    }

    /// Reads the end of a value in a list: the end of the text, or a comma. Returns the start of the next value, if
    /// any.
    pub(crate) fn list_end(&mut self) -> Result<Option<u32>, Malformed> {
        self.skip_lws();
        if self.is_at_end() {
            return Ok(None);
        }
        let comma = self.pos;
        if !self.eat_spaced(b',') || self.is_at_end() {
            self.pos = comma;
            return Err(Malformed);
        }
        Ok(Some(self.pos as u32))
    }

    /// Moves to the next comma outside quotes, or to the end: the end of a malformed value in a list.
    pub(crate) fn skip_value(&mut self) {
        while let Some(b) = self.peek() {
            match b {
                b',' => return,
                b'"' if self.quoted().is_err() => return,
                b'"' => {}
                _ => self.pos += 1,
            }
        }
    }
}
