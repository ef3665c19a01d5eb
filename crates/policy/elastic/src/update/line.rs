//! Splits bytes into lines, in fixed memory.

use super::UpdateRefusal;

/// Longest line in bytes, including its end. The longest update has 368.
pub const LINE_MAX: usize = 512;

/// Received but unread bytes of a connection.
///
/// Call [`room`](Self::room), [`filled`](Self::filled), then [`next`](Self::next) until it returns no line.
#[derive(Debug, Clone)]
pub struct Lines {
    bytes: [u8; LINE_MAX],
    start: usize,
    end: usize,
}

impl Default for Lines {
    fn default() -> Self {
        Self { bytes: [0; LINE_MAX], start: 0, end: 0 }
    }
}

impl Lines {
    /// Buffer for the next bytes; empty once a line is too long.
    pub fn room(&mut self) -> &mut [u8] {
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        &mut self.bytes[self.end..]
    }

    /// Records that `count` bytes were written into the room.
    pub fn filled(&mut self, count: usize) {
        self.end = (self.end + count).min(LINE_MAX);
    }

    /// Next whole line, without its end.
    ///
    /// # Errors
    /// If the line is too long; no more lines can be read.
    #[expect(
        clippy::should_implement_trait,
        reason = "the returned line borrows from the buffer, which an iterator cannot express"
    )]
    pub fn next(&mut self) -> Result<Option<&[u8]>, UpdateRefusal> {
        let waiting = &self.bytes[self.start..self.end];
        match waiting.iter().position(|byte| *byte == b'\n') {
            Some(length) => {
                let start = self.start;
                self.start += length + 1;
                Ok(Some(&self.bytes[start..start + length]))
            }
            None if waiting.len() == LINE_MAX => Err(UpdateRefusal::TooLong),
            None => Ok(None),
        }
    }
}
