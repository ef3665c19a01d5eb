//! Requests within dialogs, and their answers: what they say of where a call stands.

use super::{Calls, DialogKey, ForwardedBye, Heard, Invited, begun, cut, ends_at};
use crate::about::About;
use crate::call::{Call, End, Ends, LATE, Phase, Proof, Side};
use crate::record::{Accepted, Began, Cause};

use base::Instant;
use core::time::Duration;

impl Calls {
    /// A request within a dialog comes by. Returns what is known of the dialog; `None`: nothing.
    pub fn heard(&mut self, now: Instant, key: DialogKey, by: Side, cseq: u32) -> Option<Heard> {
        let at = self.find(key.call)?;
        let dialog = self.table[at].dialog(key.tag)?;
        dialog.heard = now;
        let last = &mut dialog.cseq[Ends::index(by)];
        *last = (*last).max(cseq);
        let heard = if dialog.is_watched() { Heard::Watched } else { Heard::Known };
        self.set_timer(at);
        Some(heard)
    }

    /// A request has come that belongs to a dialog from before a restart: its token says since when, in Unix seconds.
    ///
    /// Returns whether there is room for it.
    pub fn found(&mut self, now: Instant, key: DialogKey, about: About, tag: &[u8], began: u32) -> bool {
        let has_failed = self.failed.get(&key.call).is_some_and(|&then| now < then + LATE);
        let at = match self.find(key.call) {
            // What this process has seen begin it does not find: the dialog was not confirmed, or is another's.
            Some(at) if matches!(self.table[at].began, Began::Seen(_)) => return true,
            Some(at) => at,
            None if has_failed => return true,
            None if !self.has_room(key.call) => {
                self.counts.refused += 1;
                return false;
            }
            None => {
                let invited = Invited { about, unix: began, cseq: 0, is_spiral: false };
                let call = begun(now, key.call, &invited);
                self.insert(Call { passes: 0, began: Began::Token(began), ..call })
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

    /// A BYE comes by. What comes back is to be given to [`bye_answered`](Self::bye_answered).
    pub fn bye(
        &mut self,
        now: Instant,
        key: DialogKey,
        by: Side,
        reason: &[u8],
        proof: Proof,
    ) -> ForwardedBye {
        let mut bye = ForwardedBye { by, since: now, is_proved: false };
        let Some(at) = self.find(key.call) else { return bye };
        let Some(dialog) = self.table[at].dialog(key.tag) else { return bye };
        bye.is_proved = dialog.is_led(by.other(), proof);
        let before = if let Phase::Watched(end) = dialog.phase { Some(end) } else { None };
        match &mut dialog.phase {
            // Whether one that was watched had ended, the answer tells.
            Phase::Confirmed | Phase::Watched(_) => {
                dialog.phase = Phase::Ending { by, since: now, status: 408, before };
                dialog.reason = cut(reason).into();
            }
            // Its INVITE gets its failure yet.
            Phase::Early => self.cancelled(key.call, by, reason),
            // It has crossed ours.
            Phase::Tested { alive, .. } => alive[Ends::index(by)] |= bye.is_proved,
            Phase::Over(_) => dialog.ends = None,
            Phase::Ending { .. } => {}
        }
        self.set_timer(at);
        bye
    }

    /// [15.1.1-1] The final response to a BYE goes back. With a 2xx to one that went to its target the dialog is
    /// over. A challenge does not end it: the BYE comes again. After any other answer it is watched, for the two
    /// sides may talk on.
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
        // It ended when the BYE came, unless both sides have gone on after that.
        let end = End { at: since.max(dialog.alive), by: Some(by), cause: Cause::Bye, bye_status: status };
        match before {
            _ if is_accepted && is_proved => self.end((at, key.tag), now, end),
            // The other side had hung up before: both have, whatever the answer is.
            Some(End { by: Some(earlier), .. }) if earlier != by && is_proved => {
                self.end((at, key.tag), now, end);
            }
            // It says again what it has said before, to as little effect.
            Some(earlier) if earlier.by == Some(by) && !is_accepted => {
                dialog.phase = Phase::Watched(earlier);
            }
            Some(earlier) => self.watch((at, key.tag), End { at: end.at.max(earlier.at), ..end }),
            None => self.watch((at, key.tag), end),
        }
        self.set_timer(at);
        self.bound_watched();
    }

    /// [8.2-4] A 2xx to a request that refreshes the session goes back: it lasts so long from now. `contacts` are
    /// those of caller and callee, with their hashes as in [`DialogPath`](crate::DialogPath), where they are told:
    /// [12.2.2-1] requests go there from now on, if this one of `by` went to its target. Whoever else has answered it
    /// says nothing about the callee.
    pub fn refreshed(
        &mut self,
        now: Instant,
        key: DialogKey,
        session: Option<Duration>,
        (by, proof): (Side, Proof),
        contacts: [Option<(&[u8], u64)>; 2],
    ) {
        self.goes_on(now, key);
        let Some(at) = self.find(key.call) else { return };
        let Some(dialog) = self.table[at].dialog(key.tag) else { return };
        (dialog.session, dialog.heard) = (ends_at(now, session), now);
        let is_led = dialog.is_led(by.other(), proof);
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

    /// A 2xx to a request within a dialog goes back: both sides go on with it. One that is watched is reopened.
    pub fn goes_on(&mut self, now: Instant, key: DialogKey) {
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

    /// A side has accepted the BYE of ours: it still had the call.
    pub fn took_our_bye(&mut self, key: DialogKey, side: Side) {
        let Some(at) = self.find(key.call) else { return };
        if let Some(dialog) = self.table[at].dialog(key.tag)
            && let Phase::Tested { alive, .. } = &mut dialog.phase
        {
            alive[Ends::index(side)] = true;
        }
    }
}
