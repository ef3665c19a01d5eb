//! Edits of a message as splices over its bytes, applied when the message is sent.

use std::net::SocketAddr;

use crate::Span;
use crate::line::{Line, Lines};
use crate::message::Message;
use crate::start::Start;
use crate::target;
use crate::text;

/// Replaces `deleted` bytes at `at` by a range of [`Edits::text`].
#[derive(Clone, Copy)]
struct Splice {
    at: u32,
    deleted: u32,
    inserted: Span,
    /// Whether it was made from [`Edits::routes`], and is replaced when that changes.
    is_route: bool,
}

/// Changes of the Route list.
#[derive(Clone, Copy, Default)]
struct RouteEdits {
    /// Values to remove at the front.
    front: usize,
    /// Values to remove at the back.
    back: usize,
    /// Value to add after the last one.
    appended: Option<Span>,
}

/// Edits of one message, without the message. An owner of the message's bytes keeps the edited message in no more
/// memory than the edits take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Patch {
    replacements: Vec<Replacement>,
    /// Inserted bytes, in order.
    text: Vec<u8>,
    odd_version: bool,
    is_response: bool,
}

/// Replacement of the bytes `from..to` of the message by the bytes of [`Patch::text`] up to `inserted_to`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Replacement {
    from: u32,
    to: u32,
    inserted_to: u32,
}

impl Patch {
    /// Appends the edited message to `out`. `bytes` is the message that the edits were made for.
    pub fn apply(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let (mut done, mut inserted) = (0, 0);
        for next in &self.replacements {
            out.extend_from_slice(&bytes[done..next.from as usize]);
            out.extend_from_slice(&self.text[inserted..next.inserted_to as usize]);
            (done, inserted) = (next.to as usize, next.inserted_to as usize);
        }
        out.extend_from_slice(&bytes[done..]);
        if self.odd_version {
            write_version(self.is_response, &mut out[start..]);
        }
    }

    /// Memory of the patch, in bytes.
    pub fn memory(&self) -> usize {
        self.text.capacity() + self.replacements.capacity() * size_of::<Replacement>()
    }
}

/// Edits to one message, collected and then rendered in one pass.
///
/// Every editing method takes the message, which must be the same one until [`Edits::clear`]. The body is never
/// changed. A value can be reused, so that editing does not allocate once its buffers have grown.
#[derive(Default)]
pub struct Edits {
    /// Inserted bytes of all splices.
    text: Vec<u8>,
    /// Sorted by position. At one position insertions come before a deletion, and the later of two insertions first.
    splices: Vec<Splice>,
    routes: RouteEdits,
}

impl Edits {
    /// Makes an empty set of edits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all edits, to start with another message.
    pub fn clear(&mut self) {
        self.text.clear();
        self.splices.clear();
        self.routes = RouteEdits::default();
    }

    /// Adds a Via on top (RFC 3261 §16.6 step 8); `via` is the value, such as
    /// `SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1`.
    pub fn push_via(&mut self, m: &Message<'_>, via: &[u8]) {
        self.insert_line(m.fields.via_line.start, "Via: ", via);
    }

    /// Removes the topmost Via value (RFC 3261 §16.7 step 3), and its line if it holds no other value.
    pub fn pop_via(&mut self, m: &Message<'_>) {
        let span = match m.fields.via_next {
            Some(next) => Span { start: m.top_via.value.start, end: next },
            None => m.fields.via_line,
        };
        self.splice(span, Span::default(), false);
    }

    /// Adds a Record-Route value on top (RFC 3261 §16.6 step 4); `value` is a complete value, such as
    /// `<sip:192.0.2.1;lr>`. Of several values, the last one pushed is topmost.
    pub fn push_record_route(&mut self, m: &Message<'_>, value: &[u8]) {
        let existing = m.fields.record_route;
        let at = if existing.lines > 0 { existing.first } else { m.fields.via_line.start };
        self.insert_line(at, "Record-Route: ", value);
    }

    /// Removes the first `n` Route values that are left (RFC 3261 §16.4, §16.6 step 6).
    pub fn pop_route(&mut self, m: &Message<'_>, n: usize) {
        self.routes.front += n;
        self.splice_routes(m);
    }

    /// Removes the last Route value, which a strict router before us has added (RFC 3261 §16.4).
    pub fn pop_last_route(&mut self, m: &Message<'_>) {
        self.routes.back += 1;
        self.splice_routes(m);
    }

    /// Adds a Route value after all others, for a strict router behind us (RFC 3261 §16.6 step 6); `value` is a
    /// complete value, such as `<sip:bob@192.0.2.4>`. At most once for each message.
    pub fn append_route(&mut self, m: &Message<'_>, value: &[u8]) {
        self.routes.appended = Some(self.store(&[value]));
        self.splice_routes(m);
    }

