//! Eviction when there is no room for more sessions or transactions.
//!
//! The ended session whose last message is the oldest is evicted first, then the oldest unanswered session, since a
//! flood of INVITEs consists of unanswered sessions. An honest session among them loses little. Its retransmissions may
//! go to another node, its CANCEL goes to all nodes, and its 2xx finds its path by the token. A session whose call
//! rings or was answered is never evicted. Each step takes constant time, since timers of one length are in the order
//! in which they were set.

use crate::EndReason;
use crate::assignment::Assignment;
use crate::session::SessionState;
use crate::store::SessionStore;

impl SessionStore {
    /// Whether there is room for the assignment, or room can be made.
    pub(crate) fn has_room(&self, assignment: &Assignment) -> bool {
        self.table.len() < self.settings.max_sessions || !assignment.enters() || self.oldest().is_some()
    }

    /// Makes room for the assignment, if possible.
    pub(crate) fn make_room(&mut self, assignment: &Assignment) {
        let most = self.settings.max_sessions;
        if assignment.enters() {
            // Evicts two sessions for one new session, since after the limit was lowered there may be more sessions
            // than allowed.
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

    /// Whether the state of a session allows its eviction: it has no answered call in progress.
    pub(crate) fn may_go(&self, at: u32) -> bool {
        matches!(
            self.table.get(at).state,
            SessionState::Plain | SessionState::Invited | SessionState::Expired
        )
    }
}
