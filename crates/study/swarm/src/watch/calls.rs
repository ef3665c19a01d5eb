//! Call records of a proxy that keeps dialogs, checked against its messages. Each ended call has one record. It is
//! written before either party sees the end, and it states the actual end.

use super::ProcessRule;
use super::transactions::Cancelled;
use crate::call::{CallName, DialogName, call_of, dialogs_of};
use base::Instant;
use core::time::Duration;
use dialog::{CallRecord, Cause, DialogSide};
use node::ProxyReport;
use std::collections::{BTreeMap, BTreeSet};
use wire::Message;

/// Time after which an unanswered BYE is given up (RFC 3261 §17.1.2.2), and an ended call is forgotten: 64*T1.
const UNANSWERED: Duration = Duration::from_secs(32);

/// A dialog whose 2xx was passed back.
struct Dialog {
    /// Time of the last message that its end depends on.
    heard: Instant,
    /// The first BYE of each side.
    byes: BTreeMap<&'static str, Instant>,
    /// Statuses of the responses to the BYEs.
    answers: BTreeSet<u16>,
    /// End in the last record that is not final, unless the dialog continued afterwards.
    recorded_end: Option<Instant>,
}

impl Dialog {
    fn new(heard: Instant) -> Self {
        Self { heard, byes: BTreeMap::new(), answers: BTreeSet::new(), recorded_end: None }
    }
}

/// The calls of one proxy.
pub(super) struct Calls {
    silence: Duration,
    /// Dialogs answered in this life of the process, without a final record.
    open: BTreeMap<DialogName, Dialog>,
    /// Dialogs with a final record of this process, and when it was written.
    ended: BTreeMap<DialogName, Instant>,
    /// Dialogs from earlier processes.
    before: BTreeMap<DialogName, Dialog>,
    /// Calls whose INVITE passed an earlier process. Some may have been answered while no process ran.
    invited_before: BTreeSet<CallName>,
    /// Calls whose INVITE passed this process.
    invited: BTreeSet<CallName>,
    /// Failed calls among those in `invited`. The process need not know a dialog that is accepted after the failure.
    failed: BTreeSet<CallName>,
    /// Calls in which a BYE was sent, answered or not.
    hung_up: BTreeSet<CallName>,
    /// Records of this step that no message has explained yet.
    written: Vec<CallRecord>,
}

fn describe((call, callee): &DialogName) -> String {
    format!("call {} with {}", call.0.escape_ascii(), callee.escape_ascii())
}

impl Calls {
    pub(super) fn new(silence: Duration) -> Self {
        Self {
            silence,
            open: BTreeMap::new(),
            ended: BTreeMap::new(),
            before: BTreeMap::new(),
            invited_before: BTreeSet::new(),
            invited: BTreeSet::new(),
            failed: BTreeSet::new(),
            hung_up: BTreeSet::new(),
            written: Vec::new(),
        }
    }

    /// The process restarted. The new one knows of dialogs only what their tokens say.
    pub(super) fn restarted(&mut self) {
        let forgotten = core::mem::take(&mut self.open).into_iter();
        let ended = core::mem::take(&mut self.ended).into_keys();
        self.before.extend(forgotten.map(|(name, dialog)| (name, Dialog::new(dialog.heard))));
        // A BYE is repeated if its response was lost.
        self.before.extend(ended.map(|name| (name, Dialog::new(Instant::ZERO))));
        self.invited_before.append(&mut self.invited);
        self.failed.clear();
    }

    /// Records written in the step that follows.
    pub(super) fn written(&mut self, records: &[CallRecord]) {
        self.written.extend_from_slice(records);
    }

    /// An INVITE outside any dialog was forwarded.
    pub(super) fn invited(&mut self, invite: &Message<'_>) {
        let call = call_of(invite);
        self.failed.remove(&call);
        self.invited.insert(call);
    }

    /// A 2xx to an INVITE outside any dialog was passed back.
    pub(super) fn accepted(&mut self, now: Instant, response: &Message<'_>) {
        let call = call_of(response);
        let has_dialog = |callee: &Vec<u8>| {
            let name = (call.clone(), callee.clone());
            self.ended.contains_key(&name) || self.open.contains_key(&name)
        };
        let callee = response.to_tag().unwrap_or_default().to_vec();
        if has_dialog(&callee) {
            return;
        }
        let dialog = Dialog::new(now);
        // A dialog accepted after the call failed is found by its token alone, if messages of it come.
        let has_failed = self.failed.contains(&call);
        let dialogs = if has_failed { &mut self.before } else { &mut self.open };
        dialogs.insert((call, callee), dialog);
    }

