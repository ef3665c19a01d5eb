//! Division of a byte stream (TCP, TLS) into messages (RFC 3261 §18.3, §7.5; RFC 5626 §3.5.1).
//!
//! - [`Framer`] keeps incomplete bytes and returns whole messages, pings and pongs.
//! - [`HeaderSearch`] finds the end of one header, for readers that do not keep bodies.
//! - [`begins_message`] checks only a first line.

use crate::Span;
use crate::header::{Name, content_length};
use crate::line::Lines;
use crate::start;
use core::fmt;

/// Longest header of a message in a stream, in bytes. SIP headers are a few kilobytes long. Without a limit a peer that
/// never ends its header would fill the memory.
pub const HEADER_MAX: usize = 32 << 10;

/// Most bytes of an unfinished first line that are checked. So a line that arrives byte by byte takes linear time.
const BEGINNING: usize = 16;

/// Reason why the further bytes of a stream cannot be divided into messages. The connection has to be closed, since the
/// start of the next message is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FramingFault {
    /// The bytes do not start as a SIP message starts.
    NotSip,
    /// The first line ends with LF alone.
    LineEnd,
    /// The header has no end within [`HEADER_MAX`] bytes.
    HeaderTooLong,
    /// The message is longer than the limit of the [`Framer`].
    MessageTooLong {
        /// Length of the message in bytes, header and body.
        length: u64,
        /// The limit.
        longest: usize,
    },
    /// There is no Content-Length, so the end of the message in the stream is unknown (RFC 3261 §18.3, §20.14).
    MissingContentLength,
    /// A Content-Length that is not a number.
    MalformedContentLength,
    /// Two Content-Lengths with different numbers.
    DifferentContentLengths,
}

impl FramingFault {
    /// A label for the log.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotSip => "not_sip",
            Self::LineEnd => "line_end",
            Self::HeaderTooLong => "header_too_long",
            Self::MessageTooLong { .. } => "message_too_long",
            Self::MissingContentLength => "missing_content_length",
            Self::MalformedContentLength => "malformed_content_length",
            Self::DifferentContentLengths => "different_content_lengths",
        }
    }
}

impl fmt::Display for FramingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSip => f.write_str("the bytes do not begin like a SIP message"),
            Self::LineEnd => f.write_str("the first line ends with LF alone, not with CRLF"),
            Self::HeaderTooLong => write!(f, "the header does not end within {HEADER_MAX} bytes"),
            Self::MessageTooLong { length, longest } => {
                write!(f, "the message is {length} bytes long, the limit is {longest}")
            }
            Self::MissingContentLength => {
                f.write_str("the message has no Content-Length, which a stream requires")
            }
            Self::MalformedContentLength => f.write_str("the Content-Length is not a number"),
            Self::DifferentContentLengths => {
                f.write_str("the message has two Content-Lengths with different numbers")
            }
        }
    }
}

impl core::error::Error for FramingFault {}

/// Next item of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framed<'a> {
    /// A message, from its first line to the end of its body.
    Message(&'a [u8]),
    /// CRLF CRLF between messages: a keep-alive, to be answered with one CRLF (RFC 5626 §3.5.1).
    Ping,
    /// One CRLF between messages: the answer to a ping, or an empty line to be ignored (RFC 3261 §7.5).
    Pong,
}

/// Divides the bytes of a stream into messages. The time is linear in the number of bytes, whatever pieces the reads
/// return.
///
/// - [`take`](Self::take) the bytes that were read, then call [`next`](Self::next) until it returns `None` or a fault.
/// - [`is_within_message`](Self::is_within_message), [`held`](Self::held): for time-outs and for memory accounting.
///
/// The sequence of [`Framed`] items does not depend on the pieces. So a CRLF becomes a [`Framed::Pong`] only when the
/// next byte has arrived: until then the CRLF may be the first half of a ping.
#[derive(Clone, Debug)]
pub struct Framer {
    /// Bytes received. The bytes before `start` have already been returned.
    buffer: Vec<u8>,
    start: usize,
    search: HeaderSearch,
    /// Length of the message at `start`, if its header is complete.
    whole: Option<usize>,
    longest: usize,
}

