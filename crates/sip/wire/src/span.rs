//! Byte ranges of a message.

/// Half-open byte range of a message; offsets count from the message's first byte.
///
/// Offsets are `u32`, so a span has half the size of a slice. A scanned message has about a dozen spans.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset after the last byte.
    pub end: u32,
}

impl Span {
    /// Makes a range of a message. [`crate::scan()`] has checked that the message is not longer than
    /// [`crate::MAX_LEN`].
    pub(crate) fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end && u32::try_from(end).is_ok());
        Self { start: start as u32, end: end as u32 }
    }

    /// Returns the bytes in this range. `bytes` is the message to which the span belongs.
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }

    /// Length in bytes.
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether the range is empty.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}
