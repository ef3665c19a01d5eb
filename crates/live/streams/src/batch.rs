//! Messages read from connections and not handled so far.

use base::Flow;
use std::ops::Range;

/// Bytes that one turn may read before the messages are handled.
const FULL: usize = 256 << 10;
/// Messages that one turn may read.
const FULL_MESSAGES: usize = 256;

/// Messages in the order in which they were read.
#[derive(Debug, Default)]
pub struct StreamBatch {
    bytes: Vec<u8>,
    messages: Vec<(Flow, Range<usize>)>,
    /// Number of messages taken out.
    taken: usize,
}

impl StreamBatch {
    pub(super) fn push(&mut self, flow: Flow, message: &[u8]) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.messages.push((flow, from..self.bytes.len()));
    }

    /// Whether these messages must be handled before more are read.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= FULL || self.messages.len() >= FULL_MESSAGES
    }

    /// Whether half of this limit is reached.
    pub(super) fn is_half_full(&self) -> bool {
        self.bytes.len() >= FULL / 2 || self.messages.len() >= FULL_MESSAGES / 2
    }

    /// Number of messages left.
    pub fn len(&self) -> usize {
        self.messages.len() - self.taken
    }

    /// Whether all messages have been taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next message, which stays until it is [taken](Self::take).
    pub fn first(&self) -> Option<(Flow, &[u8])> {
        let (flow, range) = self.messages.get(self.taken)?;
        Some((*flow, &self.bytes[range.clone()]))
    }

    /// Removes the next message after it was handled.
    pub fn take(&mut self) {
        self.taken += 1;
        if self.taken >= self.messages.len() {
            self.bytes.clear();
            self.bytes.shrink_to(2 * FULL);
            self.messages.clear();
            self.taken = 0;
        }
    }
}
