//! Effects of a response on its transaction, its session and the state of its node.

use super::{SessionStore, ewma};
use crate::outlier::Outcome;
use crate::session::NONE;
use crate::transaction::{FirstAnswer, Success};
use crate::{CallKey, Direction, EndReason, Response, SessionState, Sign, Slot, Tags};
use base::Instant;
use wire::Method;

impl SessionStore {
    /// Records a response. A provisional response prolongs an INVITE; a final response ends its transaction. Returns
    /// the transaction if it succeeded.
    pub(crate) fn respond(&mut self, now: Instant, response: &Response) -> Option<Success> {
        let id = response.into();
        let is_open = |at| self.find(at, &id).is_some();
        let at = self.table.find_of(response.key, response.tags, is_open)?;
        let Some(key) = self.find(at, &id) else {
            self.revive(now, at, response);
            return None;
        };
        let open = &mut self.transactions[key];
        let slot = open.lease.slot();
        let is_first = !core::mem::replace(&mut open.answered, true);
        if is_first && open.fresh && open.id.method == Method::Invite {
            self.evidence[slot.index()].serves(now);
            if let Some(answers) = &mut self.first_answers {
                let took = now.saturating_since(open.started);
                answers.push(FirstAnswer { slot, sent: open.started, took });
            }
        }
        let guarded = (open.id.method, open.started);
        if !self.leases.is_live(&open.lease) {
            // Transactions from before the node's death do not count.
        } else if open.fresh {
            self.guards.answered(now, slot, guarded, response.status, is_first);
        } else if is_first && open.id.direction == Direction::ToPool && response.status >= 200 {
            self.guards.noted(now, slot, guarded);
        }
        if let Some(outcome) = Outcome::of(response.status) {
            self.tally(now, key, outcome);
        }
        let open = &mut self.transactions[key];
        if response.status < 200 {
            // RFC 3261 §16.7 step 2: each provisional response above 100 restarts Timer C.
            let waits = open.id.method == Method::Invite && !open.cancelled;
            open.progressed |= response.status > 100;
            if open.rings() {
                self.keep(at);
            }
            if waits {
                self.reset_timer(key, now + self.settings.invite_timeout);
            }
            return None;
        }
        let (started, begins, dialog) = (open.started, open.begins, open.dialog);
        let success = response.status < 300;
        let (timer, unanswered) = (open.timer, open.unanswered);
        self.wheel(unanswered).cancel(timer);
        self.note_memory(at, slot, dialog, response);
        if success {
            self.close(key, EndReason::Success);
        } else {
            self.close_failed(now, key, response.status);
        }
        if begins && success {
            self.mean_success = ewma(self.mean_success, now.saturating_since(started));
        }
        if success {
            self.stats[slot.index()].answered(response.method, now.saturating_since(started));
        }
        self.table.get_mut(at).challenged = matches!(response.status, 401 | 407);
        if begins && success {
            self.answer(now, at, response.tags.dialog());
        } else {
            self.advance(now, at, (response.method, dialog), response.status);
        }
        success.then_some(Success { slot, started, begins })
    }

    /// Counts the outcome of a new request.
    pub(super) fn tally(&mut self, now: Instant, key: u32, outcome: Outcome) {
        let open = &self.transactions[key];
        let (slot, progressed) = (open.lease.slot(), open.progressed);
        // Ringing counts once, whatever the number of provisional responses that report it.
        let again = outcome == Outcome::Progress && progressed;
        if !open.fresh || again {
            return;
        }
        self.count_outcome(now, slot, outcome, progressed);
    }

    pub(super) fn count_outcome(&mut self, now: Instant, slot: Slot, outcome: Outcome, progressed: bool) {
        if let Some(tally) = self.evidence[slot.index()].ends(now, outcome, progressed) {
            self.signs.push(Sign::Tally { slot, tally });
        }
    }

    /// Clears the counts of refusals, since the node was restarted or its pause is over.
    pub(crate) fn forget_refusals(&mut self, slot: Slot) {
        let shared = self.leases.shared(slot);
        self.evidence[slot.index()].refusals.forget(shared);
    }

    /// Reports whether a node that came back still knows its calls, from its responses within their dialogs.
    pub(super) fn note_memory(&mut self, at: u32, slot: Slot, dialog: u32, response: &Response) {
        let session = self.table.get(at);
        let tells = response.direction == Direction::ToPool && response.method != Method::Prack;
        if tells && session.has_dialog(dialog) {
            let knows = response.status != 481;
            if self.evidence[slot.index()].is_memory(session.created, knows) {
                self.signs.push(Sign::Memory { slot, knows });
            }
        }
    }

