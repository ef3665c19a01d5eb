//! One call of a caller on bytes: a [`user_agent::Uac`], its transactions and its dialog.
//!
//! [`user_agent::Uac`] decides the reaction to each event, the transactions decide retransmissions. This file turns
//! messages into events, and acts into messages.
use super::CallerConfig;
use super::texts::{Leg, Texts};
use super::token::Token;
use crate::dialog::Dialog;
use crate::timers::{NEVER, Timed};
use crate::user_agent::{self, UacAct, UacActs, UacEvent};
use crate::{AgentEvent, CallOutcome, CallResults};
use base::{Instant, Outbox};
use core::time::Duration;
use transaction::{Send, StatusClass, Tell, Timer, TransactionEvent as Happening, TransactionKind};
use wire::{Message, Method};

/// Everything that a step of a call uses besides the call itself.
pub(super) struct Step<'a> {
    pub(super) now: Instant,
    pub(super) token: Token,
    pub(super) config: &'a CallerConfig,
    pub(super) texts: &'a Texts,
    /// Server names found in responses so far.
    pub(super) servers: &'a [Box<str>],
    pub(super) results: &'a mut CallResults,
    pub(super) out: &'a mut Outbox<AgentEvent>,
}

impl Step<'_> {
    /// Sends a request to the configured target.
    fn send(&mut self, write: impl FnOnce(&Texts, Token, &mut Vec<u8>)) {
        let (texts, token) = (self.texts, self.token);
        self.out.send(self.config.flow(token.slot, self.config.target), |bytes| write(texts, token, bytes));
    }

    fn send_ack(&mut self, dialog: &Dialog) {
        let (texts, token) = (self.texts, self.token);
        let to = self.config.flow(token.slot, dialog.next_hop);
        self.out.send(to, |bytes| texts.ack(token, dialog, bytes));
    }

    fn send_bye(&mut self, leg: Leg, dialog: &Dialog) {
        let (texts, token) = (self.texts, self.token);
        let to = self.config.flow(token.slot, dialog.next_hop);
        self.out.send(to, |bytes| texts.bye(token, leg, dialog, bytes));
    }

    fn client(&self, kind: TransactionKind) -> Timed {
        Timed::client(self.now, kind, self.config.transport.into(), &self.config.timers)
    }
}

/// A call, from its INVITE until no message of it can arrive any more.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: u64,
    number: u64,
    /// Scheduled start.
    scheduled: Instant,
    /// Time of the alarm that is set for this call.
    pub(super) alarm: Instant,
    /// Index of the Server name in its responses.
    pub(super) server: Option<u32>,
    uac: user_agent::Uac,
    /// Time of the UAC's next alarm. Once the call is over: time until which it answers repeated and late messages.
    wake: Instant,
    invite: Timed,
    /// Transaction of the CANCEL before there is a dialog, of the BYE afterwards.
    other: Timed,
    /// Time at which the BYE was due.
    bye_due: Instant,
    dialog: Option<Dialog>,
}

impl Call {
    /// Returns a call that [`start`](Self::start) has yet to start.
    pub(super) fn new(id: u64, number: u64, scheduled: Instant, holding: Duration) -> Self {
        Self {
            id,
            number,
            scheduled,
            alarm: NEVER,
            server: None,
            uac: user_agent::Uac::new(holding),
            wake: NEVER,
            invite: Timed::over(),
            other: Timed::over(),
            bye_due: NEVER,
            dialog: None,
        }
    }

    /// Sends the INVITE.
    pub(super) fn start(&mut self, step: &mut Step<'_>) {
        step.send(Texts::invite);
        let lag = (step.now - self.scheduled).as_micros() as u64;
        step.results.start_lag_max_us = step.results.start_lag_max_us.max(lag);
        step.results.calls_started += 1;
        step.results.calls_in_progress += 1;
        self.invite = step.client(TransactionKind::Invite);
        self.wake = self.scheduled + step.config.answer_wait;
    }

