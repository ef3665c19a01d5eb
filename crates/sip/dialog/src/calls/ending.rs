//! Ends of calls: proved ends, timers, and watched calls.

use super::{CallEvent, Calls, HangUp};
use crate::call::{Dialog, DialogEnds, DialogSide, End, LATE, Phase};
use crate::record::{Cause, RecordEvent};
use base::Instant;

impl Calls {
    /// Ends calls whose time is over, up to a limit. [`deadline`](Self::deadline) shows whether more are due.
    pub fn expire(&mut self, now: Instant) {
        const MOST: usize = 64;
        for _ in 0..MOST {
            let Some((_, at)) = self.timers.pop(now) else { return };
            // The timer has fired, so its key is invalid.
            self.table[at].timer.0 = u32::MAX;
            self.expire_one(now, at);
            self.bound_watched();
        }
    }

    /// Ends the answered dialogs of the calls with this Call-ID, on behalf of the operator: both sides get a BYE. Returns
    /// their number. The addressing of the sides is known only if calls have a time limit. Takes time in proportion to
    /// the number of calls.
    pub fn hang_up_call(&mut self, now: Instant, call_id: &[u8]) -> usize {
        let calls = self.table.iter().filter(|(_, call)| call.about.call_id() == call_id);
        let dialogs = calls.flat_map(|(at, call)| call.dialogs.iter().map(move |dialog| (at, dialog)));
        let can_end = |dialog: &Dialog| dialog.phase == Phase::Confirmed && dialog.ends.is_some();
        let ended: Vec<_> =
            dialogs.filter(|(_, dialog)| can_end(dialog)).map(|(at, dialog)| (at, dialog.tag)).collect();
        for of in &ended {
            self.hang_up(*of);
            let by = Some(DialogSide::Proxy);
            self.end(*of, now, End { at: now, by, cause: Cause::Operator, bye_status: 0 });
            self.set_timer(of.0);
        }
        ended.len()
    }

    fn expire_one(&mut self, now: Instant, at: u32) {
        let tags: Vec<_> = self.table[at].dialogs.iter().map(|dialog| dialog.tag).collect();
        for tag in tags {
            self.expire_dialog(now, (at, tag));
        }
        let call = &mut self.table[at];
        call.dialogs.retain(|dialog| !matches!(dialog.phase, Phase::Over(until) if until <= now));
        let is_silent = now >= call.heard + self.settings.silence;
        if call.passes > 0 && is_silent {
            // The INVITE will get no response: a working proxy would have sent a response at Timer C at the latest.
            call.passes = 0;
            call.drop_early();
        }
        self.set_timer_or_remove(at);
    }

    fn expire_dialog(&mut self, now: Instant, of: (u32, u64)) {
        let settings = &self.settings;
        let Some(dialog) = self.table[of.0].dialog(of.1) else { return };
        let has_had_its_time = dialog.time_limit(settings).is_some_and(|limit| now >= limit);
        let by_nobody = |cause| End { at: now, by: None, cause, bye_status: 0 };
        let by_us = |at| End { at, by: Some(DialogSide::Proxy), cause: Cause::TimeLimit, bye_status: 0 };
        match dialog.phase {
            Phase::Ending { by, since, status, .. } if now >= since + LATE => {
                let at = since.max(dialog.alive);
                self.watch(of, End { at, by: Some(by), cause: Cause::Bye, bye_status: status });
            }
            Phase::Watched(end) if now >= end.at + settings.silence => self.end(of, now, end),
            Phase::Watched(end) if has_had_its_time => {
                // If a party still talks after its unproved end, the time limit ends the call as well.
                dialog.phase = Phase::Tested { end, since: now, alive: [false; 2] };
                self.hang_up(of);
            }
            Phase::Tested { end, since, alive } if now >= since + LATE => {
                // The side that signalled the end proves nothing by its answer.
                let is_alive = |side| end.by == Some(side) || alive[DialogEnds::index(side)];
                let went_on = is_alive(DialogSide::Caller) && is_alive(DialogSide::Callee);
                self.end(of, now, if went_on { by_us(since) } else { end });
            }
            // [8.3-1] No BYE is sent.
            Phase::Confirmed if dialog.session.is_some_and(|end| now >= end) => {
                self.counts.expired += 1;
                self.watch(of, by_nobody(Cause::SessionExpired));
            }
            Phase::Confirmed if has_had_its_time => {
                self.counts.limited += 1;
                self.hang_up(of);
                self.end(of, now, by_us(now));
            }
            Phase::Confirmed if now >= dialog.heard + settings.silence => {
                self.counts.lost += 1;
                self.end(of, now, by_nobody(Cause::Lost));
            }
            _ => {}
        }
    }

    fn hang_up(&mut self, (at, tag): (u32, u64)) {
        let call = &mut self.table[at];
        let call_id = call.about.call_id().into();
        let ends = call.dialog(tag).and_then(|dialog| Some((*dialog.ends.take()?, dialog.cseq)));
        if let Some((ends, cseq)) = ends {
            self.events.push_back(CallEvent::HangUp(Box::new(HangUp { call_id, ends, cseq })));
        }
    }

    /// Ends a dialog for good: emits its last record, and remembers the dialog for a while.
    pub(super) fn end(&mut self, of: (u32, u64), now: Instant, end: End) {
        self.emit_record(of, (end.at, end.by, end.cause, end.bye_status), true);
        if let Some(dialog) = self.table[of.0].dialog(of.1) {
            (dialog.reason, dialog.ends) = (Box::default(), None);
            dialog.phase = Phase::Over(now + LATE);
        }
    }

    /// Writes an unproved end of a dialog, and watches the dialog. If too many dialogs are watched, the oldest ones end
    /// for good.
    pub(super) fn watch(&mut self, of: (u32, u64), end: End) {
        self.emit_record(of, (end.at, end.by, end.cause, end.bye_status), false);
        let call = self.table[of.0].key;
        if let Some(dialog) = self.table[of.0].dialog(of.1) {
            dialog.phase = Phase::Watched(end);
            self.watched.push_back((super::DialogKey { call, tag: of.1 }, end.at));
        }
    }

    /// Writes a record that a watched dialog is active again. It is written now, since this process may be killed
    /// before the dialog ends.
    pub(super) fn reopened(&mut self, of: (u32, u64), now: Instant) {
        self.counts.reopened += 1;
        self.emit_record(of, (now, None, Cause::Reopened, 0), false);
    }

    pub(super) fn emit_record(
        &mut self,
        (at, tag): (u32, u64),
        (ended, by, cause, bye_status): (Instant, Option<DialogSide>, Cause, u16),
        is_final: bool,
    ) {
        let call = &self.table[at];
        if let Some(dialog) = call.dialogs.iter().find(|dialog| dialog.tag == tag) {
            let told = (by, Some(cause), bye_status);
            let record = call.record(dialog, (RecordEvent::Ended, ended), told, is_final);
            self.events.push_back(CallEvent::Record(Box::new(record)));
        }
    }

    pub(super) fn set_timer_or_remove(&mut self, at: u32) {
        if self.table[at].passes == 0 && self.table[at].dialogs.is_empty() {
            self.remove(at);
        } else {
            self.set_timer(at);
        }
    }
}
