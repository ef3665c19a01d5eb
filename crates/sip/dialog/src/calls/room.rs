//! How many calls there may be: those that go on, and beside them those that are watched, and those that have ended
//! and are remembered.

use super::Calls;
use crate::call::{Call, Phase, Standing};

/// Calls that have ended of which so many are remembered at least, until nothing more of them may come: 32 s (64*T1)
/// at 1,000 a second, some 32 MB.
pub(super) const ENDED: usize = 32_768;

/// Of as many calls as may go on, the part that may be watched beside them: then the oldest ends for good.
const WATCHED_PART: usize = 4;

impl Calls {
    /// Whether a call of this name goes on, or there is room for it.
    pub fn has_room(&self, call: u64) -> bool {
        self.open < self.settings.most || self.find(call).is_some_and(|at| self.table[at].goes_on())
    }

    /// Counts a call as what it is now. One that is watched and goes on after all is counted again, though there may
    /// be no room: it is there. Of those that have ended, as many are remembered as may go on, at least [`ENDED`].
    pub(super) fn count(&mut self, at: u32) {
        let call = &mut self.table[at];
        let (standing, key) = (call.stands(), call.key);
        let before = core::mem::replace(&mut call.standing, standing);
        self.open += usize::from(standing == Standing::GoesOn);
        self.open -= usize::from(before == Standing::GoesOn);
        if standing == Standing::Over && before != Standing::Over {
            self.endings += 1;
            call.ending = self.endings;
            self.ended.push_back((key, self.endings));
            while self.ended.len() > self.settings.most.max(self.most_ended) {
                self.forget_oldest();
            }
        }
    }

    /// Forgets the call that ended first, unless it goes on again or has ended once more since: calls of one Call-ID
    /// and caller's tag have one key.
    fn forget_oldest(&mut self) {
        let Some((key, ending)) = self.ended.pop_front() else { return };
        let is_it = |call: &Call| call.ending == ending && call.stands() == Standing::Over;
        if let Some(at) = self.find(key).filter(|at| is_it(&self.table[*at])) {
            self.remove(at);
        }
    }

    /// Ends for good those that are watched beyond what may be, the oldest first.
    pub(super) fn bound_watched(&mut self) {
        while self.watched.len() > self.settings.most.div_ceil(WATCHED_PART) {
            self.end_oldest_watched();
        }
    }

    fn end_oldest_watched(&mut self) {
        let Some((key, since)) = self.watched.pop_front() else { return };
        let Some(at) = self.find(key.call) else { return };
        if let Some(dialog) = self.table[at].dialog(key.tag)
            && let Phase::Watched(end) = dialog.phase
            && end.at == since
        {
            self.tell((at, key.tag), (end.at, end.by, end.cause, end.bye_status), true);
            self.table[at].dialogs.retain(|dialog| dialog.tag != key.tag);
            self.set_timer_or_remove(at);
        }
    }
}