    /// Time of the next [`expire`](Self::expire); `None` when the call can be dropped.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let deadline = self.wake.min(self.invite.deadline()).min(self.other.deadline());
        (deadline != NEVER).then_some(deadline)
    }

    /// Ends the call as soon as possible. Returns whether [`deadline`](Self::deadline) is now earlier.
    pub(super) fn end_at(&mut self, now: Instant) -> bool {
        self.uac.hurry();
        let sooner = now < self.wake && !self.uac.is_over();
        if sooner {
            self.wake = now;
        }
        sooner
    }

    /// Handles the alarm and the timers that are due.
    pub(super) fn expire(&mut self, step: &mut Step<'_>) {
        let (now, timers) = (step.now, &step.config.timers);
        if now >= self.wake {
            let due = core::mem::replace(&mut self.wake, NEVER);
            self.tell(step, UacEvent::Alarm, due);
        }
        if let Some(fired) = self.invite.due(now) {
            let did = self.invite.on(now, fired, timers);
            if did.send == Send::Again {
                step.results.retransmissions_sent += 1;
                step.send(Texts::invite);
            }
            if did.tell == Tell::Timeout {
                self.tell(step, UacEvent::InviteLost, now);
            }
        }
        if let Some(fired) = self.other.due(now) {
            let did = self.other.on(now, fired, timers);
            if did.send == Send::Again {
                step.results.retransmissions_sent += 1;
                match &self.dialog {
                    Some(dialog) => step.send_bye(Leg::Bye, dialog),
                    None => step.send(Texts::cancel),
                }
            }
            // Without an answer to the CANCEL, the INVITE's own timer decides (RFC 3261 §9.1).
            if did.tell == Tell::Timeout && self.dialog.is_some() {
                self.hung_up(step, UacEvent::ByeLost);
            }
        }
    }

    /// Handles a response to one of the call's requests.
    pub(super) fn receive(&mut self, step: &mut Step<'_>, leg: Leg, response: &Message<'_>, status: u16) {
        let (now, timers) = (step.now, &step.config.timers);
        let event = Happening::Response(StatusClass::of(status));
        match (leg, response.cseq().method) {
            (Leg::Invite, Method::Invite) => {
                let did = self.invite.on(now, event, timers);
                if let Send::Ack | Send::Again = did.send {
                    step.results.retransmissions_sent += u64::from(did.send == Send::Again);
                    step.send(|texts, token, bytes| texts.refusal_ack(token, response, bytes));
                }
                match status {
                    // The UAC gets each 2xx, even after the transaction is over (RFC 3261 §13.2.2.4, §18.1.2).
                    200..=299 => self.answered(step, response),
                    _ if did.tell != Tell::Message => {}
                    100..=199 => self.tell(step, UacEvent::Provisional, now),
                    _ => self.tell(step, UacEvent::Refused(status), now),
                }
            }
            (Leg::Invite, Method::Cancel) if self.dialog.is_none() => {
                self.other.on(now, event, timers);
            }
            (Leg::Bye, Method::Bye) if self.dialog.is_some() => {
                let did = self.other.on(now, event, timers);
                if did.tell == Tell::Message && status >= 200 {
                    step.results.bye_response.record(now - self.bye_due);
                    self.hung_up(step, UacEvent::ByeAnswered(status));
                }
            }
            // The BYE of a fork is sent for each 2xx that the fork repeats: responses to that BYE change nothing.
            _ => {}
        }
    }

    fn answered(&mut self, step: &mut Step<'_>, response: &Message<'_>) {
        let dialog = || {
            let CallerConfig { uri, target, outbound, .. } = step.config;
            Dialog::of_caller(response, uri, *target, *outbound)
        };
        match &self.dialog {
            Some(dialog) if dialog.has_remote_tag(response.to_tag()) => {
                step.results.retransmissions_sent += 1;
                self.tell(step, UacEvent::Answered, step.now);
            }
            None if !self.uac.is_over() => {
                self.dialog = Some(dialog());
                step.results.calls_answered += 1;
                if let Some(server) = self.server {
                    step.results.count_server(&step.servers[server as usize]);
                }
                step.results.invite_response.record(step.now - self.scheduled);
                self.other = Timed::over();
                self.tell(step, UacEvent::Answered, step.now);
            }
            other => {
                let event = if other.is_some() { UacEvent::ForkAnswered } else { UacEvent::Answered };
                let fork = dialog();
                step.results.forks_hung_up += 1;
                let acts = self.uac.on(step.now, event);
                self.act(step, acts, step.now, Some(&fork));
            }
        }
    }

    /// Handles the other side's BYE. Returns whether it belongs to this call and gets a 200.
    pub(super) fn receive_bye(&mut self, step: &mut Step<'_>, request: &Message<'_>) -> bool {
        let known = self.dialog.as_ref().is_some_and(|dialog| dialog.has_remote_tag(request.from_tag()));
        if known {
            self.tell(step, UacEvent::Bye, step.now);
        }
        known
    }

    /// The BYE was answered or timed out. From now on only a 2xx needs a reaction, either a repeated one or one from
    /// another party. The INVITE's transaction has the time limit (RFC 3261 §13.2.2.4, RFC 6026 §7.2, timer M).
    fn hung_up(&mut self, step: &mut Step<'_>, event: UacEvent) {
        self.tell(step, event, step.now);
        self.wake = NEVER;
    }

    /// Passes an event to the UAC. `due` is the instant at which the event was due.
    fn tell(&mut self, step: &mut Step<'_>, event: UacEvent, due: Instant) {
        let acts = self.uac.on(step.now, event);
        self.act(step, acts, due, None);
    }

    /// Carries out the acts of the UAC: in the dialog `fork` of a second 2xx, otherwise in the call's own dialog.
    fn act(&mut self, step: &mut Step<'_>, acts: UacActs, due: Instant, fork: Option<&Dialog>) {
        for act in acts {
            match (act, fork.or(self.dialog.as_ref())) {
                (UacAct::Ack, Some(dialog)) => step.send_ack(dialog),
                (UacAct::Bye, Some(dialog)) if fork.is_some() => step.send_bye(Leg::ForkBye, dialog),
                (UacAct::Bye, Some(dialog)) => {
                    step.send_bye(Leg::Bye, dialog);
                    (self.bye_due, self.wake) = (due, NEVER);
                    self.other = step.client(TransactionKind::NonInvite);
                }
                // ACK and BYE need an answer, and an answer creates a dialog.
                (UacAct::Ack | UacAct::Bye, None) => {}
                (UacAct::Cancel, _) => {
                    step.send(Texts::cancel);
                    self.invite.on(step.now, Happening::Cancel, &step.config.timers);
                    self.other = step.client(TransactionKind::NonInvite);
                }
                (UacAct::Alarm(at), _) => self.wake = at,
                (UacAct::Ended(outcome), _) => self.finish(step, outcome),
            }
        }
    }

    /// Counts the call as over.
    fn finish(&mut self, step: &mut Step<'_>, outcome: CallOutcome) {
        let results = &mut *step.results;
        results.calls_in_progress -= 1;
        match outcome {
            CallOutcome::Completed => results.calls_completed += 1,
            CallOutcome::Refused(status) => {
                results.refusal_response.record(step.now - self.scheduled);
                *results.calls_refused.entry(status).or_default() += 1;
            }
            CallOutcome::AnsweredLate => results.calls_answered_late += 1,
            CallOutcome::Abandoned => results.calls_abandoned += 1,
            CallOutcome::InviteTimeout => results.invite_timeouts += 1,
            CallOutcome::ByeTimeout => results.bye_timeouts += 1,
            CallOutcome::ByeRefused(status) => *results.bye_refused.entry(status).or_default() += 1,
        }
        step.out.event(AgentEvent::CallEnded { call: self.number, outcome });
        self.other = Timed::over();
        // The other side's BYE may be repeated (timer J, RFC 3261 §17.2.2), and a 2xx may come late.
        self.wake = step.now + step.config.timers.value(Timer::J);
    }
}
