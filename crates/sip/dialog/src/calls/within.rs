//! Requests within dialogs, and their responses.

use super::{Calls, DialogKey, ForwardedBye, Heard, Invited, cut, ends_at, new_call};
use crate::call::{Call, DialogEnds, DialogSide, End, LATE, Phase, Proof};
use crate::description::CallDescription;
use crate::record::{Accepted, CallStart, Cause};

use base::Instant;
use core::time::Duration;

impl Calls {
    /// Reports a request within a dialog. Returns the state of the dialog; `None` if it is unknown.
    pub fn heard(&mut self, now: Instant, key: DialogKey, by: DialogSide, cseq: u32) -> Option<Heard> {
        let at = self.find(key.call)?;
        let dialog = self.table[at].dialog(key.tag)?;
        dialog.heard = now;
        let last = &mut dialog.cseq[DialogEnds::index(by)];
        *last = (*last).max(cseq);
        let heard = if dialog.is_watched() { Heard::Watched } else { Heard::Known };
        self.set_timer(at);
        Some(heard)
    }

    /// Enters the dialog of a request from before a restart; `began` is its start by the token, in Unix seconds.
    ///
    /// Returns whether there is room for it.
    pub fn found(
        &mut self,
        now: Instant,
        key: DialogKey,
        about: CallDescription,
        tag: &[u8],
        began: u32,
    ) -> bool {
        let has_failed = self.failed.get(&key.call).is_some_and(|&then| now < then + LATE);
        let at = match self.find(key.call) {
            // This process has seen the start of the call, so the dialog was never confirmed, or belongs to another
            // call.
            Some(at) if matches!(self.table[at].began, CallStart::Seen(_)) => return true,
            Some(at) => at,
            None if has_failed => return true,
            None if !self.has_room(key.call) => {
                self.counts.refused += 1;
                return false;
            }
            None => {
                let invited = Invited { about, unix: began, cseq: 0, is_spiral: false };
                let call = new_call(now, key.call, &invited);
                self.insert(Call { passes: 0, began: CallStart::Token(began), ..call })
            }
        };
        let dialog = self.table[at].enter(now, key.tag, Phase::Confirmed);
        if let Some(dialog) =
            dialog.filter(|dialog| dialog.phase == Phase::Confirmed && dialog.accepted.is_none())
        {
            dialog.accepted = Some(Accepted { at: None, tag: tag.into() });
            self.counts.found += 1;
        }
        self.set_timer(at);
        true
    }

    /// Reports a BYE. The result is an argument of [`bye_answered`](Self::bye_answered).
    pub fn bye(
        &mut self,
        now: Instant,
        key: DialogKey,
        by: DialogSide,
        reason: &[u8],
        proof: Proof,
    ) -> ForwardedBye {
        let mut bye = ForwardedBye { by, since: now, is_proved: false };
        let Some(at) = self.find(key.call) else { return bye };
        let Some(dialog) = self.table[at].dialog(key.tag) else { return bye };
        bye.is_proved = dialog.reaches_side(by.other(), proof);
        let before = if let Phase::Watched(end) = dialog.phase { Some(end) } else { None };
        match &mut dialog.phase {
            // The response will show whether a watched dialog had ended.
            Phase::Confirmed | Phase::Watched(_) => {
                dialog.phase = Phase::Ending { by, since: now, status: 408, before };
                dialog.reason = cut(reason).into();
            }
            // The INVITE will still get its failure response.
            Phase::Early => self.cancelled(key.call, by, reason),
            // This BYE has crossed a BYE of this proxy.
            Phase::Tested { alive, .. } => alive[DialogEnds::index(by)] |= bye.is_proved,
            Phase::Over(_) => dialog.ends = None,
            Phase::Ending { .. } => {}
        }
        self.set_timer(at);
        bye
    }

