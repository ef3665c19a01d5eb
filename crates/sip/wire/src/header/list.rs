//! Values of header fields that may hold several: comma lists, and several lines, adjacent or not.

use crate::Span;
use crate::header::Name;
use crate::line::{Line, Lines};

/// Lines of one header field, as found by the scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Group {
    /// Start of the first line.
    pub(crate) first: u32,
    /// Number of lines. Searches stop after the last one; with 0 nothing is searched.
    pub(crate) lines: u32,
}

impl Group {
    pub(crate) fn add(&mut self, line: &Line) {
        if self.lines == 0 {
            self.first = line.start;
        }
        self.lines += 1;
    }

    /// Lines of field `name`, first to last.
    pub(crate) fn lines(self, bytes: &[u8], name: Name) -> impl Iterator<Item = Line> + Clone {
        Lines::new(bytes, self.first).named(name).take(self.lines as usize)
    }

    /// Values of field `name`, read one after the other by `read`. It gets the rest of a line's value, and returns the
    /// value and the start of the next one. The rest of a line is skipped after an error.
    pub(crate) fn values<T, E>(
        self,
        bytes: &[u8],
        name: Name,
        read: impl Fn(Span) -> Result<(T, Option<u32>), E> + Copy,
    ) -> impl Iterator<Item = Result<T, E>> {
        self.lines(bytes, name).flat_map(move |line| line_values(line.trimmed(bytes), read))
    }
}

/// Values of one line, read like [`Group::values`].
pub(crate) fn line_values<T, E>(
    whole: Span,
    read: impl Fn(Span) -> Result<(T, Option<u32>), E>,
) -> impl Iterator<Item = Result<T, E>> {
    let mut rest = Some(whole);
    std::iter::from_fn(move || {
        let span = rest.take()?;
        Some(read(span).map(|(value, next)| {
            rest = next.map(|start| Span { start, end: whole.end });
            value
        }))
    })
}