    /// Replaces the Request-URI; no effect on a response.
    pub fn set_uri(&mut self, m: &Message<'_>, uri: &[u8]) {
        if let Start::Request { uri: old, .. } = m.start {
            let new = self.store(&[uri]);
            self.splice(old, new, false);
        }
    }

    /// Replaces a part of the header, which must be a slice of the message's own bytes.
    pub fn replace(&mut self, m: &Message<'_>, part: &[u8], new: &[u8]) {
        let start = part.as_ptr().addr().wrapping_sub(m.bytes.as_ptr().addr());
        let fits = m.bytes.len().checked_sub(part.len()).is_some_and(|last| start <= last);
        assert!(fits, "no part of the message");
        let new = self.store(&[new]);
        self.splice(Span::new(start, start + part.len()), new, false);
    }

    /// Sets Max-Forwards, or adds the header field if it is missing (RFC 3261 §16.6 step 3).
    pub fn set_max_forwards(&mut self, m: &Message<'_>, n: u32) {
        self.set_number(m, "Max-Forwards: ", m.fields.max_forwards, n);
    }

    /// Sets Max-Breadth, or adds the header field if it is missing (RFC 5393 §5.3.3).
    pub fn set_max_breadth(&mut self, m: &Message<'_>, n: u32) {
        self.set_number(m, "Max-Breadth: ", m.fields.max_breadth, n);
    }

    fn set_number(&mut self, m: &Message<'_>, name: &str, old: Option<(u32, Span)>, n: u32) {
        let mut digits = [0; text::DIGITS_MAX];
        let number = text::decimal(n, &mut digits);
        match old {
            Some((_, old)) => {
                let new = self.store(&[number]);
                self.splice(old, new, false);
            }
            None => self.insert_line(m.fields.via_line.start, name, number),
        }
    }

    /// Adds a header field after all others. Line ends within the value become spaces.
    pub fn add_header(&mut self, m: &Message<'_>, name: &str, value: &[u8]) {
        let start = self.text.len();
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_slice(b": ");
        text::push_unfolded(value, &mut self.text);
        self.text.extend_from_slice(b"\r\n");
        let line = Span::new(start, self.text.len());
        // Position of the empty line; before it, fields stay in the order in which they were added.
        let at = m.body - 2;
        let splice = Splice { at, deleted: 0, inserted: line, is_route: false };
        let index = self.splices.partition_point(|s| (s.at, s.deleted > 0) <= (at, false));
        self.splices.insert(index, splice);
    }

    /// Removes every header field whose name, as written, satisfies `is_unwanted`, but for fields that other edits
    /// change.
    pub fn remove_headers(&mut self, m: &Message<'_>, is_unwanted: impl Fn(&[u8]) -> bool) {
        self.remove_fields(m, |name, _| is_unwanted(name));
    }

    /// Removes every header field whose name and value satisfy `is_unwanted`.
    pub fn remove_fields(&mut self, m: &Message<'_>, is_unwanted: impl Fn(&[u8], &[u8]) -> bool) {
        let is_unwanted = |line: &Line| is_unwanted(line.name.of(m.bytes), line.trimmed(m.bytes).of(m.bytes));
        for line in Lines::new(m.bytes, m.header).filter(is_unwanted) {
            self.splice(line.whole(), Span::default(), false);
        }
    }

    /// Notes the source of the request in the topmost Via: `received` and `rport` (RFC 3261 §18.2.1, RFC 3581 §4).
    pub fn mark_received(&mut self, m: &Message<'_>, source: SocketAddr) {
        for (at, piece) in target::mark(&m.top_via, source) {
            let new = self.store(&[&piece]);
            self.splice(at, new, false);
        }
    }

    /// Appends the edited message to `out`.
    pub fn render(&self, m: &Message<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        let mut done = 0;
        for splice in self.effective() {
            out.extend_from_slice(&m.bytes[done..splice.at as usize]);
            out.extend_from_slice(splice.inserted.of(&self.text));
            done = (splice.at + splice.deleted) as usize;
        }
        out.extend_from_slice(&m.bytes[done..]);
        if m.odd_version.is_some() {
            write_version(is_response(m), &mut out[start..]);
        }
    }

    /// Length of the edited message, in bytes.
    pub fn length(&self, m: &Message<'_>) -> usize {
        let deleted: usize = self.effective().map(|splice| splice.deleted as usize).sum();
        let inserted: usize = self.effective().map(|splice| splice.inserted.of(&self.text).len()).sum();
        m.bytes.len() - deleted + inserted
    }

    /// Upper bound of [`length`](Self::length), at constant cost.
    pub fn longest(&self, m: &Message<'_>) -> usize {
        m.bytes.len() + self.text.len()
    }