    /// A final failure response to an INVITE outside any dialog was sent. `waits`: another INVITE of the call has no
    /// final response yet.
    pub(super) fn failed(&mut self, response: &Message<'_>, cancelled: Cancelled, waits: bool) {
        let call = call_of(response);
        let status = response.status().unwrap_or_default();
        let is_its = |record: &CallRecord| {
            record.accepted.is_none()
                && (record.about.call_id(), record.about.tag()) == (&call.0[..], &call.1[..])
        };
        let record = self.written.iter().position(is_its).map(|at| self.written.remove(at));
        let lives = self.lives(&call);
        if !(lives || waits) {
            self.failed.insert(call.clone());
        }
        let name = format_args!("call {}, {status}", call.0.escape_ascii());
        match record {
            None => ProcessRule::RecordMissing.holds(lives || waits || matches!(status, 401 | 407), name),
            Some(record) => {
                let cause = if cancelled == Cancelled::Yes { Cause::Cancelled } else { Cause::Refused };
                // A BYE before the answer cancels the call too, if it belongs to this INVITE.
                let may_be_cancelled = record.cause == Some(Cause::Cancelled)
                    && (self.hung_up.contains(&call) || cancelled == Cancelled::Perhaps);
                let fits = record.status == status && (record.cause == Some(cause) || may_be_cancelled);
                let recorded_end = (record.cause, record.status);
                ProcessRule::RecordWrong.holds(fits, format_args!("{name}: {recorded_end:?}, not {cause:?}"));
            }
        }
    }

    /// Returns the dialog of a message, and the side that sent the request.
    fn of(&self, message: &Message<'_>) -> Option<(DialogName, DialogSide)> {
        let mut both = dialogs_of(message).into_iter().zip([DialogSide::Caller, DialogSide::Callee]);
        both.find(|(name, _)| {
            self.open.contains_key(name) || self.ended.contains_key(name) || self.before.contains_key(name)
        })
    }

    /// Returns the dialog of a request whose 2xx never passed: the token in the INVITE identified this proxy to the
    /// callee. A process that forwarded the INVITE treats such a dialog as an earlier one if the call has failed, or
    /// another callee answered first.
    fn of_before(&mut self, request: &Message<'_>) -> Option<(DialogName, DialogSide)> {
        let mut both = dialogs_of(request).into_iter().zip([DialogSide::Caller, DialogSide::Callee]);
        let is_forgotten = |call: &CallName| {
            self.invited_before.contains(call) || self.failed.contains(call) || self.lives(call)
        };
        let found = both.find(|((call, _), _)| is_forgotten(call))?;
        self.before.insert(found.0.clone(), Dialog::new(Instant::ZERO));
        Some(found)
    }

    /// Returns true if a callee has answered this call, even if it has ended.
    fn lives(&self, call: &CallName) -> bool {
        self.ended.keys().chain(self.open.keys()).any(|(other, _)| other == call)
    }

    fn dialog(&mut self, name: &DialogName) -> Option<&mut Dialog> {
        self.open.get_mut(name).or_else(|| self.before.get_mut(name))
    }

    /// A BYE was forwarded.
    pub(super) fn hung_up(&mut self, now: Instant, bye: &Message<'_>) {
        self.hung_up.extend(dialogs_of(bye).map(|(call, _)| call));
        let Some((name, side)) = self.of(bye).or_else(|| self.of_before(bye)) else { return };
        if let Some(dialog) = self.dialog(&name) {
            dialog.heard = now;
            dialog.byes.entry(side.name()).or_insert(now);
        }
    }

    /// A response to a forwarded BYE came.
    pub(super) fn heard(&mut self, response: &Message<'_>) {
        let Some((name, _)) = self.of(response) else { return };
        if let (Some(dialog), Some(status)) = (self.dialog(&name), response.status()) {
            dialog.answers.insert(status);
        }
    }