    /// Restores a call whose INVITE was given up (after Timer C, a lost response to a CANCEL, or a restart), but now
    /// gets a 2xx. If the call was answered before, the 2xx is a late retransmission.
    pub(super) fn revive(&mut self, now: Instant, at: u32, response: &Response) {
        let success = response.method == Method::Invite && (200..300).contains(&response.status);
        if success && self.table.get(at).was_never_answered() {
            self.answer(now, at, response.tags.dialog());
        }
    }

    /// Handles the 2xx to a dialog-forming INVITE.
    pub(super) fn answer(&mut self, now: Instant, at: u32, dialog: u32) {
        let session = self.table.get_mut(at);
        session.proven = true;
        // If the call passes this proxy twice, the same tags come twice. This is one dialog, with one BYE.
        session.add_dialog(dialog);
        if matches!(session.state, SessionState::Answered | SessionState::Confirmed | SessionState::Closing) {
            return;
        }
        self.set_state(now, at, SessionState::Answered);
        self.take_call(at, None);
    }

    /// Updates the session for a final response (408 for a time-out) to a request with this method in this dialog.
    pub(super) fn advance(&mut self, now: Instant, at: u32, (method, dialog): (Method, u32), status: u16) {
        let state = self.table.get(at).state;
        let success = status < 300;
        // After a challenge, the same request comes again with credentials.
        let challenged = matches!(status, 401 | 407);
        match (method, state) {
            // The call was forked upstream. It lives as long as one of its branches.
            (Method::Invite, SessionState::Invited) if self.is_inviting(at) => {}
            (Method::Invite, SessionState::Invited) => self.finish(now, at),
            (Method::Bye, SessionState::Answered | SessionState::Confirmed | SessionState::Closing)
                if !challenged =>
            {
                self.end_dialog(now, at, dialog);
            }
            // CANCEL and PRACK get 481 when their transaction is unknown (RFC 3261 §9.2, RFC 3262 §3); the dialog
            // continues.
            (Method::Cancel | Method::Prack, SessionState::Answered | SessionState::Confirmed) => {}
            // The other side does not know the dialog (RFC 3261 §12.2.1.2: the dialog is over).
            (_, SessionState::Answered | SessionState::Confirmed) if status == 481 => {
                self.end_dialog(now, at, dialog);
            }
            // The call was known only from a token. The response shows that the other side also knows the dialog.
            (_, SessionState::Confirmed) if success && self.is_unproven(at, dialog) => {
                self.table.get_mut(at).proven = true;
                self.set_state(now, at, SessionState::Confirmed);
            }
            // The session had ended here, but the call continues.
            (Method::Invite, SessionState::Plain) if success => self.answer(now, at, dialog),
            (_, SessionState::Plain) => {
                // The BYE ends a call that was known only from its token. The call existed, so late messages of it do
                // not start a new one.
                self.table.get_mut(at).proven |= method == Method::Bye && !challenged;
                if self.table.get(at).first == NONE {
                    self.finish(now, at);
                }
            }
            _ => {}
        }
    }

    /// Whether this dialog of the call is known only from a token.
    pub(super) fn is_unproven(&self, at: u32, dialog: u32) -> bool {
        let session = self.table.get(at);
        !session.proven && session.has_dialog(dialog)
    }

    /// Ends a dialog of the call. The call ends when no other dialog is answered or still rings.
    pub(super) fn end_dialog(&mut self, now: Instant, at: u32, dialog: u32) {
        let session = self.table.get_mut(at);
        if !session.remove_dialog(dialog) {
            return;
        }
        if session.has_dialogs() {
            self.set_state(now, at, SessionState::Confirmed);
        } else if self.is_inviting(at) {
            self.set_state(now, at, SessionState::Invited);
        } else {
            // The ACK to a late request that was answered 481 does not start the call again.
            self.table.get_mut(at).proven = true;
            self.finish(now, at);
        }
    }

    /// Ends the dialog with these tags.
    pub(crate) fn end_dialog_of(&mut self, now: Instant, call: CallKey, tags: Tags) {
        let has_dialog = |at| self.table.get(at).has_dialog(tags.dialog());
        if let Some(at) = self.table.find_of(call, tags, has_dialog) {
            self.end_dialog(now, at, tags.dialog());
        }
    }

    /// Reopens the ended dialog with these tags.
    pub(crate) fn resume_dialog_of(&mut self, now: Instant, call: CallKey, tags: Tags) {
        let has_dialog = |at| self.table.get(at).has_dialog(tags.dialog());
        if let Some(at) = self.table.find_of(call, tags, has_dialog) {
            self.answer(now, at, tags.dialog());
        }
    }
}