    /// Returns the edits apart from the message, to be applied to its bytes several times.
    pub fn patch(&self, m: &Message<'_>) -> Patch {
        let mut patch = Patch {
            replacements: Vec::with_capacity(self.splices.len()),
            text: Vec::with_capacity(self.text.len()),
            odd_version: m.odd_version.is_some(),
            is_response: is_response(m),
        };
        for splice in self.effective() {
            patch.text.extend_from_slice(splice.inserted.of(&self.text));
            let inserted_to = patch.text.len() as u32;
            patch.replacements.push(Replacement {
                from: splice.at,
                to: splice.at + splice.deleted,
                inserted_to,
            });
        }
        patch
    }

    /// Splices in order, without those inside a deleted range.
    fn effective(&self) -> impl Iterator<Item = &Splice> {
        let mut done = 0;
        self.splices.iter().filter(move |splice| {
            let counts = splice.at >= done;
            if counts {
                done = splice.at + splice.deleted;
            }
            counts
        })
    }

    /// Adds a header line at `at`, the start of another line.
    fn insert_line(&mut self, at: u32, name: &str, value: &[u8]) {
        let line = self.store(&[name.as_bytes(), value, b"\r\n"]);
        self.splice(Span { start: at, end: at }, line, false);
    }

    fn store(&mut self, parts: &[&[u8]]) -> Span {
        let start = self.text.len();
        for part in parts {
            self.text.extend_from_slice(part);
        }
        Span::new(start, self.text.len())
    }

    fn splice(&mut self, old: Span, inserted: Span, is_route: bool) {
        let splice = Splice { at: old.start, deleted: old.end - old.start, inserted, is_route };
        let key = |s: &Splice| (s.at, s.deleted > 0);
        let index = self.splices.partition_point(|s| key(s) < key(&splice));
        match self.splices.get_mut(index) {
            // A second edit of the same range replaces the first.
            Some(same) if splice.deleted > 0 && key(same) == key(&splice) => *same = splice,
            _ => self.splices.insert(index, splice),
        }
    }

    /// Turns [`Edits::routes`] into splices, in place of the former ones.
    fn splice_routes(&mut self, m: &Message<'_>) {
        self.splices.retain(|splice| !splice.is_route);
        let RouteEdits { front, back, appended } = self.routes;
        let kept_end = m.routes.count.saturating_sub(back);
        // Index of the current value, and the end of the last value that is kept.
        let (mut index, mut last_kept) = (0, None);
        let mut values = m.routes.values(m.bytes).peekable();
        while let Some((_, line)) = values.peek().copied() {
            if index >= front && back == 0 && appended.is_none() {
                // All lines from here on stay as they are.
                break;
            }
            // Range of this line's values to keep; they are adjacent, so the first and the last suffice.
            let (mut first, mut last, mut kept) = (None, 0, None::<Span>);
            while let Some((route, _)) = values.next_if(|(_, of)| *of == line) {
                first.get_or_insert(route.value.start);
                last = route.value.end;
                if (front..kept_end).contains(&index) {
                    let start = kept.map_or(route.value.start, |k| k.start);
                    kept = Some(Span { start, end: route.value.end });
                }
                index += 1;
            }
            match (first, kept) {
                (Some(first), Some(kept)) => {
                    self.remove_route(Span { start: first, end: kept.start });
                    self.remove_route(Span { start: kept.end, end: last });
                    last_kept = Some(kept.end);
                }
                _ => self.remove_route(line),
            }
        }
        let Some(value) = appended else { return };
        let routes = m.routes.group;
        let (at, before, after): (u32, &[u8], &[u8]) = match last_kept {
            Some(at) => (at, b", ", b""),
            None if routes.lines > 0 => (routes.first, b"Route: ", b"\r\n"),
            None => (m.fields.via_line.start, b"Route: ", b"\r\n"),
        };
        let start = self.text.len();
        self.text.extend_from_slice(before);
        self.text.extend_from_within(value.start as usize..value.end as usize);
        self.text.extend_from_slice(after);
        let text = Span::new(start, self.text.len());
        self.splice(Span { start: at, end: at }, text, true);
    }

    fn remove_route(&mut self, span: Span) {
        if !span.is_empty() {
            self.splice(span, Span::default(), true);
        }
    }
}

fn is_response(m: &Message<'_>) -> bool {
    matches!(m.start, Start::Response { .. })
}

/// RFC 3261 §7.1: the SIP version is accepted in any case, but sent in upper case.
fn write_version(is_response: bool, rendered: &mut [u8]) {
    let end = if is_response { 7 } else { memchr::memchr(b'\r', rendered).unwrap_or_default() };
    if let Some(at) = end.checked_sub(7) {
        rendered[at..end].copy_from_slice(b"SIP/2.0");
    }
}
