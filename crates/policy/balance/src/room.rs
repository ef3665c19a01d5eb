//! What goes when there is no room for more sessions or transactions.
//!
//! First the ended session that was last heard of longest ago. Then the oldest session that nobody has answered: a
//! flood of INVITEs that nobody answers consists of these. If an honest one is among them, little is lost: its
//! repetitions may go to another node, its CANCEL is searched for, and its 2xx goes its way by the token. A session
//! whose call rings or was answered never goes. Each step takes constant time, since timers of one length are in the
//! order in which they were set.

use crate::EndReason;
use crate::assignment::Assignment;
use crate::session::SessionState;
use crate::store::SessionStore;

impl SessionStore {
    /// Whether there is room for what is planned, or can be made.
    pub(crate) fn has_room(&self, assignment: &Assignment) -> bool {
        self.table.len() < self.settings.max_sessions || !assignment.enters() || self.oldest().is_some()
    }

    /// Makes room for what is planned, as far as it can be.
    pub(crate) fn make_room(&mut self, assignment: &Assignment) {
        let most = self.settings.max_sessions;
        if assignment.enters() {
            // Two for one, since there may be more than the limit after it was lowered.
            for _ in 0..2 {
                if self.table.len() < most {
                    break;
                }
                self.evict(self.oldest());
            }
        }
        if assignment.opens() && self.open_transactions() >= most {
            self.evict(self.oldest_unanswered().filter(|&at| assignment.session != Some(at)));
        }
    }

    fn oldest(&self) -> Option<u32> {
        self.table.oldest_ended().or_else(|| self.oldest_unanswered())
    }

    fn evict(&mut self, session: Option<u32>) {
        if let Some(at) = session {
            let session = self.table.remove(at);
            self.forget(session, EndReason::Evicted);
        }
    }

    /// Whether no call of a session rings or was answered.
    pub(crate) fn is_unanswered(&self, at: u32) -> bool {
        self.may_go(at) && !self.open_of(at).any(|(_, open)| open.rings())
    }

    /// Whether no call of the session is under way that was answered.
    pub(crate) fn may_go(&self, at: u32) -> bool {
        matches!(
            self.table.get(at).state,
            SessionState::Plain | SessionState::Invited | SessionState::Expired
        )
    }
}
