//! Messages that wait for room in the rings to the threads whose connections they leave by.

use super::handover::{Handed, Sender};
use base::Flow;
use std::collections::VecDeque;

/// Bytes that may wait for room in rings.
const LATE_MOST: usize = 4 << 20;

/// Messages that leave by connections of other threads, whose rings are full. On a connection nobody sends them again.
#[derive(Debug, Default)]
pub(crate) struct LateSends {
    waiting: VecDeque<(usize, Flow, Box<[u8]>)>,
    bytes: usize,
}

impl LateSends {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Hands a message over, or keeps it behind those that wait; `false`: there is no room for it.
    pub(super) fn push(
        &mut self,
        rings: &mut [Option<Sender>],
        thread: usize,
        flow: Flow,
        bytes: &[u8],
    ) -> bool {
        let mut hand = || rings[thread].as_mut().is_some_and(|ring| ring.push(&Handed::Send { flow, bytes }));
        if self.waiting.is_empty() && hand() {
            return true;
        }
        let fits = self.bytes + bytes.len() <= LATE_MOST;
        if fits {
            self.bytes += bytes.len();
            self.waiting.push_back((thread, flow, bytes.into()));
        }
        fits
    }

    /// Hands over what there is room for by now, in order.
    pub(super) fn retry(&mut self, rings: &mut [Option<Sender>]) {
        while let Some((thread, flow, bytes)) = self.waiting.front() {
            let handed = Handed::Send { flow: *flow, bytes };
            if !rings[*thread].as_mut().is_some_and(|ring| ring.push(&handed)) {
                return;
            }
            self.bytes -= bytes.len();
            self.waiting.pop_front();
        }
    }
}
