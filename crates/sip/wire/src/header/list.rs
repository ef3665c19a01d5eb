//! Values of header fields that may hold several: comma lists, and several lines in a row or apart.

use crate::Span;
use crate::header::Name;
use crate::line::{Line, Lines};

/// The lines of one header field, as the scan met them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Group {
    /// Start of the first line.
    pub(crate) first: u32,
    /// How many lines; nothing is looked for when it is 0, nor behind the last one.
    pub(crate) lines: u32,
}

impl Group {
    pub(crate) fn add(&mut self, line: &Line) {
        if self.lines == 0 {
            self.first = line.start;
        }
        self.lines += 1;
    }

    /// The lines of field `name`, first to last.
    pub(crate) fn lines(self, bytes: &[u8], name: Name) -> impl Iterator<Item = Line> + Clone {
        Lines::new(bytes, self.first).named(name).take(self.lines as usize)
    }

    /// The values of field `name`, read one after the other by `read`, which gets what is left of a line's value and
    /// gives the value it read and the start of the next one. A line is given up after an error.
    pub(crate) fn values<T, E>(
        self,
        bytes: &[u8],
        name: Name,
        read: impl Fn(Span) -> Result<(T, Option<u32>), E> + Copy,
    ) -> impl Iterator<Item = Result<T, E>> {
        self.lines(bytes, name).flat_map(move |line| {
            let whole = line.trimmed(bytes);
            let mut rest = Some(whole);
            std::iter::from_fn(move || {
                let span = rest.take()?;
                Some(read(span).map(|(value, next)| {
                    rest = next.map(|start| Span { start, end: whole.end });
                    value
                }))
            })
        })
    }
}
