//! How many calls there may be: those that go on, and beside them those that have ended and are remembered.

use super::Calls;
use crate::call::Call;

/// Calls that have ended of which so many are remembered at least, until nothing more of them may come: 32 s (64*T1) at 1,000 a
/// second, some 32 MB.
pub(super) const ENDED: usize = 32_768;

impl Calls {
    /// Whether a call of this name goes on, or there is room for it.
    pub fn has_room(&self, call: u64) -> bool {
        self.open < self.settings.most || self.find(call).is_some_and(|at| self.table[at].is_open())
    }

    /// Counts a call as one of those that go on, or no more. Of those that have ended, as many are remembered as may go on, at
    /// least [`ENDED`].
    pub(super) fn count(&mut self, at: u32) {
        let call = &mut self.table[at];
        let (is_open, key) = (call.is_open(), call.key);
        let before = core::mem::replace(&mut call.is_counted, is_open);
        match (before, is_open) {
            (false, true) => self.open += 1,
            (true, false) => {
                self.open -= 1;
                self.endings += 1;
                call.ending = self.endings;
                self.ended.push_back((key, self.endings));
                while self.ended.len() > self.settings.most.max(self.most_ended) {
                    self.forget_oldest();
                }
            }
            _ => {}
        }
    }

    /// Forgets the call that ended first, unless it goes on again or has ended once more since: calls of one Call-ID and caller's
    /// tag have one key.
    fn forget_oldest(&mut self) {
        let Some((key, ending)) = self.ended.pop_front() else { return };
        let is_it = |call: &Call| call.ending == ending && !call.is_open();
        if let Some(at) = self.find(key).filter(|at| is_it(&self.table[*at])) {
            self.remove(at);
        }
    }
}
