//! Limits of the number of calls: active ones, watched ones, and ended ones that are remembered.

use super::Calls;
use crate::call::{Call, CallCategory, Phase};

/// Least number of ended calls that are remembered until no more messages of them may arrive: as many as end in 32 s
/// (64*T1) at 1,000 calls a second. They take some 32 MB.
pub(super) const ENDED: usize = 32_768;

/// Divisor: at most a fourth of the limit of active calls may be watched dialogs. Beyond this number the oldest watched
/// dialog ends for good.
const WATCHED_PART: usize = 4;

impl Calls {
    /// Whether a call with this key is active, or there is room for it.
    pub fn has_room(&self, call: u64) -> bool {
        self.open < self.settings.most || self.find(call).is_some_and(|at| self.table[at].goes_on())
    }

    /// Counts a call in its present category. A watched call that becomes active is counted even beyond the limit. The
    /// number of ended calls that are remembered is the limit of active calls, at least [`ENDED`].
    pub(super) fn count(&mut self, at: u32) {
        let call = &mut self.table[at];
        let (standing, key) = (call.current_category(), call.key);
        let before = core::mem::replace(&mut call.category, standing);
        self.open += usize::from(standing == CallCategory::Active);
        self.open -= usize::from(before == CallCategory::Active);
        if standing == CallCategory::Over && before != CallCategory::Over {
            self.endings += 1;
            call.ending = self.endings;
            self.ended.push_back((key, self.endings));
            while self.ended.len() > self.settings.most.max(self.most_ended) {
                self.forget_oldest();
            }
        }
    }

    /// Removes the call that ended first, unless it is active again or has ended once more. Calls with the same Call-ID
    /// and caller's tag have one key.
    fn forget_oldest(&mut self) {
        let Some((key, ending)) = self.ended.pop_front() else { return };
        let is_it = |call: &Call| call.ending == ending && call.current_category() == CallCategory::Over;
        if let Some(at) = self.find(key).filter(|at| is_it(&self.table[*at])) {
            self.remove(at);
        }
    }

    /// Ends watched dialogs beyond the limit for good, oldest first.
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
            self.emit_record((at, key.tag), (end.at, end.by, end.cause, end.bye_status), true);
            self.table[at].dialogs.retain(|dialog| dialog.tag != key.tag);
            self.set_timer_or_remove(at);
        }
    }
}