    /// The final response to a forwarded BYE was passed back. A record must exist, final or not, unless the response is
    /// a challenge.
    pub(super) fn bye_answered(&mut self, now: Instant, response: &Message<'_>) {
        let Some((name, _)) = self.of(response) else { return };
        let status = response.status().unwrap_or_default();
        if let Some(dialog) = self.dialog(&name) {
            dialog.answers.insert(status);
        }
        self.justify(now);
        // A dialog that this process has seen from the start is never restored from its token.
        let is_told = self.open.contains_key(&name) || !self.invited.contains(&name.0);
        if !matches!(status, 401 | 407) {
            let is_ended = self.ended.contains_key(&name);
            let has_record =
                is_ended || self.dialog(&name).is_some_and(|dialog| dialog.recorded_end.is_some());
            ProcessRule::RecordMissing
                .holds(has_record || !is_told, format_args!("{}, BYE {status}", describe(&name)));
        }
    }

    /// Ends the step: every record must have been explained.
    pub(super) fn finished(&mut self, now: Instant) {
        self.justify(now);
        let calls: Vec<_> =
            self.written.drain(..).map(|record| record.about.call_id().escape_ascii().to_string()).collect();
        ProcessRule::RecordTwice
            .holds(calls.is_empty(), format_args!("of a call that was not refused now: {calls:?}"));
    }

    /// Checks the records of dialogs.
    fn justify(&mut self, now: Instant) {
        for record in core::mem::take(&mut self.written) {
            match &record.accepted {
                None => self.written.push(record),
                Some(accepted) => {
                    let call = (record.about.call_id().to_vec(), record.about.tag().to_vec());
                    self.ends(now, (call, accepted.tag.to_vec()), &record);
                }
            }
        }
    }

    fn ends(&mut self, now: Instant, name: DialogName, record: &CallRecord) {
        if let Some(ended) = self.ended.get(&name) {
            // A BYE that comes later finds the call again by its token.
            let is_forgotten = record.is_found_again() && now >= *ended + UNANSWERED;
            return ProcessRule::RecordTwice.holds(is_forgotten, format_args!("{}", describe(&name)));
        }
        let dialogs = if record.is_found_again() { &mut self.before } else { &mut self.open };
        let Some(dialog) = dialogs.get_mut(&name) else {
            ProcessRule::RecordWrong.is_broken(format_args!("{} is not a known dialog", describe(&name)))
        };
        let Dialog { heard, byes, answers, recorded_end } = dialog;
        let (cause, by, status) = (record.cause, record.by, record.bye_status);
        let is_silent = now >= record.ended + self.silence;
        let fits = match cause {
            Some(Cause::Bye) => {
                let side = by.map(DialogSide::name).unwrap_or_default();
                let since = byes.get(side).copied();
                // This proxy refused the BYE, which was not forwarded.
                let is_refused = since.is_none() && !record.is_final && (300..700).contains(&status);
                let is_given_up = since.is_some_and(|since| now >= since + UNANSWERED);
                let is_answered = answers.contains(&status) || (status == 408 && is_given_up);
                let is_answered = since.is_some() && is_answered;
                let is_proved = (200..300).contains(&status) || byes.len() == 2 || is_silent;
                byes.entry(side).or_insert(record.ended);
                is_refused
                    || (is_answered && (is_proved || !record.is_final))
                    || (is_silent && recorded_end.is_some())
            }
            Some(Cause::Reopened) => recorded_end.is_some() && !record.is_final,
            Some(Cause::Lost) => now >= *heard + self.silence && record.is_final,
            _ => false,
        };
        let hung_up = format!("{byes:?} with {answers:?}, last recorded end {recorded_end:?}");
        ProcessRule::RecordWrong.holds(
            fits,
            format_args!("{}: {cause:?} by {by:?} with {status}, not {hung_up}", describe(&name)),
        );
        let is_shorter = recorded_end.is_some_and(|recorded_end| record.ended < recorded_end)
            && !(200..300).contains(&status);
        ProcessRule::RecordWrong.holds(!is_shorter, format_args!("{}: shorter than before", describe(&name)));
        *recorded_end = (cause != Some(Cause::Reopened)).then_some(record.ended);
        if record.is_final {
            dialogs.remove(&name);
            self.ended.insert(name, now);
        }
    }

    /// Checks the number of calls that the proxy reports.
    pub(super) fn audit(&self, report: &ProxyReport) {
        let held = report.calls.as_ref().map_or(0, |calls| calls.answered);
        let go_on = self.open.len() + self.before.len();
        ProcessRule::TooManyCalls.holds(held <= go_on, format_args!("{held}, {go_on} go on"));
    }
}