    /// [15.1.1-1] Reports the final response to a BYE. A 2xx to a BYE that went to its target ends the dialog. After a
    /// challenge the BYE comes again. After any other response the dialog is watched, since both sides may still talk.
    pub fn bye_answered(&mut self, now: Instant, key: DialogKey, status: u16, bye: ForwardedBye) {
        let Some(at) = self.find(key.call) else { return };
        let Some(dialog) = self.table[at].dialog(key.tag) else { return };
        if matches!(status, 401 | 407) {
            if let Phase::Ending { status: told, .. } = &mut dialog.phase {
                *told = status;
            }
            return;
        }
        let before = match dialog.phase {
            Phase::Confirmed => None,
            Phase::Watched(end) => Some(end),
            Phase::Ending { before, .. } => before,
            Phase::Early | Phase::Tested { .. } | Phase::Over(_) => return,
        };
        let ForwardedBye { by, since, is_proved } = bye;
        let is_accepted = (200..300).contains(&status);
        // The end is the time of the BYE, unless both sides were active later.
        let end = End { at: since.max(dialog.alive), by: Some(by), cause: Cause::Bye, bye_status: status };
        match before {
            _ if is_accepted && is_proved => self.end((at, key.tag), now, end),
            // The other side had hung up before, so now both sides have hung up, whatever the response is.
            Some(End { by: Some(earlier), .. }) if earlier != by && is_proved => {
                self.end((at, key.tag), now, end);
            }
            // The same side repeats its unproved end, without new evidence.
            Some(earlier) if earlier.by == Some(by) && !is_accepted => {
                dialog.phase = Phase::Watched(earlier);
            }
            Some(earlier) => self.watch((at, key.tag), End { at: end.at.max(earlier.at), ..end }),
            None => self.watch((at, key.tag), end),
        }
        self.set_timer(at);
        self.bound_watched();
    }

    /// [8.2-4] Reports a 2xx to a session refresh request; `session` is the new interval from now. `contacts` are the
    /// contacts of caller and callee, if given, with their hashes as in [`DialogPath`](crate::DialogPath). [12.2.2-1]
    /// They become the remote targets if this request of `by` went to its target. The response of a third party says
    /// nothing about the callee.
    pub fn refreshed(
        &mut self,
        now: Instant,
        key: DialogKey,
        session: Option<Duration>,
        (by, proof): (DialogSide, Proof),
        contacts: [Option<(&[u8], u64)>; 2],
    ) {
        self.request_accepted(now, key);
        let Some(at) = self.find(key.call) else { return };
        let Some(dialog) = self.table[at].dialog(key.tag) else { return };
        (dialog.session, dialog.heard) = (ends_at(now, session), now);
        let is_led = dialog.reaches_side(by.other(), proof);
        for (side, told) in contacts.into_iter().enumerate() {
            let Some((contact, hash)) = told.filter(|_| is_led) else { continue };
            if let Some(way) = &mut dialog.ways[side] {
                way.contact = hash;
            }
            if let Some(ends) = &mut dialog.ends {
                ends.contacts[side] = contact.into();
            }
        }
        self.set_timer(at);
    }

    /// Reports a 2xx to a request within a dialog, which shows that both sides are active. Reopens a watched dialog.
    pub fn request_accepted(&mut self, now: Instant, key: DialogKey) {
        let Some(at) = self.find(key.call) else { return };
        let Some(dialog) = self.table[at].dialog(key.tag) else { return };
        dialog.alive = now;
        dialog.phase = match dialog.phase {
            Phase::Watched(_) => Phase::Confirmed,
            Phase::Ending { by, since, status, before: Some(_) } => {
                Phase::Ending { by, since, status, before: None }
            }
            _ => return,
        };
        dialog.heard = now;
        dialog.session = dialog.session.filter(|&end| end > now);
        self.reopened((at, key.tag), now);
        self.set_timer(at);
    }

    /// Reports that a side has accepted this proxy's BYE, so it still had the call.
    pub fn accepted_our_bye(&mut self, key: DialogKey, side: DialogSide) {
        let Some(at) = self.find(key.call) else { return };
        if let Some(dialog) = self.table[at].dialog(key.tag)
            && let Phase::Tested { alive, .. } = &mut dialog.phase
        {
            alive[DialogEnds::index(side)] = true;
        }
    }
}
