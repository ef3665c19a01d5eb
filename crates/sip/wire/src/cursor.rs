//! Reading position in a header value, with the steps that all values share.

use crate::Span;
use crate::chars::{self, LWS, TOKEN, VALUE};

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

/// Reading position in `bytes`, never past `end`.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) pos: usize,
    pub(crate) end: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], span: Span) -> Self {
        Self { bytes, pos: span.start as usize, end: span.end as usize }
    }

    /// Byte at the position; `None` at the end.
    pub(crate) fn peek(&self) -> Option<u8> {
        if self.pos < self.end { Some(self.bytes[self.pos]) } else { None }
    }

    /// Skips all bytes of the classes `class` and returns their range.
    pub(crate) fn run(&mut self, class: u8) -> Span {
        let start = self.pos;
        let rest = &self.bytes[start..self.end];
        self.pos += rest.iter().position(|&b| !chars::is(b, class)).unwrap_or(rest.len());
        Span::new(start, self.pos)
    }

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
    pub(crate) fn eat_spaced(&mut self, byte: u8) -> bool {
        let before = self.pos;
        // Mostly there is no white space.
        if !self.eat(byte) {
            self.skip_lws();
            if !self.eat(byte) {
                self.pos = before;
                return false;
            }
        }
        self.skip_lws();
        true
    }

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
        self.pos = self.end;
        Err(Malformed)
    }

    /// Reads the next `;name[=value]`; `None` if no semicolon comes next.
    pub(crate) fn param(&mut self) -> Result<Option<Param>, Malformed> {
        if !self.eat_spaced(b';') {
            return Ok(None);
        }
        let name = self.token()?;
        let value = if self.eat_spaced(b'=') {
            let value = if self.peek() == Some(b'"') { self.quoted()? } else { self.run(VALUE) };
            if value.is_empty() {
                return Err(Malformed);
            }
            Some(value)
        } else {
            None
        };
        Ok(Some(Param { name, value }))
    }

    /// Reads the end of a value in a list: the end of the text, or a comma. Returns the start of the next value, if
    /// any.
    pub(crate) fn list_end(&mut self) -> Result<Option<u32>, Malformed> {
        self.skip_lws();
        if self.pos == self.end {
            return Ok(None);
        }
        let comma = self.pos;
        if !self.eat_spaced(b',') || self.pos == self.end {
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