impl Framer {
    /// Makes a framer for a new stream. `longest` is the limit for the length of a message in bytes, header and body.
    pub fn new(longest: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, search: HeaderSearch::default(), whole: None, longest }
    }

    /// Takes the next bytes of the stream.
    pub fn take(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next message, ping or pong. `None` if more bytes are needed.
    ///
    /// # Errors
    /// If the further stream cannot be divided into messages. Every later call returns the same fault.
    #[expect(clippy::should_implement_trait, reason = "lends bytes of its own, which an iterator cannot")]
    pub fn next(&mut self) -> Result<Option<Framed<'_>>, FramingFault> {
        let framed = match &self.buffer[self.start..] {
            [b'\r', b'\n', b'\r', b'\n', ..] => (Framed::Ping, 4),
            [] | [b'\r'] | [b'\r', b'\n'] | [b'\r', b'\n', b'\r'] => {
                self.compact();
                return Ok(None);
            }
            [b'\r', b'\n', ..] => (Framed::Pong, 2),
            _ => {
                let Some(length) = self.message()? else {
                    self.compact();
                    return Ok(None);
                };
                (self.search, self.whole) = (HeaderSearch::default(), None);
                (Framed::Message(&self.buffer[self.start..self.start + length]), length)
            }
        };
        self.start += framed.1;
        Ok(Some(framed.0))
    }

    /// Length of the message at `start`. `None` if its header is incomplete.
    fn message(&mut self) -> Result<Option<usize>, FramingFault> {
        let rest = &self.buffer[self.start..];
        if self.whole.is_none()
            && let Some(header) = self.search.find(rest)?
        {
            let body = header.content_length.ok_or(FramingFault::MissingContentLength)?;
            let length = header.end as u64 + u64::from(body);
            let too_long = FramingFault::MessageTooLong { length, longest: self.longest };
            self.whole = Some(usize::try_from(length).ok().filter(|l| *l <= self.longest).ok_or(too_long)?);
        }
        Ok(self.whole.filter(|length| *length <= rest.len()))
    }

    /// Frees the memory of returned items. All bytes that are moved came with the last read, since this read completed
    /// the message before them. So the total time stays linear.
    fn compact(&mut self) {
        if self.start == self.buffer.len() {
            self.buffer = Vec::new();
        } else if self.start > 0 {
            self.buffer = self.buffer[self.start..].to_vec();
        }
        self.start = 0;
    }

    /// Memory held for the stream, in bytes.
    pub fn held(&self) -> usize {
        self.buffer.capacity()
    }

    /// Whether the stream ends with an incomplete message.
    pub fn is_within_message(&self) -> bool {
        self.buffer.get(self.start).is_some_and(|first| !matches!(first, b'\r' | b'\n'))
    }
}

/// Header of a message in a stream, as [`HeaderSearch`] finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundHeader {
    /// Length in bytes, including the empty line. This is the offset of the body.
    pub end: usize,
    /// Length of the body. `None` if the header has no Content-Length.
    pub content_length: Option<u32>,
}

/// Searches for the end of one header in bytes that come in pieces.
#[derive(Clone, Copy, Default, Debug)]
pub struct HeaderSearch {
    /// Number of leading bytes that contain no end of the header.
    searched: usize,
    /// Whether the first line is complete and a start line of SIP.
    has_start_line: bool,
}

impl HeaderSearch {
    /// Finds the header at the start of `bytes`, which are all bytes of the message so far. `None` if the header is
    /// incomplete.
    ///
    /// # Errors
    /// If the bytes do not start like a message, if the header has no end within the limit, or if its Content-Length is
    /// faulty or ambiguous.
    pub fn find(&mut self, bytes: &[u8]) -> Result<Option<FoundHeader>, FramingFault> {
        let bytes = &bytes[..bytes.len().min(HEADER_MAX)];
        if !self.has_start_line {
            self.has_start_line = check_first_line(bytes, self.searched)?;
        }
        // Header lines are few and short: `memchr` finds line ends, and the last four bytes are compared.
        let line_ends = memchr::memchr_iter(b'\n', &bytes[self.searched..]).map(|at| self.searched + at + 1);
        let end = line_ends.into_iter().find(|end| bytes[..*end].ends_with(b"\r\n\r\n"));
        match end {
            Some(end) => {
                let content_length = content_length(&bytes[..end])?;
                Ok(Some(FoundHeader { end, content_length }))
            }
            None if bytes.len() == HEADER_MAX => Err(FramingFault::HeaderTooLong),
            None => {
                self.searched = bytes.len();
                Ok(None)
            }
        }
    }
}

/// Whether the first line is complete. Of an incomplete line, the present bytes are checked. The first line has no end
/// before `searched`.
fn check_first_line(bytes: &[u8], searched: usize) -> Result<bool, FramingFault> {
    let Some(end) = memchr::memchr(b'\n', &bytes[searched..]) else {
        let may_begin = start::may_begin(&bytes[..bytes.len().min(BEGINNING)]);
        return if may_begin { Ok(false) } else { Err(FramingFault::NotSip) };
    };
    let line = &bytes[..searched + end];
    let text = line.strip_suffix(b"\r");
    match start::is_start_line(text.unwrap_or(line)) {
        true if text.is_some() => Ok(true),
        true => Err(FramingFault::LineEnd),
        false => Err(FramingFault::NotSip),
    }
}

/// Whether the first line of these bytes is a start line of SIP, or the beginning of a truncated one.
pub fn begins_message(bytes: &[u8]) -> bool {
    let bytes = &bytes[..bytes.len().min(HEADER_MAX)];
    let line = memchr::memchr(b'\n', bytes).map_or(bytes, |end| &bytes[..end]);
    start::is_start_line(line.strip_suffix(b"\r").unwrap_or(line))
}

/// Positions of the values of Content-Length in a header, which includes its start line.
pub fn content_lengths(header: &[u8]) -> impl Iterator<Item = Span> {
    let fields = memchr::memchr(b'\n', header).map_or(header.len(), |end| end + 1);
    Lines::new(header, fields as u32).named(Name::ContentLength).map(|line| line.trimmed(header))
}

/// The number in all Content-Lengths of the header, which must be equal.
fn content_length(header: &[u8]) -> Result<Option<u32>, FramingFault> {
    let mut found = None;
    for value in content_lengths(header) {
        let length = content_length::parse(value.of(header));
        let length = length.map_err(|_| FramingFault::MalformedContentLength)?;
        if found.is_some_and(|other| other != length) {
            return Err(FramingFault::DifferentContentLengths);
        }
        found = Some(length);
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
